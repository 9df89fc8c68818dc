#include "checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "engine/test_executor.h"
#include "masks.h"
#include "scheduler/scheduler.h"

namespace ropeway::sim {
namespace {

std::string Name(RequestId id) { return "request " + std::to_string(id); }

// Whether the request is to end at `token`, were it not for min_tokens.
bool Ends(const core::CoreRequest& request, TokenId token) {
  if (!request.ignore_eos && IsEnd(token)) return true;
  return std::find(request.stop_ids.begin(), request.stop_ids.end(), token) !=
         request.stop_ids.end();
}

// Whether the request's constraint ends it behind so many tokens.
bool IsHeldToEnd(const core::CoreRequest& request, int32_t length) {
  const engine::TestConstraint* const constraint = ConstraintOf(request);
  return constraint != nullptr && EndsOutput(*constraint, length);
}

// Whether a request that fails behind so many tokens does so because of its constraint.
bool FailsAtMask(const core::CoreRequest& request, int32_t length, const Status& status) {
  const engine::TestConstraint* const constraint = ConstraintOf(request);
  if (constraint == nullptr) return false;
  const engine::TestConstraint::Options& options = constraint->options();
  return (length == options.fails_at && status.message() == engine::TestConstraint::kFails) ||
         (length == options.empty_at && status.code() == StatusCode::kInternal);
}

int32_t LeastTokens(const core::CoreRequest& request) { return request.spec.params.min_tokens; }

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Whether both begin with the same `count` ids.
bool BeginAlike(const core::CoreRequest& a, const core::CoreRequest& b, size_t count) {
  if (a.num_ids() < count || b.num_ids() < count) return false;
  const auto at = [](const core::CoreRequest& r, size_t i) {
    return i < r.prompt.size() ? r.prompt[i] : r.resume_ids[i - r.prompt.size()];
  };
  for (size_t i = 0; i < count; ++i) {
    if (at(a, i) != at(b, i)) return false;
  }
  return true;
}

// Whether a client whose engine is gone goes on where its output was cut. Other plants than that
// which concerns it are to be seen by what they do alone.
bool GoesOn(const Setup& setup, const core::CoreRequest& request) {
  const bool may = setup.plant == Plant::kNone || setup.plant == Plant::kResumedPrompt;
  return may && request.spec.num_prompt_logprobs < 0 &&
         base::Mix64(setup.seed, request.id) % 2 == 0;
}

}  // namespace

void Checks::Violate(const std::string& check, const std::string& message) {
  violations_.emplace(check, message);
}

void Checks::OnAdd(const SimRequest& made, const Status& answer, const Status& device,
                   uint64_t step) {
  const RequestId id = made.request.id;
  if (!answer.ok()) {
    const bool huge = !made.can_fit && answer.code() == StatusCode::kInvalidArgument;
    const bool lost = !device.ok() && answer.code() == StatusCode::kUnavailable;
    const bool full = answer.code() == StatusCode::kResourceExhausted && !open_.empty() &&
                      (setup_.core.queue.max_wait != kNoMaxWait ||
                       setup_.core.queue.max_queued_tokens < kNoMaxQueuedTokens);
    if (!huge && !lost && !full) Violate("failed", Name(id) + " was rejected: " + answer.message());
    return;
  }
  if (!made.can_fit) Violate("failed", Name(id) + " can never fit and was accepted");
  Record& record = records_[id];
  std::vector<std::vector<Output>> cut_outputs = std::move(record.cut_outputs);
  std::vector<Output> before = std::move(record.output);
  record = {};
  record.made = made;
  record.order = next_order_++;
  record.cut_outputs = std::move(cut_outputs);
  if (!made.request.resume_ids.empty()) record.output = std::move(before);
  open_.insert(id);
  // The oldest one gets a token's work in each step, and needs at most its length twice: once
  // computed, once more after a preemption just before it became the oldest. Two steps of margin
  // for what an end leaves to the next step.
  // With prefix caching it may wait as long again for another one that computes its prefix.
  const auto each = static_cast<uint64_t>(
      (setup_.core.cache.prefix_caching ? 4 : 2) * setup_.core.max_model_len + 2);
  record.must_end_by = step + each * open_.size();
}

void Checks::OnDuplicate(const Status& answer, const Status& device) {
  const bool rejected = answer.code() == StatusCode::kInvalidArgument && answer.field() == "id";
  const bool lost = !device.ok() && answer.code() == StatusCode::kUnavailable;
  if (!rejected && !lost) Violate("two_ends", "an id in use was accepted again");
}

void Checks::OnFinishAsked(RequestId id, FinishReason reason, uint64_t step) {
  const auto it = records_.find(id);
  if (it == records_.end() || it->second.ended || it->second.finish_asked) return;
  it->second.finish_asked = true;
  it->second.asked_reason = reason;
  it->second.asked_step = step;
}

void Checks::OnFinishReturned(RequestId id, bool none_left) {
  if (none_left && open_.contains(id)) {
    Violate("no_end", Name(id) + " ended after all others, and its end was not emitted");
  }
}

void Checks::OnEvents(const std::vector<engine::CoreEvent>& events, const Status& device,
                      base::TimePoint now) {
  for (const engine::CoreEvent& event : events) {
    const auto it = records_.find(event.id);
    if (it == records_.end()) {
      Violate("two_ends", "an event for " + Name(event.id) + ", which was not accepted");
      continue;
    }
    Record& record = it->second;
    if (record.ended) {
      Violate("two_ends", Name(event.id) + " had an event after its end");
      continue;
    }
    switch (event.kind) {
      case engine::CoreEvent::Kind::kStarted:
        OnStarted(event, &record);
        break;
      case engine::CoreEvent::Kind::kPromptScored:
        OnScored(event, &record);
        break;
      case engine::CoreEvent::Kind::kPooled:  // Nothing asks for embeddings.
        break;
      case engine::CoreEvent::Kind::kToken:
        OnToken(event, &record);
        break;
      case engine::CoreEvent::Kind::kPreempted:
        OnPreempted(event, &record);
        break;
      case engine::CoreEvent::Kind::kFinished:
      case engine::CoreEvent::Kind::kFailed:
        OnEnd(event, device, now, &record);
        break;
    }
  }
}

void Checks::OnStarted(const engine::CoreEvent& event, Record* record) {
  if (record->started) Violate("end_fields", Name(event.id) + " started twice");
  record->started = true;
  record->runs = true;
  if (!InOrderOfArrival(setup_)) return;
  for (const RequestId other : open_) {
    const Record& earlier = records_.at(other);
    if (earlier.order >= record->order || earlier.started || earlier.finish_asked) continue;
    if (MayFollow(other)) continue;
    Violate("fcfs_order", Name(event.id) + " ran its first step before " + Name(other) +
                              ", which arrived earlier");
  }
}

bool Checks::MayFollow(RequestId id) const {
  const core::CoreRequest& request = records_.at(id).made.request;
  if (!setup_.core.cache.prefix_caching || request.spec.num_prompt_logprobs >= 0) return false;
  // One block is enough where the tier may have more behind it.
  const auto least =
      static_cast<size_t>(setup_.tier.on ? base::kBlockTokens : scheduler::Slots::kMinFollowTokens);
  return std::any_of(open_.begin(), open_.end(), [&](RequestId other) {
    const core::CoreRequest& leader = records_.at(other).made.request;
    if (other == id || leader.cache_root != request.cache_root) return false;
    return BeginAlike(request, leader, least);
  });
}

std::vector<SimRequest> Checks::OnKill() {
  std::map<uint64_t, RequestId> in_order;
  for (const RequestId id : open_) in_order[records_.at(id).order] = id;
  open_.clear();
  memory_in_a_row_ = 0;
  free_steps_ = 0;
  deferred_masks_ = 0;
  memory_preemptions_ = 0;
  std::vector<SimRequest> again;
  for (const auto& [order, id] : in_order) {
    Record& record = records_.at(id);
    record.cut_outputs.push_back(record.output);
    if (record.finish_asked) {
      record.ended = true;
      record.reason = record.asked_reason;
      record.output.clear();
      continue;
    }
    core::CoreRequest& request = again.emplace_back(record.made).request;
    request.resume_ids.clear();
    if (!GoesOn(setup_, request)) {
      record.output.clear();
      continue;
    }
    for (const Output& output : record.output) request.resume_ids.push_back(output.token);
  }
  return again;
}

void Checks::OnPreempted(const engine::CoreEvent& event, Record* record) {
  ++record->preemptions;
  record->runs = false;
  const auto prompt = static_cast<int32_t>(record->made.request.prompt.size());
  if (record->scored > 0 && record->scored < prompt) record->preempted_scored = true;
  const bool for_others = event.preempt_reason != scheduler::PreemptReason::kLength;
  if (!for_others || !InOrderOfArrival(setup_)) return;
  for (const RequestId other : open_) {
    const Record& later = records_.at(other);
    if (later.order <= record->order || !later.runs || later.finish_asked) continue;
    Violate("fcfs_order", Name(event.id) + " was preempted while " + Name(other) +
                              ", which arrived later, ran on");
  }
}

void Checks::OnScored(const engine::CoreEvent& event, Record* record) {
  const core::CoreRequest& request = record->made.request;
  const auto wrong = [&](const core::Scored& scored, const char* what) {
    Violate("scores",
            Name(event.id) + ": position " + std::to_string(scored.position) + " " + what);
  };
  if (record->finish_asked) {
    Violate("two_ends", Name(event.id) + " is scored after Finish returned");
  }
  const bool is_long =
      request.prompt.size() > static_cast<size_t>(setup_.core.step.long_rope_above);
  for (const core::Scored& scored : event.scored) {
    const auto position = static_cast<size_t>(scored.position);
    if (request.spec.num_prompt_logprobs < 0) wrong(scored, "is scored but was not to be");
    if (!record->output.empty()) wrong(scored, "is scored after the first token");
    if (scored.position != record->scored || position >= request.prompt.size()) {
      wrong(scored, "is scored out of turn");
      continue;
    }
    ++record->scored;
    const float expected = position == 0
                               ? std::numeric_limits<float>::quiet_NaN()
                               : engine::TestExecutor::ScoreOf({request.prompt.data(), position},
                                                               request.prompt[position], is_long);
    const bool same =
        position == 0 ? std::isnan(scored.logprob) : SameBits(scored.logprob, expected);
    if (!same || scored.token != request.prompt[position]) wrong(scored, "has another log-prob");
  }
}

void Checks::OnToken(const engine::CoreEvent& event, Record* record) {
  const core::CoreRequest& request = record->made.request;
  const auto length = static_cast<int32_t>(record->output.size());
  if (length > LeastTokens(request) && Ends(request, record->output.back().token)) {
    Violate("stops",
            Name(event.id) + " went on after token " + std::to_string(record->output.back().token));
  }
  if (request.spec.num_prompt_logprobs >= 0 &&
      record->scored != static_cast<int32_t>(request.prompt.size())) {
    Violate("scores", Name(event.id) + " has a token, and " + std::to_string(record->scored) +
                          " ids of its prompt are scored");
  }
  if (!record->started) Violate("end_fields", Name(event.id) + " has a token before its start");
  if (record->finish_asked) {
    Violate("two_ends", Name(event.id) + " has a token after Finish returned");
  }
  CheckMask(event, *record);
  record->runs = true;
  record->last_token_step = event.step;
  if (record->first_token_step == 0) record->first_token_step = event.step;
  record->output.push_back({event.sampled.token, std::bit_cast<uint32_t>(event.sampled.logprob)});
}

void Checks::CheckMask(const engine::CoreEvent& event, const Record& record) {
  const engine::TestConstraint* const constraint = ConstraintOf(record.made.request);
  if (constraint == nullptr) return;
  std::vector<TokenId> before;
  for (const Output& output : record.output) before.push_back(output.token);
  const auto length = static_cast<int32_t>(before.size());
  const bool over = EndsOutput(*constraint, length) || length == constraint->options().fails_at;
  if (!over && constraint->Allows(before, event.sampled.token)) return;
  Violate("masks", Name(event.id) + " has token " + std::to_string(event.sampled.token) +
                       " behind " + std::to_string(length) +
                       " others, where its constraint does not allow it");
}

void Checks::OnEnd(const engine::CoreEvent& event, const Status& device, base::TimePoint now,
                   Record* record) {
  record->ended = true;
  record->reason = event.reason;
  open_.erase(event.id);
  const auto wrong = [&](const std::string& what) {
    Violate("end_fields", Name(event.id) + ": " + what);
  };
  const core::CoreRequest& request = record->made.request;
  const auto length = static_cast<int32_t>(record->output.size());
  if (event.completion_tokens != length) {
    wrong("ends with " + std::to_string(event.completion_tokens) + " tokens, " +
          std::to_string(length) + " were emitted");
  }
  if (event.prompt_tokens != static_cast<int32_t>(request.prompt.size())) wrong("prompt_tokens");
  if (event.cached_tokens < 0 || event.cached_tokens > event.prompt_tokens) wrong("cached_tokens");
  const bool whole = event.kind == engine::CoreEvent::Kind::kFinished && !record->finish_asked;
  if (whole && record->preemptions == 0 &&
      prompt_rows_(event.id) > event.prompt_tokens - event.cached_tokens) {
    Violate("cached", Name(event.id) + " is said to have had " +
                          std::to_string(event.cached_tokens) + " of its prompt's " +
                          std::to_string(event.prompt_tokens) + " tokens cached, and " +
                          std::to_string(prompt_rows_(event.id)) + " were computed");
  }
  if (event.preemptions != record->preemptions) wrong("preemptions");
  if (event.first_token_step != record->first_token_step) wrong("first_token_step");

  if (event.kind == engine::CoreEvent::Kind::kFailed) {
    OnFailed(event, device, now, record);
  } else if (record->finish_asked) {
    if (event.reason != record->asked_reason) wrong("another reason than asked for");
    if (event.step > record->asked_step + 1) wrong("its abort was not emitted with the next step");
  } else {
    CheckCause(event, *record);
  }
}

void Checks::OnFailed(const engine::CoreEvent& event, const Status& device, base::TimePoint now,
                      Record* record) {
  if (event.status.code() == StatusCode::kDeadlineExceeded) {
    record->timed_out = true;
    if (now < record->made.request.deadline) {
      Violate("deadline", Name(event.id) + " ended before its deadline");
    }
    return;
  }
  const auto length = static_cast<int32_t>(record->output.size());
  record->failed_at_mask = FailsAtMask(record->made.request, length, event.status);
  if (record->failed_at_mask) return;
  const bool no_memory = event.status.code() == StatusCode::kResourceExhausted &&
                         memory_in_a_row_ == engine::EngineCore::kMaxMemoryTries - 1;
  if (!no_memory && (device.ok() || event.status.ok())) {
    Violate("failed", Name(event.id) + " failed: " + event.status.message());
  }
}

void Checks::CheckCause(const engine::CoreEvent& event, const Record& record) {
  const core::CoreRequest& request = record.made.request;
  const auto length = static_cast<int32_t>(record.output.size());
  const bool held_to_end = IsHeldToEnd(request, length);
  const bool stopped = held_to_end || (length > 0 && Ends(request, record.output.back().token));
  const bool full = length == request.max_tokens;
  if (event.reason == FinishReason::kStop ? !stopped
                                          : event.reason != FinishReason::kLength || !full) {
    Violate("end_fields", Name(event.id) + ": ended without a cause");
  }
  if (event.reason == FinishReason::kStop && length <= LeastTokens(request) && !held_to_end) {
    Violate("min_tokens", Name(event.id) + " ended with token " + std::to_string(length) +
                              ", before its " + std::to_string(LeastTokens(request)));
  }
  if (request.spec.num_prompt_logprobs >= 0 &&
      record.scored != static_cast<int32_t>(request.prompt.size())) {
    Violate("scores", Name(event.id) + " ended with " + std::to_string(record.scored) +
                          " ids of its prompt scored");
  }
}

void Checks::AfterStep(const engine::CoreStats& stats, base::TimePoint begin) {
  if (stats.free_blocks + stats.cached_blocks + stats.held_blocks != stats.total_blocks) {
    Violate("integrity", "free + cached + held blocks are not all blocks");
  }
  const bool no_memory = std::strcmp(stats.blocked_by, "memory") == 0;
  memory_in_a_row_ = no_memory ? (memory_in_a_row_ + 1) % engine::EngineCore::kMaxMemoryTries : 0;
  const bool fetching = stats.fetching > 0 || stats.last_fetches > 0;
  const auto oldest = std::min_element(
      open_.begin(), open_.end(),
      [this](RequestId a, RequestId b) { return records_.at(a).order < records_.at(b).order; });
  const bool oldest_got_on =
      oldest != open_.end() && records_.at(*oldest).last_token_step == stats.steps;
  const bool deferred = stats.deferred_masks > deferred_masks_;
  deferred_masks_ = stats.deferred_masks;
  if (no_memory || ((fetching || deferred) && !oldest_got_on)) ++free_steps_;
  const bool fills = stats.next_look != base::TimePoint::max();
  const bool any = stats.waiting + stats.running + stats.preempted > 0;
  // All that did not rest, as the choice of a token under a mask may be costly, gave way for
  // memory.
  const bool rest =
      setup_.masks.share > 0 && stats.running > 0 && stats.preemptions_by[0] > memory_preemptions_;
  memory_preemptions_ = stats.preemptions_by[0];
  if (stats.last_rows == 0 && any && !no_memory && !fetching && !fills && !rest) {
    Violate("no_progress", "step " + std::to_string(stats.steps) + " had no work; " +
                               Name(stats.blocked_id) + " waits for " + stats.blocked_by);
  }
  for (const RequestId id : open_) {
    const Record& record = records_.at(id);
    if (record.made.request.deadline <= begin) {
      Violate("deadline", Name(id) + " lived on in step " + std::to_string(stats.steps) +
                              ", which began after its deadline");
    }
    if (!InOrderOfArrival(setup_) || stats.steps <= record.must_end_by + free_steps_) continue;
    Violate("waited_too_long", Name(id) + " has not ended in step " + std::to_string(stats.steps) +
                                   (record.started ? "" : " and never started") +
                                   "; it must have by step " +
                                   std::to_string(record.must_end_by + free_steps_));
  }
}

void Checks::OnIntegrity(const Status& status) {
  if (!status.ok()) Violate("integrity", status.message());
}

std::map<std::string_view, uint64_t> Checks::CountMasked() const {
  std::map<std::string_view, uint64_t> counts;
  for (const auto& [id, record] : records_) {
    const engine::TestConstraint* const constraint = ConstraintOf(record.made.request);
    if (constraint == nullptr) continue;
    const auto length = static_cast<int32_t>(record.output.size());
    const bool over = record.ended && EndsOutput(*constraint, length);
    const bool fails = record.failed_at_mask;
    const bool whole = record.ended && record.reason == FinishReason::kLength;
    const bool empty = constraint->options().empty_at >= 0;
    const bool with_end = !constraint->options().complete_without;
    ++counts["masked requests"];
    counts["masked requests that ended with the end token"] += over && with_end;
    counts["masked requests that ended without one"] += over && !with_end;
    counts["masked requests that ended by max_tokens"] += whole && length > 0;
    counts["masked requests whose mask failed"] += fails && !empty;
    counts["masked requests whose mask was empty"] += fails && empty;
    counts["masked requests that were preempted"] += record.preemptions > 0 && length > 0;
    counts["masked requests that went on after a kill"] += !record.made.request.resume_ids.empty();
  }
  return counts;
}

void Checks::AtEnd() {
  for (const RequestId id : open_) Violate("no_end", Name(id) + " was accepted and never ended");
}

}  // namespace ropeway::sim
