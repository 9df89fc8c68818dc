#include "bench/replay/replay.h"

#include <memory>
#include <utility>

#include "base/clock.h"
#include "core/block_name.h"
#include "engine/engine_core.h"
#include "engine/engine_options.h"
#include "engine/test_executor.h"
#include "kvcache/kv_cache_manager.h"
#include "kvcache/test_tier.h"
#include "policy/policies.h"

namespace ropeway::bench {
namespace {

static_assert(kFirstGeneratedId == engine::TestExecutor::kFirstGenerated);

// The time of a step in which all sequences wait for the tier.
constexpr base::Duration kTierWait = std::chrono::microseconds(100);

class Replayer {
 public:
  Replayer(const ReplayOptions& options, size_t count,
           const std::function<ReplayRequest(size_t)>& request_of)
      : options_(options), count_(count), request_of_(request_of) {
    executor_.before_step = [this](const core::Batch& batch) {
      clock_.Advance(options_.cost.OfBatch(batch));
      return Status();
    };
    tier_.capacity = options.tier_blocks;
    tier_.read_at_once = true;
    tier_.read_took = kReplayBlockRead;
  }

  StatusOr<ReplayResult> Run() {
    if (Status status = Open(); !status.ok()) return status;
    if (count_ > 0) next_ = request_of_(0);
    while (asked_ < count_ || loop_goes_on() || !core_->idle()) {
      if (core_->idle() && !loop_goes_on()) {
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
    engine::EngineCoreOptions core;
    core.max_model_len = options_.pool_blocks * base::kBlockTokens;
    // Nothing but the policy and the pool decides.
    core.queue.max_wait = std::chrono::hours(24 * 365);
    core.scheduler.long_prefill_threshold = 0;
    core.scheduler.preempt_max_generated = 1 << 30;
    if (options_.as_served) {
      EngineOptions served;
      served.queue.policy = ranking()->name();
      served.cache.prefix_caching = options_.caching;
      core = engine::CoreOptionsOf(served, core.max_model_len, *layout);
    }
    core.scheduler.max_num_seqs = options_.max_num_seqs;
    core.scheduler.max_num_batched_tokens = options_.max_num_batched_tokens;
    core.cache.prefix_caching = options_.caching;
    core.eviction = options_.eviction;
    core.tier = options_.tier_blocks > 0 ? &tier_ : nullptr;
    core.check_integrity = false;  // In the end, not whenever it is idle.
    if (Status status = core.Validate(*layout); !status.ok()) return status;
    core_ = std::make_unique<engine::EngineCore>(core, *layout, &executor_, ranking(), &clock_,
                                                 [this](std::vector<engine::CoreEvent> events) {
                                                   for (const engine::CoreEvent& event : events)
                                                     Note(event);
                                                 });
    return {};
  }

  policy::SchedulingPolicy* ranking() {
    return options_.policy != nullptr ? options_.policy : &fcfs_;
  }

  // Whether the closed loop sends more requests.
  bool loop_goes_on() const {
    return options_.users > 0 && looped_ < options_.loop_count && (count_ == 0 || asked_ < count_);
  }

  Status AddWhatArrived() {
    while (asked_ < count_ && next_.arrival <= clock_.Now()) {
      if (Status status = Add(asked_++, std::move(next_)); !status.ok()) return status;
      if (asked_ < count_) next_ = request_of_(asked_);
    }
    while (in_loop_ < options_.users && loop_goes_on()) {
      ++in_loop_;
      const size_t number = count_ + looped_++;
      ReplayRequest request = request_of_(number);
      request.arrival = clock_.Now();
      if (Status status = Add(number, std::move(request)); !status.ok()) return status;
    }
    return {};
  }

  Status Add(size_t number, ReplayRequest asked) {
    core::CoreRequest request;
    request.id = number + 1;
    request.prompt = std::move(asked.prompt);
    request.max_tokens = asked.output_tokens;
    request.ignore_eos = true;
    request.spec.params.temperature = 0;
    request.arrival = asked.arrival;
    request.cache_root = root_;
    request.tenant = std::move(asked.tenant);
    request.priority = asked.priority;
    if (options_.on_arrival) options_.on_arrival(number, asked.arrival);
    return core_->Add(std::move(request));
  }

  void Note(const engine::CoreEvent& event) {
    if (event.kind == engine::CoreEvent::Kind::kToken && options_.on_token) {
      options_.on_token(event.id - 1, clock_.Now());
    }
    if (event.kind == engine::CoreEvent::Kind::kFailed && failure_.ok()) failure_ = event.status;
    if (event.kind != engine::CoreEvent::Kind::kFinished) return;
    if (event.id > count_) --in_loop_;
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
        static_cast<int64_t>(core_->stats().transfers.fetched_blocks) * base::kBlockTokens;
    result_.computed_rows = executor_.rows();
    result_.steps = executor_.steps();
    result_.makespan = clock_.Now();
  }

  const ReplayOptions& options_;
  const size_t count_;
  const std::function<ReplayRequest(size_t)>& request_of_;
  base::VirtualClock clock_;
  engine::TestExecutor executor_{engine::TestExecutor::Kv::kNone};
  kvcache::TestTier tier_;
  policy::FcfsPolicy fcfs_;
  const core::BlockName root_{};  // All share.
  std::unique_ptr<engine::EngineCore> core_;
  ReplayRequest next_;  // The first that did not arrive yet.
  size_t asked_ = 0;
  size_t looped_ = 0;  // Requests of the closed loop that were sent.
  int in_loop_ = 0;    // Requests of the closed loop in flight.
  Status failure_;
  ReplayResult result_;
};

}  // namespace

base::Duration StepTime::OfChunk(int64_t start, int64_t tokens) const {
  // Each token attends to those before it and to itself.
  const int64_t positions = tokens * start + tokens * (tokens + 1) / 2;
  return prefill * tokens + prefill_position * positions;
}

base::Duration StepTime::OfDecode(int64_t position) const {
  return decode + decode_position * (position + 1);
}

base::Duration StepTime::OfBatch(const core::Batch& batch) const {
  base::Duration cost = step;
  for (const core::BatchItem& item : batch.items) {
    const auto tokens = static_cast<int64_t>(item.tokens.size());
    cost += tokens == 1 ? OfDecode(item.start) : OfChunk(item.start, tokens);
  }
  return cost;
}

base::Duration StepTime::OfRequest(int64_t prompt, int64_t cached, int64_t output) const {
  // The first token of the answer comes with the prompt's last step.
  const int64_t decodes = output - 1;
  const int64_t positions = decodes * (prompt + 1) + decodes * (decodes - 1) / 2;
  return OfChunk(cached, prompt - cached) + decode * decodes + decode_position * positions;
}

StatusOr<ReplayResult> Replay(const ReplayOptions& options, size_t count,
                              const std::function<ReplayRequest(size_t)>& request_of) {
  return Replayer(options, count, request_of).Run();
}

}  // namespace ropeway::bench
