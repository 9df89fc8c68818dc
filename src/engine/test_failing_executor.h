// A TestExecutor that goes wrong.
#ifndef ROPEWAY_ENGINE_TEST_FAILING_EXECUTOR_H_
#define ROPEWAY_ENGINE_TEST_FAILING_EXECUTOR_H_

#include <new>

#include "engine/test_executor.h"

namespace ropeway::engine {

// What FailingExecutor does.
enum class Fault { kFails, kAnswersForOthers, kScoresOthers, kIsShortOfMemory, kHasNoLogit };

// Has a fault in every step from `fail_at` on (1 is the first), in `times` steps.
class FailingExecutor final : public executor::Executor {
 public:
  FailingExecutor(TestExecutor* inner, int fail_at, Fault fault, int times = 1000)
      : inner_(inner), fail_at_(fail_at), fault_(fault), times_(times) {}
  StatusOr<executor::KvLayout> Init(int64_t bytes, int tokens, int seqs) override {
    return inner_->Init(bytes, tokens, seqs);
  }
  void Launch(const core::Batch& batch) override { inner_->Launch(batch); }
  StatusOr<core::StepResult> Wait() override {
    StatusOr<core::StepResult> result = inner_->Wait();
    if (++steps_ < fail_at_ || steps_ >= fail_at_ + times_) return result;
    switch (fault_) {
      case Fault::kFails:
        return Status(StatusCode::kUnavailable, "the device fell off the bus");
      case Fault::kAnswersForOthers:
        for (core::Sampled& sampled : result->sampled) sampled.sequence += 1000;
        break;
      case Fault::kScoresOthers:
        for (core::Scored& scored : result->scored) ++scored.position;
        break;
      case Fault::kIsShortOfMemory:
        throw std::bad_alloc();
      case Fault::kHasNoLogit:
        result->sampled.at(0).invalid = true;
        break;
    }
    return result;
  }
  void ReadBlock(core::BlockId, std::span<std::byte>) const override {}
  void WriteBlock(core::BlockId, std::span<const std::byte>) override {}
  int steps() const { return steps_; }

 private:
  TestExecutor* const inner_;
  const int fail_at_;
  const Fault fault_;
  const int times_;
  int steps_ = 0;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TEST_FAILING_EXECUTOR_H_
