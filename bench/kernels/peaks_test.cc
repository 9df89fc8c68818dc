#include "bench/kernels/peaks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/test_util.h"

namespace ropeway::bench {
namespace {

TEST(PeakLoopsTest, EveryTableThatRunsHereHasLoopsOfItsName) {
  int tables = 0;
  for (const char* const* name = kTableNames; *name != nullptr; ++name) {
    ++tables;
    const PeakLoops* loops = PeakLoopsByName(*name);
    ASSERT_EQ(loops != nullptr, kernels::KernelsByName(*name) != nullptr) << *name;
    if (loops == nullptr) continue;
    EXPECT_STREQ(loops->name, *name);
  }
  EXPECT_EQ(tables, 3);
  EXPECT_EQ(PeakLoopsByName("no such table"), nullptr);
}

TEST(PeakLoopsTest, TheSweepReadsEveryByte) {
  constexpr size_t kBytes = 4 * kSweepBytes;
  kernels::testing::AlignedBytes memory(kBytes);
  uint64_t expected = 0;
  for (size_t i = 0; i < kBytes; ++i) memory.get()[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (size_t i = 0; i < kBytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, memory.get() + i, 8);
    expected += word;
  }
  for (const char* const* name = kTableNames; *name != nullptr; ++name) {
    const PeakLoops* loops = PeakLoopsByName(*name);
    if (loops == nullptr) continue;
    EXPECT_EQ(loops->sweep(memory.get(), kBytes), expected) << *name;
  }
}

// A loop of whose chains one was left out would be too fast to be a limit.
TEST(PeakLoopsTest, TheResultIsOfAllOperationsThatAreCounted) {
  for (const char* const* name = kTableNames; *name != nullptr; ++name) {
    const PeakLoops* loops = PeakLoopsByName(*name);
    if (loops == nullptr || std::string(*name) == "reference") continue;
    for (const int64_t rounds : {int64_t{1}, int64_t{1000}}) {
      // Every product is 3 * -5; 32-bit lanes wrap, two to a 64-bit word.
      const auto products = static_cast<int64_t>(loops->int8_ops / 2) * rounds;
      const int words = std::string(*name) == "avx2" ? 4 : 8;
      const auto lane = static_cast<uint32_t>(products / (2 * words) * -15);
      const uint64_t word = (uint64_t{lane} << 32) | lane;
      EXPECT_EQ(loops->int8_dot(rounds), word * static_cast<uint64_t>(words)) << *name;
    }
  }
  uint32_t sum = 0;
  for (int c = 0; c < 16; ++c) sum += static_cast<uint32_t>((c + 3) * (c - 5));
  EXPECT_EQ(static_cast<uint32_t>(kReferencePeaks.int8_dot(3)), 3 * sum);
}

TEST(PeakLoopsTest, MoreRoundsGiveAnotherSum) {
  for (const char* const* name = kTableNames; *name != nullptr; ++name) {
    const PeakLoops* loops = PeakLoopsByName(*name);
    if (loops == nullptr) continue;
    EXPECT_NE(loops->f32_fma(1), loops->f32_fma(2)) << *name;
  }
}

}  // namespace
}  // namespace ropeway::bench
