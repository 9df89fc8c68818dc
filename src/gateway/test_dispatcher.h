// A dispatcher in virtual time, and replicas that do as a test says.
#ifndef ROPEWAY_GATEWAY_TEST_DISPATCHER_H_
#define ROPEWAY_GATEWAY_TEST_DISPATCHER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/dispatcher.h"

namespace ropeway::gateway {

// What a test asks for.
struct Asked {
  std::string tenant = "a";
  Priority priority = Priority::kMedium;
  int32_t prompt = 20;
  int32_t max_tokens = 50;
  std::vector<uint64_t> blocks = {};
  base::TimePoint deadline = base::TimePoint::max();
  double weight = 1.0;
};

// So many replicas "r0", "r1", ... with so many places each.
inline DispatchOptions OptionsOf(int replicas, int places) {
  DispatchOptions options;
  for (int i = 0; i < replicas; ++i) {
    options.replicas.push_back({.name = "r" + std::to_string(i), .max_concurrency = places});
  }
  options.failover.first_byte_timeout = options.failover.idle_timeout = {};
  options.rules.table_entries = 1 << 12;
  return options;
}

inline BackendFacts HealthyFacts() {
  BackendFacts facts;
  facts.model_digest = "digest";
  facts.numerics = "3";
  facts.limits = "2048";
  return facts;
}

class DispatchTest : public testing::Test {
 protected:
  void Start(const DispatchOptions& options) {
    ASSERT_TRUE(options.Validate().ok()) << options.Validate().message();
    dispatcher_ = std::make_unique<Dispatcher>(options);
    facts_.assign(options.replicas.size(), HealthyFacts());
    Run();
  }

  DispatchRequest Make(const Asked& asked) {
    DispatchRequest made;
    made.id = ++last_id_;
    made.prompt_tokens = asked.prompt;
    made.max_tokens = asked.max_tokens;
    made.ignore_eos = true;
    made.tenant = asked.tenant;
    made.tenant_weight = asked.weight;
    made.priority = asked.priority;
    made.deadline = asked.deadline;
    made.arrival = now_;
    made.blocks = asked.blocks;
    return made;
  }
  Status TryAdd(const Asked& asked) { return dispatcher_->Add(Make(asked), now_); }
  // Without Run: several can arrive together.
  RequestId Queue(const Asked& asked = {}) {
    const Status status = TryAdd(asked);
    EXPECT_TRUE(status.ok()) << status.message();
    return last_id_;
  }
  RequestId Add(const Asked& asked = {}) {
    const RequestId id = Queue(asked);
    Run();
    return id;
  }

  // Does what the dispatcher says. Probes are answered at once.
  void Run() {
    std::vector<Decision> decisions;
    dispatcher_->Run(now_, &decisions);
    for (const Decision& decision : decisions) {
      switch (decision.kind) {
        case Decision::Kind::kSend:
          at_[decision.id] = decision;
          order_.push_back(decision.id);
          break;
        case Decision::Kind::kDrop:
          dropped_.push_back(decision.id);
          at_.erase(decision.id);
          break;
        case Decision::Kind::kEnd:
          EXPECT_FALSE(ended_.contains(decision.id));
          ended_[decision.id] = decision.status;
          at_.erase(decision.id);
          break;
        case Decision::Kind::kProbe: {
          const StatusOr<BackendFacts>& facts = facts_[static_cast<size_t>(decision.replica)];
          if (!silent_) dispatcher_->OnProbe(decision.replica, decision.probe, facts, now_);
          ++probes_;
          break;
        }
      }
    }
    const Status integrity = dispatcher_->CheckIntegrity();
    EXPECT_TRUE(integrity.ok()) << integrity.message();
  }
  // Time passes; Run is called whenever the dispatcher wants it.
  void Pass(base::Duration time) {
    const base::TimePoint end = now_ + time;
    for (int i = 0; i < 1'000'000 && dispatcher_->next_look() <= end; ++i) {
      now_ = std::max(now_, dispatcher_->next_look());
      Run();
    }
    now_ = end;
    Run();
  }

  bool IsSent(RequestId id) const { return at_.contains(id); }
  int ReplicaOf(RequestId id) const { return at_.contains(id) ? at_.at(id).replica : -1; }
  bool Output(RequestId id, int32_t tokens = 1, bool ids_known = true) {
    return dispatcher_->OnOutput(id, at_.at(id).attempt, {tokens, ids_known}, now_);
  }
  bool End(RequestId id) {
    const bool is_end = dispatcher_->OnEnd(id, at_.at(id).attempt, Outcome::Unsaid(), now_);
    at_.erase(id);
    Run();
    return is_end;
  }
  FailureOutcome Fail(RequestId id, FailureKind kind = FailureKind::kBroken, int retry_after = 0) {
    Outcome failure;
    failure.kind = kind;
    failure.status = Status(StatusCode::kUnavailable, "it broke");
    failure.status.set_retry_after_seconds(retry_after);
    const uint32_t attempt = at_.at(id).attempt;
    at_.erase(id);
    FailureOutcome outcome = dispatcher_->OnFailure(id, attempt, failure, now_);
    Run();
    return outcome;
  }
  // The ids sent since the last call, in order.
  std::vector<RequestId> TakeOrder() { return std::exchange(order_, {}); }

  base::TimePoint now_ = std::chrono::seconds(1000);
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<StatusOr<BackendFacts>> facts_;  // What each replica says when it is probed.
  bool silent_ = false;                        // No probe is answered.
  std::map<RequestId, Decision> at_;           // What is at a replica.
  std::vector<RequestId> order_;
  std::vector<RequestId> dropped_;
  std::map<RequestId, Status> ended_;  // By a decision.
  int probes_ = 0;
  RequestId last_id_ = 0;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_TEST_DISPATCHER_H_
