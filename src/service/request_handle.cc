#include "service/request_handle.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "base/failure.h"
#include "base/tool_calls.h"
#include "service/intake.h"

namespace ropeway {
namespace service {

// How handles reach a backend, until it is gone. Thread-safe.
class CancelLink {
 public:
  explicit CancelLink(Backend* backend) : backend_(backend) {}

  // Without effect after Cut. What is called may call this again.
  void Cancel(RequestId id) {
    {
      const std::lock_guard lock(mu_);
      if (cut_) return;
      ++running_;
    }
    const Running running(this);
    static_cast<void>(backend_->Cancel(id));
  }

  // Waits for each Cancel that runs: what they call may be destroyed then.
  void Cut() {
    std::unique_lock lock(mu_);
    cut_ = true;
    idle_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  struct Running {  // Ended by an exception too.
    explicit Running(CancelLink* its) : link(its) {}
    ~Running() {
      const std::lock_guard lock(link->mu_);
      if (--link->running_ == 0) link->idle_.notify_all();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    CancelLink* const link;
  };

  Backend* const backend_;
  std::mutex mu_;
  std::condition_variable idle_;
  int running_ = 0;   // GUARDED_BY(mu_)
  bool cut_ = false;  // GUARDED_BY(mu_)
};

}  // namespace service

// Shared by the copies of a handle and by what collects its result.
struct RequestHandle::State {
  std::shared_ptr<service::CancelLink> link;  // Set before it is shared.
  std::mutex mu;
  std::condition_variable ended;
  std::shared_ptr<const Result> result;  // Null until the end. GUARDED_BY(mu)
};

// Collects one request's output into a Result. What the end needs is allocated with it.
class service::RequestHandles::Collector final : public Sink {
 public:
  Collector(StreamCallback on_delta, EndedFn ended, std::shared_ptr<RequestHandle::State> handle)
      : on_delta_(std::move(on_delta)),
        ended_(std::move(ended)),
        handle_(std::move(handle)),
        result_(std::make_shared<Result>()) {}

  void OnAdmitted(RequestId, const Admission& admission) override {
    result_->finish.usage.prompt_tokens = admission.prompt_tokens;
    result_->finish.usage.estimated = admission.estimated;
  }

  bool OnDelta(RequestId id, Delta delta) override {
    const bool more = !on_delta_ || on_delta_(id, delta);
    try {
      result_->text += delta.text;
      result_->reasoning += delta.reasoning;
      base::AddCalls(delta.tool_calls, &result_->tool_calls);
      if (!delta.embedding.empty()) result_->embedding = std::move(delta.embedding);
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
    if (ended_) ended_(result_);
    {
      const std::lock_guard lock(handle_->mu);
      handle_->result = std::move(result_);
    }
    handle_->ended.notify_all();
  }

 private:
  const StreamCallback on_delta_;
  const EndedFn ended_;
  const std::shared_ptr<RequestHandle::State> handle_;
  std::shared_ptr<Result> result_;
  bool incomplete_ = false;  // There was no memory for a part of the output.
};

namespace service {

RequestHandles::RequestHandles(Backend* backend)
    : backend_(backend), link_(std::make_shared<CancelLink>(backend)) {}

RequestHandles::~RequestHandles() { link_->Cut(); }

StatusOr<RequestHandle> RequestHandles::Submit(Request request, StreamCallback on_delta,
                                               EndedFn ended) {
  try {
    RequestHandle handle;
    handle.state_ = std::make_shared<RequestHandle::State>();
    handle.state_->link = link_;
    StatusOr<RequestId> id = backend_->Submit(
        std::move(request),
        std::make_shared<Collector>(std::move(on_delta), std::move(ended), handle.state_));
    if (!id.ok()) return id.status();
    handle.id_ = *id;
    return handle;
  } catch (const std::bad_alloc&) {
    return base::OutOfMemory();
  }
}

}  // namespace service

StatusOr<Result> RequestHandle::Wait(std::optional<std::chrono::nanoseconds> timeout) const {
  if (state_ == nullptr) return InvalidArgument("this handle refers to no request");
  const auto ended = [this] { return state_->result != nullptr; };
  std::unique_lock lock(state_->mu);
  if (!timeout) {
    state_->ended.wait(lock, ended);
  } else if (!state_->ended.wait_for(lock, std::min(*timeout, service::kLongestWait), ended)) {
    return Status(StatusCode::kDeadlineExceeded, "the request has not ended yet");
  }
  return *state_->result;
}

std::optional<Result> RequestHandle::Poll() const {
  if (state_ == nullptr) return std::nullopt;
  const std::lock_guard lock(state_->mu);
  if (state_->result == nullptr) return std::nullopt;
  return *state_->result;
}

void RequestHandle::Cancel() const {
  if (state_ != nullptr) state_->link->Cancel(id_);
}

}  // namespace ropeway
