#include "engine/local_backend.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/llm_engine.h"
#include "engine/open_engine.h"
#include "ropeway/gateway.h"

namespace ropeway::engine {
namespace {

// What an engine that ends a request so means for the gateway.
BackendFailure FailureOf(const Status& status) {
  using Kind = BackendFailure::Kind;
  BackendFailure failure;
  failure.status = status;
  failure.retry_after_seconds = status.retry_after_seconds();
  switch (status.code()) {
    case StatusCode::kResourceExhausted:
      failure.kind = Kind::kBusy;
      break;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kUnimplemented:
    case StatusCode::kDeadlineExceeded:
      failure.kind = Kind::kRejected;
      break;
    default:
      // Where another engine's ids are at fault, this one is not.
      failure.kind = status.field() == "resume_ids" ? Kind::kRejected : Kind::kBroken;
      break;
  }
  return failure;
}

// An engine with what it needs of its process.
struct OwnedEngine {
  base::RealClock clock;
  base::SystemRandom random;
  std::unique_ptr<LlmEngine> engine;  // Last: its threads use the others.
};

bool HasDigest(const Backend& engine) {
  const std::vector<ModelInfo> models = engine.Models();
  return !models.empty() && !models.front().digest.empty();
}

}  // namespace

// Passes an engine's output on, until there is nobody to pass it to. Any thread.
class LocalBackend::Relay final : public OutputSink {
 public:
  explicit Relay(std::shared_ptr<RemoteSink> sink) : sink_(std::move(sink)) {}

  void OnAdmitted(RequestId, const Admission&) override {}

  bool OnDelta(RequestId, Delta delta) override {
    const std::lock_guard lock(mu_);
    begun_ = true;
    const std::shared_ptr<RemoteSink> sink = sink_;
    if (sink != nullptr) sink->OnDelta(std::move(delta));
    return sink_ != nullptr;
  }

  void OnFinish(RequestId, const Finish& finish) override {
    const bool good =
        finish.reason == FinishReason::kStop || finish.reason == FinishReason::kLength;
    if (!good) {
      Fail({StatusCode::kUnavailable,
            "the engine ended the request before its answer was complete"});
      return;
    }
    BackendEnd end;
    end.reason = finish.reason;
    end.prompt_tokens = finish.usage.prompt_tokens;
    end.completion_tokens = finish.usage.completion_tokens;
    end.cached_tokens = finish.usage.cached_tokens;
    end.seed = finish.seed;
    end.max_tokens = finish.max_tokens;
    const std::lock_guard lock(mu_);
    const std::shared_ptr<RemoteSink> sink = std::exchange(sink_, nullptr);
    if (sink != nullptr) sink->OnEnd(end);
  }

  void OnError(RequestId, const Status& status) override { Fail(status); }

  void Fail(const Status& status) {
    const std::lock_guard lock(mu_);
    const std::shared_ptr<RemoteSink> sink = std::exchange(sink_, nullptr);
    if (sink != nullptr) sink->OnFailure(FailureOf(status));
  }

  // The engine has the request, and it runs there or not.
  void TellAlive(bool runs) {
    const std::lock_guard lock(mu_);
    const std::shared_ptr<RemoteSink> sink = sink_;
    // What runs and has begun is to show output.
    if (sink != nullptr && !(runs && begun_)) sink->OnAlive();
  }

  // The sink is not called once this has returned. Whether it had not been told the end.
  bool Detach() {
    std::shared_ptr<RemoteSink> dropped;  // Outside of the lock.
    const std::lock_guard lock(mu_);
    dropped.swap(sink_);
    return dropped != nullptr;
  }

 private:
  // Held while the sink is called; recursive because the sink may end the call.
  std::recursive_mutex mu_;
  std::shared_ptr<RemoteSink> sink_;  // Null: it was told the end, or is not to be called.
  bool begun_ = false;                // There was output.
};

// The requests whose calls are not destroyed.
struct LocalBackend::Live {
  std::mutex mu;
  std::map<RequestId, std::shared_ptr<Relay>> relays;
};

class LocalBackend::Call final : public RemoteCall {
 public:
  Call(std::shared_ptr<Backend> engine, std::shared_ptr<Live> live, std::shared_ptr<Relay> relay,
       RequestId id)
      : engine_(std::move(engine)), live_(std::move(live)), relay_(std::move(relay)), id_(id) {
    const std::lock_guard lock(live_->mu);
    live_->relays.emplace(id_, relay_);
  }
  ~Call() override {
    {
      const std::lock_guard lock(live_->mu);
      live_->relays.erase(id_);
    }
    if (relay_->Detach()) engine_->Cancel(id_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  const std::shared_ptr<Backend> engine_;
  const std::shared_ptr<Live> live_;
  const std::shared_ptr<Relay> relay_;
  const RequestId id_;
};

StatusOr<std::shared_ptr<LocalBackend>> LocalBackend::Open(EngineOptions options) {
  options.model.digest = true;  // By which streams go on elsewhere.
  auto owned = std::make_shared<OwnedEngine>();
  StatusOr<std::unique_ptr<LlmEngine>> engine = OpenEngine(options, &owned->clock, &owned->random);
  if (!engine.ok()) return engine.status();
  owned->engine = *std::move(engine);
  LlmEngine* const backend = owned->engine.get();
  return std::make_shared<LocalBackend>(std::shared_ptr<Backend>(std::move(owned), backend));
}

LocalBackend::LocalBackend(std::shared_ptr<Backend> engine)
    : engine_(std::move(engine)),
      live_(std::make_shared<Live>()),
      can_resume_(HasDigest(*engine_)) {}

std::unique_ptr<RemoteCall> LocalBackend::Start(const Request& request, const ResumePoint* resume,
                                                std::shared_ptr<RemoteSink> sink) {
  Request own = request;
  own.model.clear();  // The engine has one, whatever the gateway calls it.
  if (resume != nullptr) {
    own.resume_ids = resume->ids;
    own.sampling.seed = resume->seed;
  }
  auto relay = std::make_shared<Relay>(std::move(sink));
  const StatusOr<RequestId> id = engine_->Submit(std::move(own), relay);
  if (!id.ok()) {
    relay->Fail(id.status());
    return nullptr;
  }
  return std::make_unique<Call>(engine_, live_, std::move(relay), *id);
}

void LocalBackend::Probe(std::function<void(StatusOr<BackendFacts>)> done) {
  TellAlive();
  done(Facts());
}

void LocalBackend::TellAlive() const {
  std::map<RequestId, std::shared_ptr<Relay>> relays;
  {
    const std::lock_guard lock(live_->mu);
    relays = live_->relays;
  }
  if (relays.empty() || !engine_->GetHealth().live) return;
  for (const RequestInfo& info : engine_->Requests()) {
    const auto found = relays.find(info.id);
    if (found != relays.end()) found->second->TellAlive(info.state == RequestInfo::State::kRunning);
  }
}

BackendFacts LocalBackend::Facts() const {
  BackendFacts facts;
  const Health health = engine_->GetHealth();
  facts.ready = health.live && health.ready;
  facts.reason = health.reason;
  const EngineStats stats = engine_->Stats();
  if (stats.max_batch_size > 0) facts.places = stats.max_batch_size;
  facts.running = stats.running;
  facts.waiting = stats.queue_depth;
  facts.preempts = true;
  facts.shares_tenants = true;
  const int blocks = stats.kv_blocks_free + stats.kv_blocks_held + stats.kv_blocks_cached;
  if (blocks > 0) {
    facts.free_memory = 1.0 - static_cast<double>(stats.kv_blocks_held) / blocks;
  }
  for (const ModelInfo& model : engine_->Models()) {
    facts.models.push_back(model.id);
    facts.model_digest = model.digest;
    facts.numerics = model.numerics;
    facts.limits = model.limits;
  }
  return facts;
}

}  // namespace ropeway::engine

namespace ropeway {

StatusOr<std::shared_ptr<RemoteBackend>> OpenLocalBackend(const EngineOptions& options) {
  StatusOr<std::shared_ptr<engine::LocalBackend>> opened = engine::LocalBackend::Open(options);
  if (!opened.ok()) return opened.status();
  return std::shared_ptr<RemoteBackend>(*std::move(opened));
}

}  // namespace ropeway
