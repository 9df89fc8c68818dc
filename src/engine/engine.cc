#include "ropeway/engine.h"

#include <iterator>
#include <list>
#include <mutex>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/request_handle.h"
#include "engine/failure.h"
#include "engine/llm_engine.h"
#include "engine/open_engine.h"

namespace ropeway {
namespace {

constexpr size_t kMaxUncollected = 100000;

// The results that PollFinished has not given out yet. Thread-safe.
class FinishedQueue {
 public:
  // A list of one, made ahead: a result is never lost for want of memory.
  using Node = std::list<std::shared_ptr<const Result>>;

  void Add(Node node) noexcept {
    const std::lock_guard lock(mu_);
    if (results_.size() >= kMaxUncollected) results_.pop_front();
    results_.splice(results_.end(), node);
  }

  Node Take(size_t max_results) {
    const std::lock_guard lock(mu_);
    Node taken;
    auto end = results_.end();
    if (max_results != 0 && max_results < results_.size()) {
      end = std::next(results_.begin(), static_cast<int64_t>(max_results));
    }
    taken.splice(taken.end(), results_, results_.begin(), end);
    return taken;
  }

 private:
  std::mutex mu_;
  Node results_;
};

Status EndStatus(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return {};
    case FinishReason::kCancelled:
      return engine::MakeStatus(StatusCode::kCancelled, "the request was cancelled");
    case FinishReason::kFailed:
      break;
  }
  return engine::MakeStatus(StatusCode::kInternal, "the request failed");
}

}  // namespace

class Engine::Impl {
 public:
  StatusOr<RequestHandle> Submit(Request request, StreamCallback on_delta);

  base::RealClock clock;
  base::SystemRandom random;
  FinishedQueue finished;
  std::unique_ptr<engine::LlmEngine> engine;  // Last: its threads use the others.

 private:
  class CollectorSink;
};

// Collects one request's output into its Result. What the end needs is allocated with it.
class Engine::Impl::CollectorSink final : public engine::OutputSink {
 public:
  CollectorSink(std::shared_ptr<RequestHandle::State> state, FinishedQueue* finished,
                StreamCallback on_delta)
      : state_(std::move(state)),
        finished_(finished),
        on_delta_(std::move(on_delta)),
        result_(std::make_shared<Result>()),
        node_(1) {}

  void OnAdmitted(RequestId, const engine::Admission& admission) override {
    result_->finish.usage.prompt_tokens = admission.prompt_tokens;
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

  void OnFinish(RequestId id, const Finish& finish) override {
    result_->finish = finish;
    if (incomplete_) result_->finish.reason = FinishReason::kFailed;
    End(id, incomplete_ ? engine::OutOfMemory() : EndStatus(finish.reason));
  }

  void OnError(RequestId id, const Status& status) override {
    const bool cancelled = status.code() == StatusCode::kCancelled;
    result_->finish.reason = cancelled ? FinishReason::kCancelled : FinishReason::kFailed;
    result_->finish.usage.completion_tokens = static_cast<int32_t>(result_->tokens.size());
    End(id, engine::CopyStatus(status));
  }

 private:
  void End(RequestId id, Status status) {
    result_->id = id;
    result_->status = std::move(status);
    node_.front() = result_;
    finished_->Add(std::move(node_));
    state_->End(std::move(result_));
  }

  const std::shared_ptr<RequestHandle::State> state_;
  FinishedQueue* const finished_;
  const StreamCallback on_delta_;
  std::shared_ptr<Result> result_;
  FinishedQueue::Node node_;
  bool incomplete_ = false;  // There was no memory for a part of the output.
};

StatusOr<RequestHandle> Engine::Impl::Submit(Request request, StreamCallback on_delta) {
  try {
    RequestHandle handle;
    handle.state_ = std::make_shared<RequestHandle::State>();
    handle.state_->cancel = [engine = engine.get()](RequestId id) { engine->Cancel(id); };
    StatusOr<RequestId> id = engine->Submit(
        std::move(request),
        std::make_shared<CollectorSink>(handle.state_, &finished, std::move(on_delta)));
    if (!id.ok()) return id.status();
    handle.id_ = *id;
    return handle;
  } catch (const std::bad_alloc&) {
    return engine::OutOfMemory();
  }
}

StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  auto impl = std::make_unique<Impl>();
  StatusOr<std::unique_ptr<engine::LlmEngine>> engine =
      engine::OpenEngine(options, &impl->clock, &impl->random);
  if (!engine.ok()) return engine.status();
  impl->engine = *std::move(engine);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

StatusOr<RequestHandle> Engine::Submit(Request request, StreamCallback on_delta) {
  return impl_->Submit(std::move(request), std::move(on_delta));
}

std::vector<StatusOr<RequestHandle>> Engine::SubmitMany(std::vector<Request> requests) {
  std::vector<StatusOr<RequestHandle>> handles;
  handles.reserve(requests.size());
  for (Request& request : requests) handles.push_back(impl_->Submit(std::move(request), nullptr));
  return handles;
}

std::vector<Result> Engine::PollFinished(size_t max_results) {
  std::vector<Result> results;
  for (const auto& result : impl_->finished.Take(max_results)) results.push_back(*result);
  return results;
}

Status Engine::Cancel(RequestId id) {
  if (impl_->engine->TryCancel(id)) return {};
  return {StatusCode::kNotFound, "no request " + std::to_string(id) + " is running"};
}

std::vector<SessionInfo> Engine::Sessions(const std::string& tenant) const {
  return impl_->engine->Sessions(tenant);
}
Status Engine::CloseSession(const std::string& id, const std::string& tenant) {
  return impl_->engine->CloseSession(id, tenant);
}

void Engine::Flush() { impl_->engine->Flush(); }
Status Engine::Drain(std::chrono::nanoseconds deadline) { return impl_->engine->Drain(deadline); }
EngineStats Engine::Stats() const { return impl_->engine->Stats(); }
int Engine::max_model_len() const { return impl_->engine->max_model_len(); }
const std::string& Engine::model_name() const { return impl_->engine->served_name(); }
const SamplingDefaults& Engine::sampling_defaults() const {
  return impl_->engine->sampling_defaults();
}

}  // namespace ropeway
