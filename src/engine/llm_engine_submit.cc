// The part of LlmEngine that takes requests: checks, places in the queue, the prompt pool.
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/request_check.h"
#include "engine/failure.h"
#include "engine/llm_engine.h"
#include "service/intake.h"

namespace ropeway::engine {
Status LlmEngine::CheckModel(const std::string& model) const {
  // The name that nearly all say costs nothing.
  if (core::IsDefaultModel(model) || model == config_.served_name) return {};
  if (config_.options.model.any_name) return {};
  const std::vector<service::ModelInfo> models = Models();
  return service::IsNamed(models.front(), model) ? Status() : service::NoSuchModel(model, models);
}

Status LlmEngine::CheckAccepting() const {
  if (!accepting_) {
    return {StatusCode::kUnavailable, "the engine is stopping and accepts no new requests"};
  }
  if (Status status = loop_.device_status(); !status.ok()) {
    return {StatusCode::kUnavailable, "the engine has failed: " + status.message()};
  }
  return {};
}

Status LlmEngine::Reserve(LiveRequest* live) {
  if (!places_.Take(live->tenant(), 1, &live->place)) {
    return service::QueueFull(places_, loop_.load(),
                              {live->tenant(), live->request.tenant_weight, live->priority()},
                              config_.options.queue);
  }
  return service::TakeBytes(live->request, &request_bytes_, &live->bytes);
}

StatusOr<std::shared_ptr<LiveRequest>> LlmEngine::MakeLive(SinkRequest request) {
  if (Status status = CheckModel(request.request.model); !status.ok()) return status;
  if (Status status = core::CheckRequest(request.request); !status.ok()) return status;
  auto live = std::make_shared<LiveRequest>();
  live->request = std::move(request.request);
  live->sink = std::move(request.sink);
  live->arrival = config_.clock->Now();
  live->deadline =
      service::DeadlineOf(live->request, live->arrival, config_.options.request_timeout);
  if (!live->request.session_id.empty()) {
    StatusOr<store::SessionTurn> turn = sessions_->Begin(live->tenant(), live->request.session_id);
    if (!turn.ok()) return turn.status();
    live->turn = std::make_unique<LiveTurn>();
    live->turn->turn = *std::move(turn);
  }
  return live;
}

StatusOr<std::vector<RequestId>> LlmEngine::SubmitAll(std::vector<SinkRequest> requests) {
  try {
    std::shared_ptr<core::AdmissionGroup> group;
    if (requests.size() > 1) {
      group = std::make_shared<core::AdmissionGroup>(static_cast<int32_t>(requests.size()));
    }
    std::vector<std::shared_ptr<LiveRequest>> all;
    all.reserve(requests.size());
    for (SinkRequest& request : requests) {
      StatusOr<std::shared_ptr<LiveRequest>> live = MakeLive(std::move(request));
      if (!live.ok()) return live.status();
      all.push_back(*std::move(live));
      all.back()->group = group;
    }
    return EnqueueAll(all);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

StatusOr<std::vector<RequestId>> LlmEngine::EnqueueAll(
    const std::vector<std::shared_ptr<LiveRequest>>& all) {
  std::vector<RequestId> ids;
  ids.reserve(all.size());
  Status status;
  {
    const std::lock_guard lock(mu_);
    status = CheckAccepting();
    for (size_t i = 0; i < all.size() && status.ok(); ++i) status = Reserve(all[i].get());
    try {
      for (size_t i = 0; i < all.size() && status.ok(); ++i) {
        status = Enqueue(all[i]);
        if (status.ok()) ids.push_back(all[i]->id);
      }
    } catch (const std::bad_alloc&) {
      status = OutOfMemory();
    }
  }
  if (status.ok()) return ids;
  // The prompt pool has those before already, and may have ended them. Not under the lock: see
  // CancelAll.
  for (size_t i = 0; i < ids.size(); ++i) CancelLive(all[i]);
  return status;
}

Status LlmEngine::Enqueue(const std::shared_ptr<LiveRequest>& live) {
  const RequestId id = next_id_;
  live->id = id;
  const std::optional<uint64_t>& seed = live->request.sampling.seed;
  live->seed = seed ? *seed : config_.random->Next64();
  requests_.Add(live);
  const auto forget = [&] {
    live->End();
    requests_.Erase(id);
  };
  try {
    if (prompt_pool_.TryAdd(live)) {
      ++next_id_;
      return {};
    }
  } catch (const std::bad_alloc&) {
    forget();
    throw;
  }
  forget();
  return {StatusCode::kResourceExhausted, "the queue of prompts to encode is full"};
}

}  // namespace ropeway::engine
