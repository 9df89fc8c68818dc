#include "net/name_lookup.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/test_http_pool.h"

namespace ropeway::net {
namespace {

using boost::system::error_code;

// A resolver that is silent until Open, and then finds nothing.
class SilentResolver {
 public:
  ~SilentResolver() { Open(); }
  void Open() {
    if (!opened_.exchange(true)) open_.set_value();
  }
  NameLookup::Resolve Function() {
    return [state = state_, opened = future_](const std::string&, uint16_t, error_code* error) {
      ++*state;
      opened.wait();
      *error = boost::asio::error::host_not_found;
      return HttpEndpoints();
    };
  }
  int asked() const { return *state_; }
  // Whether functions are left or run.
  bool in_use() const { return state_.use_count() > 1; }

 private:
  std::promise<void> open_;
  const std::shared_future<void> future_ = open_.get_future().share();
  const std::shared_ptr<std::atomic<int>> state_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> opened_ = false;
};

struct LookedUp {
  int calls = 0;
  error_code error;
  size_t found = 0;
};

NameLookup::Done Into(LookedUp* result) {
  return [result](const error_code& error, const HttpEndpoints& found) {
    ++result->calls;
    result->error = error;
    result->found = found.size();
  };
}

bool RunsUntil(boost::asio::io_context* io, const std::function<bool()>& condition) {
  return BecomesTrue([&] {
    io->poll();
    io->restart();
    return condition();
  });
}

TEST(NameLookup, OneThatHangsDelaysNoOther) {
  SilentResolver silent;
  boost::asio::io_context io(1);
  LookedUp lost;
  LookedUp fine;
  const NameLookup hangs("hangs", 80, &io, Into(&lost), silent.Function());
  EXPECT_TRUE(BecomesTrue([&] { return silent.asked() == 1; }));
  const NameLookup other("127.0.0.1", 80, &io, Into(&fine));
  EXPECT_TRUE(RunsUntil(&io, [&] { return fine.calls > 0; }));
  EXPECT_FALSE(fine.error);
  EXPECT_EQ(fine.found, 1u);
  EXPECT_EQ(lost.calls, 0);
  silent.Open();
  EXPECT_TRUE(RunsUntil(&io, [&] { return lost.calls > 0; }));
  EXPECT_EQ(lost.error, boost::asio::error::host_not_found);
}

TEST(NameLookup, IsLetGoOfWithoutWaiting) {
  SilentResolver silent;
  LookedUp lost;
  {
    boost::asio::io_context io(1);
    {
      const NameLookup hangs("hangs", 80, &io, Into(&lost), silent.Function());
      EXPECT_TRUE(BecomesTrue([&] { return silent.asked() == 1; }));
    }
    EXPECT_EQ(io.poll(), 0u);
  }
  silent.Open();  // The result is not wanted, and its io_context is gone.
  EXPECT_TRUE(BecomesTrue([&] { return !silent.in_use(); }));
  EXPECT_EQ(lost.calls, 0);
}

TEST(NameLookup, NothingIsToldOnceItIsLetGoOf) {
  boost::asio::io_context io(1);
  LookedUp lost;
  SilentResolver silent;
  silent.Open();
  {
    const NameLookup quick("quick", 80, &io, Into(&lost), silent.Function());
    EXPECT_TRUE(BecomesTrue([&] { return silent.asked() == 1; }));
  }
  EXPECT_TRUE(RunsUntil(&io, [&] { return !silent.in_use(); }));
  EXPECT_EQ(lost.calls, 0);
}

TEST(NameLookup, BeyondTheMostThreadsTheyWaitForOne) {
  SilentResolver silent;
  boost::asio::io_context io(1);
  constexpr int kLookups = NameLookup::kMaxThreads + 3;
  std::vector<LookedUp> results(kLookups);
  std::vector<std::unique_ptr<NameLookup>> lookups;
  for (LookedUp& result : results) {
    lookups.push_back(
        std::make_unique<NameLookup>("hangs", 80, &io, Into(&result), silent.Function()));
  }
  EXPECT_TRUE(BecomesTrue([&] { return silent.asked() == NameLookup::kMaxThreads; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(silent.asked(), NameLookup::kMaxThreads);
  lookups[0].reset();  // Its thread goes on waiting.
  silent.Open();
  const auto told = [&] {
    int calls = 0;
    for (const LookedUp& result : results) calls += result.calls;
    return calls;
  };
  EXPECT_TRUE(RunsUntil(&io, [&] { return told() == kLookups - 1; }));
  EXPECT_EQ(results[0].calls, 0);
}

}  // namespace
}  // namespace ropeway::net
