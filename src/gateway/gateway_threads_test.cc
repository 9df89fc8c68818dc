// Many threads that submit, cancel, look and let go at once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

// Ends are counted; output is refused after a few deltas, by some.
class CountingSink final : public Sink {
 public:
  CountingSink(std::atomic<int>* ends, int most) : ends_(ends), most_(most) {}
  ~CountingSink() override { EXPECT_EQ(own_ends_, 1); }

  void OnAdmitted(RequestId, const Admission&) override {
    EXPECT_EQ(deltas_, 0);
    EXPECT_FALSE(std::exchange(admitted_, true));
  }
  bool OnDelta(RequestId, Delta) override {
    EXPECT_TRUE(admitted_);
    EXPECT_EQ(own_ends_, 0);
    return ++deltas_ != most_;
  }
  void OnEnd(RequestId, const Outcome&) override { End(); }
  // It was not accepted.
  void Drop() { ++own_ends_; }

 private:
  void End() {
    EXPECT_EQ(own_ends_++, 0);
    ++*ends_;
  }

  std::atomic<int>* const ends_;
  const int most_;
  bool admitted_ = false;
  int deltas_ = 0;
  int own_ends_ = 0;
};

TEST(GatewayThreadsTest, EachRequestEndsOnceWhateverElseHappens) {
  constexpr int kThreads = 4;
  constexpr int kEach = 250;
  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  for (int i = 0; i < 3; ++i) {
    backends.push_back(std::make_shared<ScriptedBackend>([](const Request& request) {
      BackendScript script{.tokens = 12};
      const uint64_t seed = request.sampling.seed.value_or(0);
      if (seed % 7 == 0) script.fail_after = static_cast<int>(seed % 5);
      if (seed % 11 == 0) script.hang_after = 3;
      return script;
    }));
    backends.back()->set_facts(ResumableFacts());
    backends.back()->set_resumes(true);
    backends.back()->set_pause(std::chrono::microseconds(50));
  }
  std::atomic<int> ends{0};
  std::atomic<int> accepted{0};
  {
    ScriptedGateway gateway(backends, [](GatewayConfig* config) {
      config->dispatch.failover.idle_timeout = std::chrono::milliseconds(20);
      config->dispatch.resume_wait = std::chrono::milliseconds(200);
    });
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto seed = static_cast<uint64_t>(t * kEach + i);
          Request request = ScriptedRequest("p", seed);
          if (seed % 13 == 0) request.timeout = std::chrono::milliseconds(5);
          const int most = seed % 5 == 0 ? 3 : -1;
          const auto sink = std::make_shared<CountingSink>(&ends, most);
          const StatusOr<RequestId> id = gateway->Submit(std::move(request), sink);
          if (!id.ok()) {
            sink->Drop();
            continue;
          }
          ++accepted;
          if (seed % 3 == 0) static_cast<void>(gateway->Cancel(*id));
        }
      });
    }
    std::thread looker([&] {
      while (!done) {
        gateway->Requests();
        gateway->Queue(nullptr, 1.0);
        gateway->MetricsText();
        gateway->GetHealth();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    std::thread killer([&] {
      for (size_t turn = 0; !done; ++turn) {
        backends[turn % backends.size()]->Kill();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        backends[turn % backends.size()]->Revive();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(gateway->Drain(std::chrono::seconds(60)).ok());
    EXPECT_EQ(ends, accepted);
    done = true;
    looker.join();
    killer.join();
  }
  EXPECT_EQ(ends, accepted);
  for (const auto& backend : backends) EXPECT_EQ(backend->open(), 0);
}

TEST(GatewayThreadsTest, TheGatewayIsDestroyedUnderLoad) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> ends{0};
    int accepted = 0;
    const auto backend = std::make_shared<ScriptedBackend>();
    backend->set_pause(std::chrono::microseconds(20));
    {
      ScriptedGateway gateway({backend});
      for (int i = 0; i < 100; ++i) {
        const auto sink = std::make_shared<CountingSink>(&ends, -1);
        const bool good = gateway->Submit(ScriptedRequest(), sink).ok();
        good ? static_cast<void>(++accepted) : sink->Drop();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    }
    EXPECT_EQ(ends, accepted);
    EXPECT_EQ(backend->open(), 0);
  }
}

}  // namespace
}  // namespace ropeway::gateway
