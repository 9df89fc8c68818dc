#include "ropeway/engine.h"

#include <iterator>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/random.h"
#include "engine/llm_engine.h"
#include "engine/open_engine.h"
#include "service/request_handle.h"

namespace ropeway {
namespace {

size_t BytesOf(const std::vector<OutputToken>& tokens) {
  size_t bytes = tokens.capacity() * sizeof(OutputToken);
  for (const OutputToken& token : tokens) {
    bytes += token.bytes.size() + token.top_logprobs.capacity() * sizeof(TokenLogprob) +
             token.top_bytes.capacity() * sizeof(std::string);
    for (const std::string& top : token.top_bytes) bytes += top.size();
  }
  return bytes;
}

size_t BytesOf(const Result& result) {
  return sizeof(Result) + result.text.capacity() + result.status.message().size() +
         BytesOf(result.tokens) + BytesOf(result.prompt_tokens) +
         result.embedding.size() * sizeof(float);
}

// The results that PollFinished has not given out yet. Thread-safe.
class FinishedQueue {
 public:
  struct Kept {
    std::shared_ptr<const Result> result;
    size_t bytes = 0;
  };
  // A list of one, made ahead: a result is never lost for want of memory.
  using Node = std::list<Kept>;

  // They take at most `max_bytes`. Call before any other.
  void SetBound(size_t max_bytes) { max_bytes_ = max_bytes; }
  bool keeps() const { return max_bytes_ > 0; }

  void Add(Node node) noexcept {
    const size_t bytes = BytesOf(*node.front().result);
    node.front().bytes = bytes;
    Node dropped;  // Freed without the lock.
    const std::lock_guard lock(mu_);
    results_.splice(results_.end(), node);
    bytes_ += bytes;
    while (bytes_ > max_bytes_) {
      bytes_ -= results_.front().bytes;
      ++dropped_;
      dropped.splice(dropped.end(), results_, results_.begin());
    }
  }

  Node Take(size_t max_results) {
    const std::lock_guard lock(mu_);
    Node taken;
    auto end = results_.end();
    if (max_results != 0 && max_results < results_.size()) {
      end = std::next(results_.begin(), static_cast<int64_t>(max_results));
    }
    taken.splice(taken.end(), results_, results_.begin(), end);
    for (const Kept& kept : taken) bytes_ -= kept.bytes;
    return taken;
  }

  uint64_t dropped() const {
    const std::lock_guard lock(mu_);
    return dropped_;
  }

 private:
  size_t max_bytes_ = 0;
  mutable std::mutex mu_;
  Node results_;          // GUARDED_BY(mu_)
  size_t bytes_ = 0;      // GUARDED_BY(mu_)
  uint64_t dropped_ = 0;  // GUARDED_BY(mu_)
};

}  // namespace

class Engine::Impl {
 public:
  StatusOr<RequestHandle> Submit(Request request, StreamCallback on_delta);

  base::RealClock clock;
  base::SystemRandom random;
  FinishedQueue finished;
  std::unique_ptr<engine::LlmEngine> engine;  // Its threads use the others.
  std::optional<service::RequestHandles> handles;
};

StatusOr<RequestHandle> Engine::Impl::Submit(Request request, StreamCallback on_delta) {
  if (!finished.keeps()) return handles->Submit(std::move(request), std::move(on_delta));
  try {
    const auto node = std::make_shared<FinishedQueue::Node>(1);
    auto ended = [this, node](const std::shared_ptr<const Result>& result) {
      node->front().result = result;
      finished.Add(std::move(*node));
    };
    return handles->Submit(std::move(request), std::move(on_delta), std::move(ended));
  } catch (const std::bad_alloc&) {
    return base::OutOfMemory();
  }
}

StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  auto impl = std::make_unique<Impl>();
  if (options.max_finished_bytes > 0) {
    impl->finished.SetBound(static_cast<size_t>(options.max_finished_bytes));
  }
  StatusOr<std::unique_ptr<engine::LlmEngine>> engine =
      engine::OpenEngine(options, &impl->clock, &impl->random);
  if (!engine.ok()) return engine.status();
  impl->engine = *std::move(engine);
  impl->handles.emplace(impl->engine.get());
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
  auto taken = impl_->finished.Take(max_results);
  results.reserve(taken.size());
  for (auto& kept : taken) results.push_back(*kept.result);
  return results;
}

uint64_t Engine::dropped_results() const { return impl_->finished.dropped(); }

Status Engine::Cancel(RequestId id) { return impl_->engine->Cancel(id); }

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
bool Engine::embeds_only() const { return impl_->engine->embeds_only(); }

StatusOr<std::shared_ptr<Backend>> OpenLocalBackend(const EngineOptions& options) {
  StatusOr<std::shared_ptr<engine::LlmEngine>> opened = engine::OpenLocalEngine(options);
  if (!opened.ok()) return opened.status();
  return std::shared_ptr<Backend>(*std::move(opened));
}

}  // namespace ropeway
