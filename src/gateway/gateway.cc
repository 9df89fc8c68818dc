#include "ropeway/gateway.h"

#include <exception>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/request_handle.h"
#include "engine/backend.h"
#include "gateway/gateway_backend.h"
#include "gateway/open_gateway.h"

namespace ropeway {
namespace {

// How a result says that its request ended so.
Status StatusOfEnd(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return {};
    case FinishReason::kCancelled:
      return {StatusCode::kCancelled, "the request was cancelled"};
    case FinishReason::kFailed:
      break;
  }
  return {StatusCode::kInternal, "the request failed"};
}

}  // namespace

class Gateway::Impl {
 public:
  StatusOr<RequestHandle> Infer(Request request, StreamCallback on_delta);

  base::RealClock clock;
  base::SystemRandom random;
  std::unique_ptr<gateway::GatewayBackend> backend;  // Last: its threads use the others.

 private:
  class ResultSink;
};

// Collects one request's output into its Result.
class Gateway::Impl::ResultSink final : public engine::OutputSink {
 public:
  ResultSink(std::shared_ptr<RequestHandle::State> state, StreamCallback on_delta)
      : state_(std::move(state)),
        on_delta_(std::move(on_delta)),
        result_(std::make_shared<Result>()) {}

  void OnAdmitted(RequestId, const engine::Admission&) override {}

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
    if (incomplete_) {
      result_->finish.reason = FinishReason::kFailed;
      End(id, {StatusCode::kResourceExhausted, "out of memory"});
    } else {
      End(id, StatusOfEnd(finish.reason));
    }
  }

  void OnError(RequestId id, const Status& status) override {
    const bool cancelled = status.code() == StatusCode::kCancelled;
    result_->finish.reason = cancelled ? FinishReason::kCancelled : FinishReason::kFailed;
    result_->finish.usage.completion_tokens = static_cast<int32_t>(result_->tokens.size());
    End(id, status);
  }

 private:
  void End(RequestId id, Status status) {
    result_->id = id;
    result_->status = std::move(status);
    state_->End(std::move(result_));
  }

  const std::shared_ptr<RequestHandle::State> state_;
  const StreamCallback on_delta_;
  std::shared_ptr<Result> result_;
  bool incomplete_ = false;  // There was no memory for a part of the output.
};

StatusOr<RequestHandle> Gateway::Impl::Infer(Request request, StreamCallback on_delta) {
  try {
    RequestHandle handle;
    handle.state_ = std::make_shared<RequestHandle::State>();
    handle.state_->cancel = [its = backend.get()](RequestId id) { its->Cancel(id); };
    StatusOr<RequestId> id = backend->Submit(
        std::move(request), std::make_shared<ResultSink>(handle.state_, std::move(on_delta)));
    if (!id.ok()) return id.status();
    handle.id_ = *id;
    return handle;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory");
  }
}

StatusOr<std::unique_ptr<Gateway>> Gateway::Create(const GatewayOptions& options) {
  auto impl = std::make_unique<Impl>();
  StatusOr<std::unique_ptr<gateway::GatewayBackend>> backend =
      gateway::OpenGateway(options, &impl->clock, &impl->random);
  if (!backend.ok()) return backend.status();
  impl->backend = *std::move(backend);
  return std::unique_ptr<Gateway>(new Gateway(std::move(impl)));
}

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gateway::~Gateway() = default;

StatusOr<RequestHandle> Gateway::Infer(Request request, StreamCallback on_delta) {
  return impl_->Infer(std::move(request), std::move(on_delta));
}

Status Gateway::Cancel(RequestId id) {
  if (impl_->backend->TryCancel(id)) return {};
  return {StatusCode::kNotFound, "no request " + std::to_string(id) + " is running"};
}

GatewayHealth Gateway::Health() const {
  const engine::Health health = impl_->backend->GetHealth();
  return {.ready = health.live && health.ready,
          .reason = health.reason,
          .backends = impl_->backend->Backends()};
}

EngineStats Gateway::Stats() const { return impl_->backend->Stats(); }
std::string Gateway::MetricsText() const { return impl_->backend->MetricsText(); }

Status Gateway::SetDraining(const std::string& backend, bool draining) {
  return impl_->backend->SetDraining(backend, draining);
}

Status Gateway::Shutdown(std::chrono::nanoseconds grace) { return impl_->backend->Drain(grace); }

}  // namespace ropeway
