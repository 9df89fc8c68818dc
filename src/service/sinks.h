// What every Backend needs for sinks: calls that are safe, and one that collects a result.
#ifndef ROPEWAY_SERVICE_SINKS_H_
#define ROPEWAY_SERVICE_SINKS_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/request_handle.h"
#include "ropeway/status.h"

namespace ropeway::service {

// Calls a sink; false if it threw. Its exceptions are its own bugs and must not affect others.
template <typename Fn>
bool CallSink(RequestId id, Fn&& fn) {
  try {
    fn();
    return true;
  } catch (const std::exception& e) {
    base::TryLog(spdlog::level::warn, "request {}: its sink failed: {}", id, e.what());
  } catch (...) {
    base::TryLog(spdlog::level::warn, "request {}: its sink failed", id);
  }
  return false;
}

// Collects one request's output into a Result. What the end needs is allocated with it.
class ResultSink final : public Sink {
 public:
  // Called once, with the whole result; must not throw.
  using EndedFn = std::function<void(std::shared_ptr<const Result>)>;

  ResultSink(StreamCallback on_delta, EndedFn ended)
      : on_delta_(std::move(on_delta)),
        ended_(std::move(ended)),
        result_(std::make_shared<Result>()) {}

  void OnAdmitted(RequestId, const Admission& admission) override {
    result_->finish.usage.prompt_tokens = admission.prompt_tokens;
    result_->finish.usage.estimated = admission.estimated;
  }

  bool OnDelta(RequestId id, Delta delta) override {
    const bool more = !on_delta_ || on_delta_(id, delta);
    try {
      result_->text += delta.text;
      for (OutputToken& token : delta.tokens) result_->tokens.push_back(std::move(token));
      for (OutputToken& token : delta.prompt_tokens) {
        result_->prompt_tokens.push_back(std::move(token));
      }
    } catch (const std::bad_alloc&) {
      incomplete_ = true;
    }
    return more && !incomplete_;
  }

  void OnEnd(RequestId id, const Outcome& outcome) override {
    result_->id = id;
    if (outcome.finish.reason == FinishReason::kFailed) {
      result_->finish.usage.completion_tokens = static_cast<int32_t>(result_->tokens.size());
    } else {
      result_->finish = outcome.finish;
    }
    const bool failed = incomplete_ || outcome.finish.reason == FinishReason::kFailed;
    if (failed) result_->finish.reason = FinishReason::kFailed;
    result_->status = incomplete_ ? base::OutOfMemory() : base::CopyStatus(outcome.status);
    ended_(std::move(result_));
  }

 private:
  const StreamCallback on_delta_;
  const EndedFn ended_;
  std::shared_ptr<Result> result_;
  bool incomplete_ = false;  // There was no memory for a part of the output.
};

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_SINKS_H_
