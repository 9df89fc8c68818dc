#include "scheduler/scheduler.h"

#include <algorithm>
#include <limits>
#include <new>

namespace ropeway::scheduler {
namespace {

// Tokens beyond the prompt for which memory is reserved when a sequence is queued.
constexpr int32_t kReservedTokens = 1024;

// Queued sequences whose cached prefix is looked up anew in a step.
constexpr size_t kHintsPerStep = 2;

// Units of cost. A first token whose sampling costs no more waits for no other step.
constexpr double kCheapFirstToken = 1;

}  // namespace

int32_t Scheduler::LongestTable(const core::Sequence& sequence) {
  return sequence.prompt_len + sequence.request.max_tokens;
}

int32_t Scheduler::PositionsToStart(const core::Sequence& sequence) {
  return std::min(sequence.num_ids() + 1, LongestTable(sequence));
}

void Scheduler::Erase(std::vector<core::Sequence*>* list, core::Sequence* sequence) {
  const auto it = std::find(list->begin(), list->end(), sequence);
  if (it == list->end()) return;
  *it = list->back();
  list->pop_back();
}

int Scheduler::Count(std::span<core::Sequence* const> list, core::SequenceState state) {
  return static_cast<int>(std::count_if(
      list.begin(), list.end(), [state](const core::Sequence* s) { return s->state == state; }));
}

Scheduler::Scheduler(const SchedulerOptions& options, policy::SchedulingPolicy* policy,
                     kvcache::KvCacheManager* kv, core::SequenceMover* mover)
    : options_(options),
      max_running_(std::min(options.max_num_seqs, options.max_num_batched_tokens)),
      policy_(policy),
      kv_(kv),
      mover_(mover),
      costs_(options.attention_weight, options.learn_cost),
      tenants_(policy, kv),
      load_(&costs_.step(), &costs_.sampling(),
            {.has_classes = options.has_classes,
             .has_tenants = policy->is_fair(),
             .preempts = options.batching.kind == BatchFormerOptions::Kind::kContinuous,
             .parts = options.class_parts}),
      batches_(options, max_running_),
      budget_({.all = static_cast<double>(options.max_num_batched_tokens),
               .mixed = static_cast<double>(options.mixed_prefill_budget),
               .long_ones = static_cast<double>(options.long_prefill_budget)}),
      aging_(options.max_wait),
      urgent_(policy, options.has_classes, options.max_prefill_chunk),
      sampling_(&costs_, policy, &tenants_, static_cast<size_t>(max_running_)),
      limit_(max_running_) {
  const auto slots = static_cast<size_t>(max_running_);
  running_.reserve(slots);
  // Sequences preempted in a step stay in it beside those that take their slots.
  ranked_.reserve(2 * slots);
  candidates_.reserve(2 * slots);
  output_.Reserve(slots);
}

void Scheduler::Add(core::Sequence* sequence, base::TimePoint now) {
  // The batch builder reserves more step by step: a limit of 100,000 tokens would take 300 KB for
  // each waiting sequence.
  kvcache::KvCacheManager::Reserve(
      sequence, std::min(LongestTable(*sequence), sequence->num_ids() + kReservedTokens) + 1,
      kv_->windows().groups());
  // All running sequences may return to the queue.
  const size_t most = queue_.size() + running_.size() + 1;
  if (queue_.capacity() < most) queue_.reserve(2 * most);
  line_.Reserve(most);
  aging_.Reserve(most);
  if (passed_.capacity() < most) passed_.reserve(2 * most);
  if (due_.capacity() < most) due_.reserve(2 * most);
  const size_t tenants = tenants_.all().size() + 1;
  if (turns_.capacity() < tenants) turns_.reserve(2 * tenants);
  load_.Add(*sequence);
  try {
    tenants_.Enter(sequence);
  } catch (const std::bad_alloc&) {
    load_.Remove(*sequence);
    throw;
  }
  queue_.push_back(sequence);
  sequence->sched.queued_since = now;
  UpdateHint(sequence);
  load_.Enter(sequence);
  batches_.OnArrival(now);
}

void Scheduler::Remove(core::Sequence* sequence, core::SequenceEvent event, bool completed) {
  if (!sequence->running()) load_.Leave(sequence);
  Erase(sequence->running() ? &running_ : &queue_, sequence);
  kv_->Release(sequence);
  mover_->Move(sequence->id(), &sequence->state, event);
  if (completed) load_.OnFinished(*sequence);
  policy_->OnFinished(*sequence, completed);
  load_.Remove(*sequence);
  tenants_.Leave(*sequence);
}

void Scheduler::FetchDone(core::Sequence* sequence) {
  mover_->Move(sequence->id(), &sequence->state, core::SequenceEvent::kFetched);
}

const SchedulerOutput& Scheduler::Schedule(base::TimePoint now) {
  BeginStep(now);
  PreemptLong();
  RankRunning();
  UpdateFollowers();
  RankQueue();
  batches_.BeginStep(queue_, running_, limit_, load_.tokens(), now_, &output_);
  if (continuous()) {
    StartUrgent();
    if (tenants_.several()) StartBelowShare();
    StartDue();
    urgent_.Choose(ranked_, line_.empty() ? nullptr : &line_.front());
  }
  ScheduleDecodes();
  SchedulePrefills();
  ChargeIdle();
  batches_.EndStep(queue_, running_, rows_left(), now_, &output_);
  return output_;
}

void Scheduler::BeginStep(base::TimePoint now) {
  const base::TimePoint last_step = now_;
  output_.Clear();
  now_ = now;
  ++step_;
  passed_.clear();
  RefreshHints();
  tenants_.NoteAboveShare(queue_, last_step);
  aging_.Update(now, limit_, running_, queue_);
  policy_->BeginStep(queue_, running_, now);
  tenants_.BeginStep(running_, step_, limit_);
}

void Scheduler::RefreshHints() {
  const size_t count = std::min(queue_.size(), kHintsPerStep);
  for (size_t i = 0; i < count; ++i) {
    core::Sequence* const sequence = queue_[++next_hint_ % queue_.size()];
    load_.Leave(sequence);
    UpdateHint(sequence);
    load_.Enter(sequence);
  }
}

void Scheduler::UpdateHint(core::Sequence* sequence) {
  const kvcache::CachedPrefix prefix = kv_->Lookup(sequence);
  // It will find what another sequence computes now, or wait for it.
  sequence->sched.cached_hint = std::max(prefix.tokens, prefix.pending_end * base::kBlockTokens);
}

void Scheduler::RankRunning() {
  ranked_.clear();
  for (core::Sequence* sequence : running_) ranked_.push_back(RankedOf(sequence));
}

void Scheduler::UpdateFollowers() {
  for (core::Sequence* follower : queue_) {
    if (follower->sched.follows == 0) continue;
    uint64_t leader = 0;
    if (!kv_->StillPending(*follower, &leader)) {
      follower->sched.follows = 0;
      continue;
    }
    const auto it = std::find_if(ranked_.begin(), ranked_.end(), [leader](const Ranked& ranked) {
      return ranked.sequence->id() == leader;
    });
    if (it == ranked_.end()) continue;
    const Ranked its = RankedOf(follower);
    it->leads = true;
    it->aged = it->aged || its.aged;
    it->rank = std::min(it->rank, its.rank);
  }
  std::sort(ranked_.begin(), ranked_.end(), Before);
}

void Scheduler::RankQueue() {
  line_.Clear();
  for (core::Sequence* sequence : queue_) {
    if (sequence->sched.follows != 0) continue;
    const Ranked ranked = RankedOf(sequence);
    line_.Add(ranked);
    Ranked& first = tenants_.Of(*sequence).first;
    if (first.sequence == nullptr || Before(ranked, first)) first = ranked;
  }
  line_.Sort();
}

Ranked Scheduler::RankedOf(core::Sequence* sequence) const {
  return {.sequence = sequence, .rank = policy_->RankOf(*sequence), .aged = sequence->sched.aged};
}

void Scheduler::ScheduleDecodes() {
  if (batches_.PrefillsFirst(running_)) return;
  if (continuous()) sampling_.Choose(ranked_);
  for (size_t i = 0; i < ranked_.size(); ++i) {
    core::Sequence* sequence = ranked_[i].sequence;
    // Skips sequences preempted in this step too.
    if (sequence->state != core::SequenceState::kDecoding) continue;
    if (urgent_.IsLeftBy(ranked_[i])) continue;
    sequence->sched.contends = ranked_[i].contends;
    if (ranked_[i].rests) {
      policy_->OnScheduled(*sequence, {.held = tenants_.HeldSlots(*sequence), .rests = true});
      ++sequence->sched.run_steps;
      continue;
    }
    if (!ExtendOrPreempt(i)) continue;
    output_.decode_cost += costs_.step().Cost(sequence->kv.computed, 1);
    AddItem(sequence, 1);
  }
}

double Scheduler::StepLimit() const {
  if (!tenants_.named() || costs_.step().speed() <= 0.0)
    return std::numeric_limits<double>::infinity();
  return std::max(kLeastStep, costs_.step().speed() * base::ToSeconds(kLongestStep));
}

void Scheduler::SchedulePrefills() {
  if (const core::Sequence* urgent = urgent_.owner(); urgent != nullptr) {
    const int32_t left = urgent->num_ids() - urgent->kv.computed;
    budget_.BeginUrgent(output_.decode_cost, costs_.step().Cost(urgent->kv.computed, left));
  } else {
    budget_.Begin(output_.decode_cost, urgent_.paused(), StepLimit());
  }
  // In a turn between tenants others may rank before it.
  const bool first_turn = urgent_.owner() != nullptr && urgent_.owner()->sched.first_turn;
  if (first_turn) AddChunk(urgent_.owner());
  bool starting = true;
  const size_t running = ranked_.size();
  for (size_t next = 0; true;) {
    while (next < running && ranked_[next].sequence->state != core::SequenceState::kPrefilling)
      ++next;
    const bool start = starting && !line_.empty();
    if (start && (next == running || Before(line_.front(), ranked_[next]))) {
      starting = StartFirst();
    } else if (next < running) {
      core::Sequence* const sequence = ranked_[next++].sequence;
      if (!first_turn || sequence != urgent_.owner()) AddChunk(sequence);
    } else {
      break;
    }
  }
  if (output_.items.empty() && kv_->windows().any()) PreemptForChunk();
  if (output_.head != nullptr || queue_.empty() || !line_.empty()) return;
  // All waiting sequences follow another one, or were preempted in this step.
  core::Sequence* const first = *std::min_element(
      queue_.begin(), queue_.end(),
      [](const core::Sequence* a, const core::Sequence* b) { return a->order < b->order; });
  NoteBlocked(first, first->sched.follows > 0 ? BlockedBy::kLeader : BlockedBy::kPreemption);
}

bool Scheduler::StartFirst() {
  const Ranked first = line_.front();
  core::Sequence* const sequence = first.sequence;
  const bool fresh = sequence->state == core::SequenceState::kWaiting;
  if (fresh && !batches_.MayStart() &&
      !(batches_.MayJoin(*sequence, running_, limit_) && MayPassAged())) {
    if (first.aged) passed_.push_back(first);
    // A preempted member of the running batch may be behind it.
    if (output_.head == nullptr) NoteBlocked(sequence, BlockedBy::kBatch);
    line_.Pop();
    return true;
  }
  // Even if it could not start now: its leader runs at its rank from now on.
  kvcache::CachedPrefix prefix = kv_->Lookup(sequence);
  if (Follow(sequence, &prefix)) {
    line_.Pop();
    return true;
  }
  const BlockedBy rule = WhatBlocks(first, prefix);
  if (rule != BlockedBy::kNothing) {
    if (output_.head == nullptr) NoteBlocked(sequence, rule);
    // Only the long ones' budget may be spent.
    if (rule != BlockedBy::kTokens || first.aged || !IsLong(*sequence, prefix.tokens)) {
      return false;
    }
    line_.Pop();
    return true;
  }
  line_.Pop();
  if (fresh) batches_.OnStart(sequence, now_);
  Start(first, &prefix);
  if (sequence->state == core::SequenceState::kPrefilling) AddChunk(sequence);
  line_.Resort(*policy_);
  return true;
}

BlockedBy Scheduler::WhatBlocks(const Ranked& first, const kvcache::CachedPrefix& prefix) const {
  const core::Sequence& its = *first.sequence;
  if (output_.ShortOfBlocks()) return BlockedBy::kPreemption;
  if (num_running() >= limit_) {
    // Within its share, it would have preempted a lower class.
    const bool lower_runs =
        std::any_of(running_.begin(), running_.end(), [&](const core::Sequence* s) {
          return s->request.priority > its.request.priority && !policy_->MayPreempt(its, *s);
        });
    return lower_runs && options_.class_parts[0] > 0 ? BlockedBy::kFairness : BlockedBy::kSlots;
  }
  // A batch starts as a whole, even if not all of it computes in its first step.
  if (continuous() && !HasBudget(its, prefix)) return BlockedBy::kTokens;
  if (!kv_->Fits(its, prefix, PositionsToStart(its))) return BlockedBy::kBlocks;
  return BlockedBy::kNothing;
}

bool Scheduler::HasBudget(const core::Sequence& sequence,
                          const kvcache::CachedPrefix& prefix) const {
  if (rows_left() == 0) return false;
  if (output_.num_prefill_tokens == 0) return true;  // The first gets a token in any case.
  const double budget = budget_.For(urgent_.GoesFirst(sequence), IsLong(sequence, prefix.tokens));
  return costs_.step().ChunkFor(prefix.tokens, 1, budget) > 0;
}

void Scheduler::NoteBlocked(core::Sequence* head, BlockedBy rule) {
  output_.head = head;
  output_.head_blocked_by = rule;
}

bool Scheduler::Follow(core::Sequence* sequence, kvcache::CachedPrefix* prefix) {
  // A batch starts as a whole: none of its members waits for another.
  if (!continuous() || prefix->pending_end <= prefix->blocks) return false;
  // What the tier holds behind the pending blocks can be read only once these are computed.
  kv_->LookInTier(*sequence, prefix);
  const int32_t pending = (prefix->pending_end - prefix->blocks) * base::kBlockTokens;
  if (pending + prefix->tier_tokens < kMinFollowTokens) {
    prefix->pending_end = 0;  // It computes them itself.
    return false;
  }
  sequence->sched.follows = prefix->pending_end;
  return true;
}

void Scheduler::Start(const Ranked& ranked, kvcache::CachedPrefix* prefix) {
  core::Sequence* const sequence = ranked.sequence;
  prefix->pending_end = 0;  // It follows none, and computes itself what is not cached.
  kv_->LookInTier(*sequence, prefix);
  const bool reads = kv_->ReadIsCheaper(*prefix);
  if (!reads) prefix->ForgetTier();
  kv_->Start(sequence, *prefix, PositionsToStart(*sequence));
  load_.Leave(sequence);
  Erase(&queue_, sequence);
  running_.push_back(sequence);
  sequence->sched.run_steps = 0;
  sequence->sched.started_step = step_;
  sequence->sched.again_steps = 0;
  sequence->sched.aged = ranked.aged;
  sequence->sched.held_blocks = kv_->HeldBlocks(*sequence);
  tenants_.Hold(*sequence);
  sequence->sched.long_prefill = IsLong(*sequence, sequence->kv.computed);
  const bool first_time = sequence->state == core::SequenceState::kWaiting;
  if (first_time) {
    output_.started.push_back(sequence);
  }
  sequence->sched.queued_since = now_;
  if (reads) {
    mover_->Move(sequence->id(), &sequence->state, core::SequenceEvent::kFetch);
    output_.fetches.push_back({sequence, prefix->tier_blocks, prefix->tier_partial});
    return;
  }
  mover_->Move(sequence->id(), &sequence->state,
               first_time ? core::SequenceEvent::kStart : core::SequenceEvent::kResume);
}

void Scheduler::AddChunk(core::Sequence* sequence) {
  kv_->SkipAhead(sequence);
  // What is behind a prompt that is scored may have other factors of RoPE.
  const bool alone = sequence->rope_length() <= options_.long_rope_above &&
                     sequence->num_ids() > options_.long_rope_above;
  const int32_t end = alone ? sequence->rope_length() : sequence->num_ids();
  const int32_t left = end - sequence->kv.computed;
  int32_t most = std::min(left, rows_left());
  if (options_.max_prefill_chunk > 0) most = std::min(most, options_.max_prefill_chunk);
  if (most <= 0) return;
  const double budget = budget_.For(urgent_.GoesFirst(*sequence), sequence->sched.long_prefill);
  const double scoring = costs_.Scoring(*sequence);
  int32_t chunk = costs_.step().ChunkFor(sequence->kv.computed, most, budget, scoring);
  if (chunk == 0) {
    if (output_.num_prefill_tokens > 0) return;
    chunk = 1;
  }
  const auto cost = [&] {
    return costs_.step().Cost(sequence->kv.computed, chunk) + scoring * chunk;
  };
  const bool samples = chunk == left && !alone && sequence->request.max_tokens > 0;
  double sampling = samples ? costs_.Sampling(*sequence) : 0.0;
  // The last id waits for a step that has room for the choice of its token too, or in which it is
  // the first.
  if (continuous() && sampling > kCheapFirstToken && output_.num_prefill_tokens > 0 &&
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
  const int32_t start = sequence->kv.computed;
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
  sequence->sched.queued_since = now_;
  const bool decodes = sequence->state == core::SequenceState::kDecoding;
  if (++sequence->sched.run_steps >= kMinRunSteps && decodes) sequence->sched.aged = false;
}

}  // namespace ropeway::scheduler
