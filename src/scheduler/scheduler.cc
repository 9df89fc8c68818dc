#include "scheduler/scheduler.h"

#include <algorithm>
#include <limits>

namespace ropeway::scheduler {
namespace {

// Units of cost. A first token whose sampling costs no more waits for no other step.
constexpr double kCheapFirstToken = 1;

}  // namespace

Scheduler::Scheduler(const SchedulingOptions& options, base::Duration max_wait,
                     const StepOptions& step, policy::SchedulingPolicy* policy,
                     kvcache::KvCacheManager* kv, core::SequenceMover* mover)
    : options_(options),
      long_rope_above_(step.long_rope_above),
      whole_prompts_(step.whole_prompts),
      device_(step.device),
      policy_(policy),
      kv_(kv),
      costs_(step.attention_weight, step.learn_cost, step.device),
      load_(&costs_, LoadOptions::Of(*policy, /*preempts=*/IsContinuous(options)),
            step.device.decode_ratio),
      tenants_(policy, kv),
      aging_(max_wait),
      slots_(options, &aging_, kv, mover, &tenants_, &load_, &output_),
      batches_(options, slots_.max()),
      order_(policy, kv, static_cast<size_t>(slots_.max())),
      urgent_(policy, options.max_prefill_chunk, step.device.urgent_prompt),
      takeover_(options, {.max_wait = max_wait, .chunk = step.device.mixed_prefill_budget}, policy,
                kv, &urgent_, &tenants_, &slots_),
      sampling_(&costs_, policy, &tenants_, static_cast<size_t>(slots_.max())),
      memory_(policy, kv, &tenants_, &slots_),
      budget_({.all = static_cast<double>(options.max_num_batched_tokens),
               .mixed = static_cast<double>(step.mixed_prefill_budget),
               .long_ones = static_cast<double>(options.long_prefill_budget),
               .spare = step.device.spare,
               .urgent = step.device.efficient_step}) {}

void Scheduler::Add(core::Sequence* sequence, base::TimePoint now) {
  const size_t most = queue().size() + running().size() + 1;
  order_.Reserve(most);
  aging_.Reserve(most);
  passed_.Reserve(most);
  takeover_.Reserve(most, tenants_.all().size() + 1);
  slots_.Add(sequence, now);
  batches_.OnArrival(now);
}

void Scheduler::Remove(core::Sequence* sequence, core::SequenceEvent event, bool completed) {
  slots_.Remove(sequence, event);
  if (completed) load_.OnFinished(*sequence);
  policy_->OnFinished(*sequence, completed);
}

// A step has five phases:
//
// 1. It looks at what has waited too long, what each tenant holds, and how the policy ranks it; and
//    takes out sequences that have become too long for the short factors of RoPE.
// 2. It ranks what runs and what waits, and decides how many may start.
// 3. With continuous batching, sequences of the queue that go before running ones take their slots
//    and blocks (Takeover). A step with an urgent prompt belongs to it (UrgentSteps).
// 4. Each decoding sequence gets one token, in rank order, except for those that leave the step to
// an
//    urgent prompt, and those that rest since sampling all would cost too much (SamplingTurns). For
//    a missing block others are preempted (MemoryPreemption).
// 5. In rank order, prefilling sequences get a chunk of the rest of the step's budget
//    (PrefillBudget; the first at least one token), and sequences of the queue start while their
//    batch (Batches), a slot, a token, and blocks allow it. The first that does not fit ends the
//    starting: none passes it, unless it is a long one and only the long ones' budget is spent. A
//    step that preempted for memory starts none.
//
// At its end, slots without work are charged, and what has started is numbered as a batch.
const SchedulerOutput& Scheduler::Schedule(base::TimePoint now) {
  LookAround(now);

  order_.Rank(queue(), running(), &tenants_);
  batches_.BeginStep(queue(), running(), limit(), load_.tokens(), now, &output_);

  if (batches_.continuous()) {
    takeover_.Run(costs_.step_seconds(), &order_);
    urgent_.Choose(order_.running, order_.queue.empty() ? nullptr : &order_.queue.front());
    sampling_.Choose(order_.running);
  }

  if (!batches_.PrefillsFirst(running())) ScheduleDecodes();

  SchedulePrefills();

  ChargeIdle();
  batches_.EndStep(queue(), running(), rows_left(), now, &output_);
  return output_;
}

void Scheduler::LookAround(base::TimePoint now) {
  const base::TimePoint last_step = slots_.now();
  slots_.BeginStep(now);
  tenants_.NoteAboveShare(queue(), last_step);
  aging_.Update(now, limit(), slots_.running(), slots_.queue());
  policy_->BeginStep(slots_.queue(), slots_.running(), now);
  tenants_.BeginStep(running(), slots_.step(), limit());
  slots_.PreemptLong(long_rope_above_);
}

void Scheduler::ScheduleDecodes() {
  for (size_t i = 0; i < order_.running.size(); ++i) {
    const Ranked& ranked = order_.running[i];
    core::Sequence* const sequence = ranked.sequence;
    // Skips sequences preempted in this step too.
    if (sequence->state != core::SequenceState::kDecoding) continue;
    if (urgent_.IsLeftBy(ranked)) continue;
    sequence->sched.contends = ranked.contends;
    if (ranked.rests) {
      policy_->OnScheduled(*sequence, {.held = tenants_.HeldSlots(*sequence), .rests = true});
      ++sequence->sched.run_steps;
      continue;
    }
    if (!memory_.Extend(order_.running, i)) continue;
    output_.decode_cost += costs_.step().Cost(sequence->computed, 1);
    AddItem(sequence, 1);
  }
}

double Scheduler::StepLimit() const {
  const double speed = costs_.step().speed();
  if (!tenants_.named() || speed <= 0.0) return std::numeric_limits<double>::infinity();
  return std::max(device_.efficient_step, speed * base::ToSeconds(device_.longest_step));
}

void Scheduler::SchedulePrefills() {
  core::Sequence* const urgent = urgent_.owner();
  if (urgent != nullptr) {
    const int32_t left = urgent->num_ids() - urgent->computed;
    budget_.BeginUrgent(output_.decode_cost, costs_.step().Cost(urgent->computed, left));
  } else {
    budget_.Begin(output_.decode_cost, urgent_.paused(), StepLimit());
  }
  // In a turn between tenants others may rank before it.
  const bool first_turn = urgent != nullptr && urgent->sched.first_turn;
  if (first_turn) AddChunk(urgent);
  passed_.Clear();
  bool starting = true;
  const std::vector<Ranked>& running = order_.running;
  for (size_t next = 0; true;) {
    while (next < running.size() &&
           running[next].sequence->state != core::SequenceState::kPrefilling)
      ++next;
    const bool start = starting && !order_.queue.empty();
    if (start && (next == running.size() || Before(order_.queue.front(), running[next]))) {
      starting = StartFirst();
    } else if (next < running.size()) {
      core::Sequence* const sequence = running[next++].sequence;
      if (!first_turn || sequence != urgent) AddChunk(sequence);
    } else {
      break;
    }
  }
  if (output_.items.empty() && kv_->windows().any()) {
    const auto first = std::find_if(running.begin(), running.end(), [](const Ranked& ranked) {
      return ranked.sequence->state == core::SequenceState::kPrefilling;
    });
    if (first != running.end() && memory_.Cover(first->sequence)) AddChunk(first->sequence);
  }
  if (output_.head != nullptr || queue().empty() || !order_.queue.empty()) return;
  // All waiting sequences follow another one, or were preempted in this step.
  core::Sequence* const first =
      *std::ranges::min_element(slots_.queue(), {}, &core::Sequence::order);
  NoteBlocked(first, first->sched.follows > 0 ? BlockedBy::kLeader : BlockedBy::kPreemption);
}

bool Scheduler::StartFirst() {
  const Ranked first = order_.queue.front();
  core::Sequence* const sequence = first.sequence;
  const bool fresh = sequence->state == core::SequenceState::kWaiting;
  // An urgent one does not join a running batch before an aged one that it may not pass.
  if (fresh && !batches_.MayStart() &&
      !(batches_.MayJoin(*sequence, running(), limit()) && passed_.MayPass(running(), limit()))) {
    if (first.aged) passed_.Add(first);
    // A preempted member of the running batch may be behind it.
    if (output_.head == nullptr) NoteBlocked(sequence, BlockedBy::kBatch);
    order_.queue.Pop();
    return true;
  }
  // Even if it could not start now: its leader runs at its rank from now on.
  kvcache::CachedPrefix prefix = kv_->Lookup(sequence);
  if (slots_.Follow(sequence, &prefix)) {
    order_.queue.Pop();
    return true;
  }
  const BlockedBy rule = WhatBlocks(*sequence, prefix);
  if (rule != BlockedBy::kNothing) {
    if (output_.head == nullptr) NoteBlocked(sequence, rule);
    // Only the long ones' budget may be spent.
    if (rule != BlockedBy::kTokens || first.aged || !slots_.IsLong(*sequence, prefix.tokens)) {
      return false;
    }
    order_.queue.Pop();
    return true;
  }
  order_.queue.Pop();
  if (fresh) batches_.OnStart(sequence, slots_.now());
  slots_.Start(first, &prefix);
  if (sequence->state == core::SequenceState::kPrefilling) AddChunk(sequence);
  order_.queue.Resort(*policy_);
  return true;
}

BlockedBy Scheduler::WhatBlocks(const core::Sequence& first,
                                const kvcache::CachedPrefix& prefix) const {
  if (output_.short_of_blocks) return BlockedBy::kPreemption;
  if (slots_.num_running() >= limit()) {
    // Within its share, it would have preempted a lower class.
    const bool lower_runs = std::ranges::any_of(running(), [&](const core::Sequence* s) {
      return s->request.priority > first.request.priority && !policy_->MayPreempt(first, *s);
    });
    return lower_runs && policy_->class_parts()[0] > 0 ? BlockedBy::kFairness : BlockedBy::kSlots;
  }
  // A batch starts as a whole, even if not all of it computes in its first step.
  if (batches_.continuous() && !HasBudget(first, prefix)) return BlockedBy::kTokens;
  if (!slots_.Fits(first, prefix)) return BlockedBy::kBlocks;
  return BlockedBy::kNothing;
}

bool Scheduler::HasBudget(const core::Sequence& sequence,
                          const kvcache::CachedPrefix& prefix) const {
  const int32_t least = whole_prompts_ ? sequence.num_ids() : 1;
  if (rows_left() < least) return false;
  if (output_.num_prefill_tokens == 0) return true;  // The first gets a token in any case.
  const double budget =
      budget_.For(urgent_.GoesFirst(sequence), slots_.IsLong(sequence, prefix.tokens));
  return costs_.step().ChunkFor(prefix.tokens, least, budget) >= least;
}

void Scheduler::NoteBlocked(core::Sequence* head, BlockedBy rule) {
  output_.head = head;
  output_.head_blocked_by = rule;
}

void Scheduler::AddChunk(core::Sequence* sequence) {
  kv_->SkipAhead(sequence);
  // What is behind a prompt that is scored may have other factors of RoPE.
  const bool alone =
      sequence->rope_length() <= long_rope_above_ && sequence->num_ids() > long_rope_above_;
  const int32_t end = alone ? sequence->rope_length() : sequence->num_ids();
  const int32_t left = end - sequence->computed;
  int32_t most = std::min(left, rows_left());
  if (whole_prompts_ && most < left) return;
  if (options_.max_prefill_chunk > 0 && !whole_prompts_)
    most = std::min(most, options_.max_prefill_chunk);
  if (most <= 0) return;
  const double budget = budget_.For(urgent_.GoesFirst(*sequence), sequence->sched.long_prefill);
  const double scoring = costs_.Scoring(*sequence);
  int32_t chunk = costs_.step().ChunkFor(sequence->computed, most, budget, scoring);
  const int32_t least = whole_prompts_ ? left : 1;
  if (chunk < least) {
    if (output_.num_prefill_tokens > 0) return;
    chunk = least;
  }
  const auto cost = [&] { return costs_.step().Cost(sequence->computed, chunk) + scoring * chunk; };
  const bool samples = chunk == left && !alone && sequence->request.max_tokens > 0;
  double sampling = samples ? costs_.Sampling(*sequence) : 0.0;
  // The last id waits for a step that has room for the choice of its token too, or in which it is
  // the first.
  if (batches_.continuous() && sampling > kCheapFirstToken && output_.num_prefill_tokens > 0 &&
      cost() + sampling > budget) {
    sampling = 0.0;
    if (--chunk == 0) return;
  }
  chunk = kv_->Cover(sequence, chunk);
  if (chunk == 0) return;
  if (chunk < left) sampling = 0.0;
  budget_.Spend(cost() + sampling, sequence->sched.long_prefill);
  tenants_.Of(*sequence).prefills = true;
  output_.num_prefill_tokens += chunk;
  AddItem(sequence, chunk);
}

void Scheduler::AddItem(core::Sequence* sequence, int32_t num_tokens) {
  const int32_t start = sequence->computed;
  const bool sample = start + num_tokens == sequence->num_ids() && sequence->request.max_tokens > 0;
  output_.items.push_back({sequence, start, num_tokens, sample});
  output_.num_tokens += num_tokens;
  output_.positions += StepCost::Positions(start, num_tokens);
  const int32_t fresh = std::max(0, std::min(sequence->prompt_len, start + num_tokens) -
                                        std::max(start, sequence->kv.high_water));
  const int32_t first_time = std::max(fresh, sample ? 1 : 0);
  if (first_time == 0) ++sequence->sched.again_steps;
  const double cost = costs_.step().Cost(start, num_tokens);
  const double sampling =
      (sample ? costs_.Sampling(*sequence) : 0.0) + costs_.Scoring(*sequence) * fresh;
  policy_->OnScheduled(*sequence,
                       {.prompt_tokens = fresh,
                        .output_tokens = sample ? 1 : 0,
                        .cost = cost + sampling,
                        .extra = (cost - num_tokens) * first_time / num_tokens + sampling,
                        .held = tenants_.HeldSlots(*sequence)});
  sequence->sched.queued_since = slots_.now();
  const bool decodes = sequence->state == core::SequenceState::kDecoding;
  if (++sequence->sched.run_steps >= kMinRunSteps && decodes) sequence->sched.aged = false;
}

void Scheduler::ChargeIdle() {
  for (const core::Sequence* sequence : running()) {
    const core::Sequence& its = *sequence;
    // A decode without work rests, and is charged already, or leaves the step to an urgent prompt.
    const bool decodes = its.state == core::SequenceState::kDecoding;
    if (decodes || its.sched.queued_since == slots_.now()) continue;
    // As computing again what was lost is not charged, nor is the wait for it.
    if (its.computed < its.kv.high_water) continue;
    // One that waits for another tenant's prompts would be charged for these, and wait the longer.
    const bool fetches = its.state == core::SequenceState::kFetching;
    if (!fetches && !tenants_.Of(its).prefills) continue;
    policy_->OnScheduled(its, {.held = tenants_.HeldSlots(its), .rests = true});
  }
}

void Scheduler::View(LoadView* view) const {
  // While blocks are what is short, there are no more slots than sequences that run.
  const bool blocks = output_.head_blocked_by == BlockedBy::kBlocks && slots_.num_running() > 0;
  load_.View({.jobs = slots_.running(),
              .slots = blocks ? std::min(limit(), slots_.num_running()) : limit(),
              .step_seconds = costs_.step_seconds()},
             view);
}

void Scheduler::OnStep(base::Duration took, const core::StepResult& result) {
  const auto busy = costs_.OnStep(output_, took, result, running(), limit());
  if (busy) load_.OnStep(busy->work, busy->took);
}

}  // namespace ropeway::scheduler
