// What every Backend has in common, as tests: see ropeway/backend.h.
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(Engine, BackendContract, EngineUnderTest);
//
// The class under test has backend(), which answers requests with a token at a time, and Slowly():
// a request whose first token comes at once and that never ends by itself.
#ifndef ROPEWAY_ENGINE_TEST_BACKEND_CONTRACT_H_
#define ROPEWAY_ENGINE_TEST_BACKEND_CONTRACT_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ropeway/backend.h"

namespace ropeway::engine {

// Keeps what it is told, and checks the order of the calls.
class ContractSink final : public Sink {
 public:
  enum class Does { kGoOn, kStop, kThrow };
  explicit ContractSink(Does does = Does::kGoOn) : does_(does) {}

  void OnAdmitted(RequestId, const Admission&) override {
    Tell([this] {
      good_ = good_ && admitted_ == 0 && deltas_ == 0 && ends_ == 0;
      ++admitted_;
    });
  }
  bool OnDelta(RequestId, Delta delta) override {
    Tell([&] {
      good_ = good_ && ends_ == 0;
      ++deltas_;
      text_ += delta.text;
    });
    if (does_ == Does::kThrow) throw std::runtime_error("the sink is broken");
    return does_ == Does::kGoOn;
  }
  void OnEnd(RequestId, const Outcome& outcome) override {
    Tell([&] {
      good_ = good_ && ends_ == 0;
      ++ends_;
      outcome_ = outcome;
    });
  }

  bool WaitDelta() const {
    return Wait([this] { return deltas_ > 0; });
  }
  // The outcome; a test that passes waits for milliseconds.
  Outcome WaitEnd() const {
    EXPECT_TRUE(Wait([this] { return ends_ > 0; }));
    const std::lock_guard lock(mu_);
    EXPECT_TRUE(good_) << "the calls came in no order";
    return outcome_;
  }
  int ends() const { return Get(&ContractSink::ends_); }
  int admitted() const { return Get(&ContractSink::admitted_); }
  int deltas() const { return Get(&ContractSink::deltas_); }
  std::string text() const { return Get(&ContractSink::text_); }

 private:
  template <typename Fn>
  void Tell(Fn fn) {
    const std::lock_guard lock(mu_);
    fn();
    changed_.notify_all();
  }
  template <typename Fn>
  bool Wait(Fn holds) const {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(60), holds);
  }
  template <typename T>
  T Get(T ContractSink::*member) const {
    const std::lock_guard lock(mu_);
    return this->*member;
  }

  const Does does_;
  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  bool good_ = true;
  int admitted_ = 0;
  int deltas_ = 0;
  int ends_ = 0;
  std::string text_;
  Outcome outcome_;
};

template <typename UnderTest>
class BackendContract : public testing::Test {
 protected:
  Backend* backend() { return under_test_.backend(); }
  static Request Short(int32_t tokens = 4) {
    Request request = UnderTest::Slowly();
    request.max_tokens = tokens;
    return request;
  }
  // Its id; the sink has it.
  RequestId Submit(const Request& request, const std::shared_ptr<ContractSink>& sink) {
    const StatusOr<RequestId> id = backend()->Submit(request, sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : 0;
  }
  // The backend drops a sink that was told its end, a moment later.
  static void ExpectDropped(const std::shared_ptr<ContractSink>& sink) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (sink.use_count() > 1 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(sink.use_count(), 1);
    EXPECT_LE(sink->ends(), 1);
  }

  UnderTest under_test_;
};

TYPED_TEST_SUITE_P(BackendContract);

TYPED_TEST_P(BackendContract, EachRequestIsAdmittedOnceAndEndsOnce) {
  std::vector<std::shared_ptr<ContractSink>> sinks;
  for (int i = 0; i < 20; ++i) {
    sinks.push_back(std::make_shared<ContractSink>());
    this->Submit(this->Short(), sinks.back());
  }
  for (const auto& sink : sinks) {
    const Outcome outcome = sink->WaitEnd();
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.finish.reason, FinishReason::kLength);
    EXPECT_LE(sink->admitted(), 1);
    EXPECT_EQ(sink->text(), sinks[0]->text());
    this->ExpectDropped(sink);
  }
}

TYPED_TEST_P(BackendContract, CancelEndsAtAnyPoint) {
  for (int wait = 0; wait < 12; ++wait) {
    const auto sink = std::make_shared<ContractSink>();
    const RequestId id = this->Submit(TypeParam::Slowly(), sink);
    if (wait == 11) {
      ASSERT_TRUE(sink->WaitDelta());
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50 * wait * wait));
    }
    EXPECT_TRUE(this->backend()->Cancel(id).ok());
    const Outcome outcome = sink->WaitEnd();
    EXPECT_EQ(outcome.status.code(), StatusCode::kCancelled) << outcome.status.message();
    EXPECT_EQ(outcome.finish.reason, FinishReason::kCancelled);
    this->ExpectDropped(sink);
  }
}

TYPED_TEST_P(BackendContract, CancelAfterTheEndIsNotFound) {
  const auto sink = std::make_shared<ContractSink>();
  const RequestId id = this->Submit(this->Short(), sink);
  sink->WaitEnd();
  EXPECT_EQ(this->backend()->Cancel(id).code(), StatusCode::kNotFound);
  EXPECT_EQ(this->backend()->Cancel(id + 1000).code(), StatusCode::kNotFound);
  EXPECT_EQ(sink->ends(), 1);
}

TYPED_TEST_P(BackendContract, ADeadlineEndsIt) {
  Request request = TypeParam::Slowly();
  request.timeout = std::chrono::milliseconds(30);
  const auto sink = std::make_shared<ContractSink>();
  this->Submit(request, sink);
  EXPECT_EQ(sink->WaitEnd().status.code(), StatusCode::kDeadlineExceeded);
  this->ExpectDropped(sink);
}

TYPED_TEST_P(BackendContract, AGroupIsTakenAsAWholeOrNotAtAll) {
  for (const bool bad : {false, true}) {
    std::vector<SinkRequest> group;
    std::vector<std::shared_ptr<ContractSink>> sinks;
    for (int i = 0; i < 3; ++i) {
      sinks.push_back(std::make_shared<ContractSink>());
      group.push_back({this->Short(), sinks.back()});
    }
    if (bad) group[2].request.sampling.temperature = -7.0F;
    const StatusOr<std::vector<RequestId>> ids = this->backend()->SubmitAll(std::move(group));
    ASSERT_EQ(ids.ok(), !bad);
    if (bad) {
      EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    } else {
      EXPECT_EQ(ids->size(), 3U);
      for (const auto& sink : sinks) EXPECT_TRUE(sink->WaitEnd().status.ok());
    }
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->ends(), bad ? 0 : 1);
      this->ExpectDropped(sink);
    }
  }
}

TYPED_TEST_P(BackendContract, ASinkThatWantsNoMoreOrThrowsIsCancelled) {
  for (const auto does : {ContractSink::Does::kStop, ContractSink::Does::kThrow}) {
    const auto sink = std::make_shared<ContractSink>(does);
    this->Submit(TypeParam::Slowly(), sink);
    EXPECT_EQ(sink->WaitEnd().status.code(), StatusCode::kCancelled);
    EXPECT_EQ(sink->deltas(), 1);
    this->ExpectDropped(sink);
  }
  const auto sink = std::make_shared<ContractSink>();
  this->Submit(this->Short(), sink);
  EXPECT_TRUE(sink->WaitEnd().status.ok()) << "others go on";
}

TYPED_TEST_P(BackendContract, AProbeTellsOfIt) {
  std::promise<StatusOr<BackendFacts>> told;
  this->backend()->Probe([&](StatusOr<BackendFacts> facts) { told.set_value(std::move(facts)); });
  const StatusOr<BackendFacts> facts = told.get_future().get();
  ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_TRUE(facts->ready);
}

REGISTER_TYPED_TEST_SUITE_P(BackendContract, EachRequestIsAdmittedOnceAndEndsOnce,
                            CancelEndsAtAnyPoint, CancelAfterTheEndIsNotFound, ADeadlineEndsIt,
                            AGroupIsTakenAsAWholeOrNotAtAll,
                            ASinkThatWantsNoMoreOrThrowsIsCancelled, AProbeTellsOfIt);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TEST_BACKEND_CONTRACT_H_
