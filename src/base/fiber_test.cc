#include "base/fiber.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ropeway::base {
namespace {

TEST(FiberTest, GoesOnWhereItPaused) {
  std::string ran;
  Fiber fiber([&](const Fiber::PauseFn& pause) {
    for (const char c : std::string("abc")) {
      ran += c;
      EXPECT_FALSE(pause());
    }
    ran += '.';
  });
  EXPECT_EQ(ran, "");
  for (const char* const so_far : {"a", "ab", "abc"}) {
    EXPECT_FALSE(fiber.Run());
    EXPECT_EQ(ran, so_far);
  }
  EXPECT_TRUE(fiber.Run());
  EXPECT_EQ(ran, "abc.");
}

// Pauses at the bottom of `depth` calls. Each has something to free.
int Deep(int depth, const Fiber::PauseFn& pause) {
  const auto held = std::make_unique<std::vector<int>>(100, depth);
  if (depth > 0) return Deep(depth - 1, pause) + held->front() - depth + 1;
  if (pause()) throw std::runtime_error("ended");
  return 1;
}

TEST(FiberTest, PausesWithinCallsOnAnyThread) {
  constexpr int kFibers = 20;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<int> sums(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    fibers.push_back(std::make_unique<Fiber>([&sums, i](const Fiber::PauseFn& pause) {
      for (int k = 0; k < 5; ++k) sums[static_cast<size_t>(i)] += Deep(100, pause);
    }));
  }
  for (int k = 0; k <= 5; ++k) {
    std::thread([&] {
      for (const auto& fiber : fibers) EXPECT_EQ(fiber->Run(), k == 5);
    }).join();
  }
  EXPECT_EQ(sums, std::vector<int>(kFibers, 5 * 101));
}

TEST(FiberTest, ThrowsWhatItsFunctionThrows) {
  Fiber fiber([](const Fiber::PauseFn& pause) {
    // Exceptions of its own, before and after a pause, are no one else's.
    for (int i = 0; i < 2; ++i) {
      try {
        throw std::runtime_error("its own");
      } catch (const std::runtime_error&) {
      }
      pause();
    }
    throw std::invalid_argument("not good");
  });
  EXPECT_FALSE(fiber.Run());
  try {
    throw std::runtime_error("outside");
  } catch (const std::runtime_error& error) {
    // A piece may run while an exception is handled outside.
    EXPECT_FALSE(fiber.Run());
    EXPECT_STREQ(error.what(), "outside");
  }
  EXPECT_THROW(fiber.Run(), std::invalid_argument);
}

TEST(FiberTest, EndsBeforeItIsDestroyed) {
  bool ended = false;
  auto held = std::make_shared<int>(1);
  {
    Fiber fiber([&ended, held](const Fiber::PauseFn& pause) {
      const std::shared_ptr<int> inside = held;
      while (!pause()) {
      }
      EXPECT_TRUE(pause()) << "no pause any more";
      ended = true;
      Deep(10, pause);  // Throws; nothing catches it outside.
    });
    EXPECT_FALSE(fiber.Run());
    EXPECT_FALSE(fiber.Run());
    EXPECT_FALSE(ended);
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(held.use_count(), 1);
  // One that never ran does not begin.
  ended = false;
  {
    const Fiber fiber([&ended](const Fiber::PauseFn&) { ended = true; });
  }
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace ropeway::base
