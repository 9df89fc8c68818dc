#include "bench/replay/replay.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/block_name.h"
#include "engine/engine_core.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/fcfs.h"
#include "bench/replay/name_tier.h"
#include "bench/replay/virtual_executor.h"

namespace ropeway {
namespace {

// What a step takes in which everybody waits for the tier.
constexpr Duration kTierWait = std::chrono::microseconds(100);

class Replayer {
 public:
  Replayer(const ReplayOptions& options, size_t count,
           const std::function<ReplayRequest(size_t)>& request_of)
      : options_(options),
        count_(count),
        request_of_(request_of),
        executor_(&clock_, options.cost) {
    if (options.tier_blocks > 0) tier_.emplace(options.tier_blocks);
  }

  StatusOr<ReplayResult> Run() {
    if (Status status = Open(); !status.ok()) return status;
    if (count_ > 0) next_ = request_of_(0);
    while (asked_ < count_ || !core_->idle()) {
      if (core_->idle()) {
        // What the engine's loop does meanwhile.
        while (core_->Background()) {
        }
        clock_.AdvanceTo(next_.arrival);
      }
      if (Status status = AddWhatArrived(); !status.ok()) return status;
      core_->Step();
      if (core_->stats().last_rows == 0) clock_.Advance(kTierWait);
      if (!failure_.ok()) return failure_;
    }
    if (Status status = core_->CheckIntegrity(); !status.ok()) return status;
    Summarize();
    return result_;
  }

 private:
  Status Open() {
    auto layout = executor_.Init(options_.pool_blocks, options_.max_num_batched_tokens,
                                 options_.max_num_seqs);
    if (!layout.ok()) return layout.status();
    EngineCoreOptions core;
    core.scheduler.max_num_seqs = options_.max_num_seqs;
    core.scheduler.max_num_batched_tokens = options_.max_num_batched_tokens;
    core.max_model_len = options_.pool_blocks * kBlockTokens;
    core.cache.caching = options_.caching;
    core.cache.eviction = options_.eviction;
    core.tier = tier_ ? &*tier_ : nullptr;
    core.check_integrity = false;  // In the end, not whenever it is idle.
    if (Status status = core.Validate(*layout); !status.ok()) return status;
    core_ = std::make_unique<EngineCore>(core, *layout, &executor_,
                                         options_.policy != nullptr ? options_.policy : &fcfs_,
                                         &clock_, [this](std::vector<CoreEvent> events) {
                                           for (const CoreEvent& event : events) Note(event);
                                         });
    return {};
  }

  Status AddWhatArrived() {
    while (asked_ < count_ && next_.arrival <= clock_.Now()) {
      CoreRequest request;
      request.id = ++asked_;
      request.prompt = std::move(next_.prompt);
      request.max_tokens = next_.output_tokens;
      request.ignore_eos = true;
      request.spec.params.temperature = 0;
      request.arrival = next_.arrival;
      request.cache_root = root_;
      request.tenant = std::move(next_.tenant);
      if (Status status = core_->Add(std::move(request)); !status.ok()) return status;
      if (asked_ < count_) next_ = request_of_(asked_);
    }
    return {};
  }

  void Note(const CoreEvent& event) {
    if (event.kind == CoreEvent::Kind::kToken && options_.on_token) {
      options_.on_token(event.id - 1, clock_.Now());
    }
    if (event.kind == CoreEvent::Kind::kFailed && failure_.ok()) failure_ = event.status;
    if (event.kind != CoreEvent::Kind::kFinished) return;
    ++result_.requests;
    result_.prompt_tokens += event.prompt_tokens;
    result_.cached_tokens += event.cached_tokens;
    result_.work += options_.cost.OfChunk(0, event.prompt_tokens);
    result_.saved_work += options_.cost.OfChunk(0, event.cached_tokens);
    result_.output_tokens += event.completion_tokens;
    result_.preemptions += event.preemptions;
  }

  void Summarize() {
    result_.tier_tokens =
        static_cast<int64_t>(core_->stats().transfers.fetched_blocks) * kBlockTokens;
    result_.computed_rows = executor_.rows();
    result_.steps = executor_.steps();
    result_.makespan = clock_.Now();
  }

  const ReplayOptions& options_;
  const size_t count_;
  const std::function<ReplayRequest(size_t)>& request_of_;
  VirtualClock clock_;
  VirtualExecutor executor_;
  std::optional<NameTier> tier_;
  FcfsPolicy fcfs_;
  const BlockName root_{};  // All share.
  std::unique_ptr<EngineCore> core_;
  ReplayRequest next_;  // The first that did not arrive yet.
  size_t asked_ = 0;
  Status failure_;
  ReplayResult result_;
};

}  // namespace

StatusOr<ReplayResult> Replay(const ReplayOptions& options, size_t count,
                              const std::function<ReplayRequest(size_t)>& request_of) {
  return Replayer(options, count, request_of).Run();
}

}  // namespace ropeway
