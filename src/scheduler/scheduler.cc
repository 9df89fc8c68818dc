#include "scheduler/scheduler.h"

#include <algorithm>

#include "scheduler/list_integrity.h"

namespace ropeway {
namespace {

void Erase(std::vector<Sequence*>* list, Sequence* sequence) {
  const auto it = std::find(list->begin(), list->end(), sequence);
  if (it == list->end()) return;
  *it = list->back();
  list->pop_back();
}

// Positions that a sequence's blocks ever cover. Its last token is never computed, but to start it
// must have a block for the next one.
int32_t LongestTable(const Sequence& sequence) { return sequence.prompt_len + sequence.max_tokens; }

// What it must have blocks for to start: one position more than its ids, where it wants one. Else
// the token that its prefill samples could find no block, and the whole prefill would be for
// nothing.
int32_t PositionsToStart(const Sequence& sequence) {
  return std::min(sequence.num_ids() + 1, LongestTable(sequence));
}

// What memory is taken for when a sequence is queued, beyond its prompt.
constexpr int32_t kReservedTokens = 1024;

// Of the queue, those for which a step asks the pool what it has of them.
constexpr size_t kHintsPerStep = 2;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, SchedulingPolicy* policy, KvCacheManager* kv,
                     SequenceMover* mover)
    : options_(options),
      max_running_(std::min(options.max_num_seqs, options.max_num_batched_tokens)),
      policy_(policy),
      kv_(kv),
      mover_(mover),
      cost_(options.attention_weight),
      load_(&cost_, options.has_classes, options.class_parts),
      former_(options.batching),
      padding_(static_cast<size_t>(max_running_)),
      budget_({.all = static_cast<double>(options.max_num_batched_tokens),
               .mixed = static_cast<double>(options.mixed_prefill_budget),
               .long_ones = static_cast<double>(options.long_prefill_budget)}),
      promotion_(options.max_wait),
      urgent_(policy, options.has_classes, options.max_prefill_chunk),
      limit_(max_running_) {
  const auto places = static_cast<size_t>(max_running_);
  running_.reserve(places);
  // Those that give way in a step stand beside those that take their places.
  ranked_.reserve(2 * places);
  candidates_.reserve(2 * places);
  schedule_.Reserve(places);
}

void Scheduler::Add(Sequence* sequence, TimePoint now) {
  // For what is longer the batch builder sees to it, step by step: a limit of 100,000 tokens would
  // take 300 KB for each that waits.
  KvCacheManager::Reserve(
      sequence, std::min(LongestTable(*sequence), sequence->num_ids() + kReservedTokens) + 1);
  // All who run may come back to the queue.
  const size_t most = queue_.size() + running_.size() + 1;
  if (queue_.capacity() < most) queue_.reserve(2 * most);
  line_.Reserve(most);
  promotion_.Reserve(most);
  if (passed_.capacity() < most) passed_.reserve(2 * most);
  queue_.push_back(sequence);
  sequence->queued_since = now;
  NoteHint(sequence);
  load_.Enter(sequence);
  former_.OnArrival(now);
}

void Scheduler::NoteHint(Sequence* sequence) {
  const CachedPrefix prefix = kv_->Lookup(sequence);
  // What another one computes just now it will find, or wait for.
  sequence->cached_hint = std::max(prefix.tokens, prefix.pending_end * kBlockTokens);
}

void Scheduler::RefreshHints() {
  const size_t count = std::min(queue_.size(), kHintsPerStep);
  for (size_t i = 0; i < count; ++i) {
    Sequence* const sequence = queue_[++next_hint_ % queue_.size()];
    load_.Leave(sequence);
    NoteHint(sequence);
    load_.Enter(sequence);
  }
}

void Scheduler::Remove(Sequence* sequence, SequenceEvent event, bool completed) {
  if (sequence->state == SequenceState::kPreempted) --num_preempted_;
  if (sequence->state == SequenceState::kFetching) --num_fetching_;
  if (!sequence->running()) load_.Leave(sequence);
  Erase(sequence->running() ? &running_ : &queue_, sequence);
  kv_->Release(sequence);
  mover_->Move(sequence->id, &sequence->state, event);
  if (completed) load_.OnFinished(*sequence);
  policy_->OnFinished(*sequence, completed);
}

void Scheduler::FetchDone(Sequence* sequence) {
  --num_fetching_;
  mover_->Move(sequence->id, &sequence->state, SequenceEvent::kFetched);
}

const Schedule& Scheduler::Plan(TimePoint now) {
  schedule_.Clear();
  now_ = now;
  decode_cost_ = 0;
  short_of_blocks_ = false;
  positions_ = 0;
  RefreshHints();
  promotion_.Choose(now, limit_, running_, queue_);
  policy_->BeginStep(queue_, running_, now);
  RankRunning();
  UpdateFollowers();
  RankQueue();
  AskFormer();
  if (continuous()) {
    StartUrgent();
    urgent_.Find(ranked_, line_.empty() ? nullptr : &line_.front());
  }
  PlanDecodes();
  PlanRest();
  NumberBatch();
  Pad();
  return schedule_;
}

void Scheduler::OnStep(Duration took) {
  // Padding is no work.
  if (!options_.learn_cost || schedule_.num_tokens == 0 || schedule_.num_padding_tokens > 0) return;
  // A few decodes are bound by memory: their speed says nothing of what a queue will have.
  const bool busy = schedule_.num_tokens >= StepCost::kMinRows ||
                    2 * static_cast<int>(schedule_.items.size()) >= limit_;
  cost_.OnStep(schedule_.num_tokens, positions_, took, busy);
}

Ranked Scheduler::RankedOf(Sequence* sequence) const {
  return {.sequence = sequence, .rank = policy_->RankOf(*sequence), .promoted = sequence->promoted};
}

void Scheduler::RankRunning() {
  ranked_.clear();
  for (Sequence* sequence : running_) ranked_.push_back(RankedOf(sequence));
}

void Scheduler::UpdateFollowers() {
  for (Sequence* follower : queue_) {
    if (follower->follows == 0) continue;
    uint64_t leader = 0;
    if (!kv_->StillPending(*follower, &leader)) {
      follower->follows = 0;
      continue;
    }
    const auto it = std::find_if(ranked_.begin(), ranked_.end(), [leader](const Ranked& ranked) {
      return ranked.sequence->id == leader;
    });
    if (it == ranked_.end()) continue;
    const Ranked its = RankedOf(follower);
    it->leads = true;
    it->promoted = it->promoted || its.promoted;
    it->rank = std::min(it->rank, its.rank);
  }
  std::sort(ranked_.begin(), ranked_.end(), Before);
}

void Scheduler::RankQueue() {
  line_.Clear();
  for (Sequence* sequence : queue_) {
    if (sequence->follows == 0) line_.Add(RankedOf(sequence));
  }
  line_.Sort();
}

void Scheduler::AskFormer() {
  new_places_ = max_running_;
  if (continuous()) return;
  const int members = num_running() + num_preempted_;
  if (members == 0 && batch_runs_) {
    former_.OnBatchEnded(now_);
    batch_runs_ = false;
  }
  BatchFormer::QueueView view{.waiting = num_waiting(),
                              .oldest = TimePoint::max(),
                              .urgent = false,
                              .running = members,
                              .places = limit_ - num_running(),
                              .prompt_tokens = static_cast<int32_t>(load_.tokens()),
                              .flush = flush_};
  for (const Sequence* sequence : queue_) {
    if (sequence->state != SequenceState::kWaiting) continue;
    view.oldest = std::min(view.oldest, sequence->queued_since);
    view.urgent = view.urgent || sequence->priority == Priority::kHigh;
  }
  new_places_ = former_.Places(view, now_);
  if (members == 0 && new_places_ == 0) schedule_.next_look = former_.next_look();
}

bool Scheduler::MayGiveWay(const Ranked& victim, const Ranked& urgent) const {
  const Sequence& its = *victim.sequence;
  if (!its.running() || its.promoted || victim.leads) return false;
  if (its.run_steps < kMinRunSteps || its.preemptions >= kMaxPreemptions) return false;
  if (its.generated() >= options_.preempt_max_generated) return false;
  if (urgent.promoted && its.order > urgent.sequence->order) return true;
  return policy_->MayPreempt(*urgent.sequence, its);
}

void Scheduler::FindVictims(const Ranked& urgent) {
  candidates_.clear();
  for (const Ranked& ranked : ranked_) {
    if (MayGiveWay(ranked, urgent)) candidates_.push_back(ranked.sequence);
  }
}

void Scheduler::StartUrgent() {
  // A limit that was lowered takes nobody's place: who starts here takes one that is there.
  const int places = std::max(limit_, num_running());
  bool any = false;
  passed_.clear();
  while (!line_.empty()) {
    const Ranked first = line_.front();
    FindVictims(first);
    // An urgent one passes nobody who has waited his time out.
    const auto starts_first = [&] {
      return passed_.empty() && num_running() < places && urgent_.StartsFirst(first, ranked_);
    };
    if (candidates_.empty() && !starts_first()) {
      // It came after all who run, or after those that may give way: it has no right to a place,
      // and must not keep a higher class from one.
      if (!first.promoted) break;
      passed_.push_back(first);
      line_.Pop();
      continue;
    }
    const auto too_many = [this](const Ranked& passed) {
      return LaterRunning(*passed.sequence) >= limit_ / 2;
    };
    if (std::any_of(passed_.begin(), passed_.end(), too_many)) break;
    CachedPrefix prefix = kv_->Lookup(first.sequence);
    if (!Follow(first.sequence, &prefix)) {
      if (!MakeSpace(first, places)) break;
      // Those that gave way may have computed what it would have found.
      prefix = kv_->Lookup(first.sequence);
      Start(first, &prefix);
      ranked_.push_back(first);
      any = true;
    }
    line_.Pop();
  }
  for (const Ranked& passed : passed_) line_.Add(passed);
  if (!passed_.empty()) line_.Sort();
  if (any) std::sort(ranked_.begin(), ranked_.end(), Before);
}

int Scheduler::LaterRunning(const Sequence& sequence) const {
  return static_cast<int>(
      std::count_if(running_.begin(), running_.end(),
                    [&](const Sequence* other) { return other->order > sequence.order; }));
}

bool Scheduler::MakeSpace(const Ranked& urgent, int places) {
  const Sequence& its = *urgent.sequence;
  const int32_t positions = PositionsToStart(its);
  CachedPrefix prefix = kv_->Lookup(urgent.sequence);
  int32_t freed = 0;
  for (const Sequence* candidate : candidates_) {
    freed += kv_->HeldAlone(*candidate, its, prefix);
  }
  if (!kv_->Fits(its, prefix, positions, freed)) return false;
  while (num_running() >= places || !kv_->Fits(its, prefix, positions)) {
    if (candidates_.empty()) return false;
    const bool for_place = num_running() >= places;
    const size_t pick = policy_->PickVictim(candidates_);
    const Sequence* victim = candidates_[pick];
    candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(pick));
    Preempt(victim, urgent.promoted ? PreemptReason::kPromotion
                    : for_place     ? PreemptReason::kPriority
                                    : PreemptReason::kBlocks);
    prefix = kv_->Lookup(urgent.sequence);  // The victim may have been about to compute some of it.
  }
  return true;
}

bool Scheduler::Follow(Sequence* sequence, CachedPrefix* prefix) {
  // In a batch that starts as a whole nobody can wait for another one.
  if (!continuous() || prefix->pending_end <= prefix->blocks) return false;
  // What the tier has behind the pending ones can be read only once these are there.
  kv_->LookInTier(*sequence, prefix);
  const int32_t pending = (prefix->pending_end - prefix->blocks) * kBlockTokens;
  if (pending + prefix->tier_tokens < kMinFollowTokens) {
    prefix->pending_end = 0;  // It computes them itself.
    return false;
  }
  sequence->follows = prefix->pending_end;
  return true;
}

void Scheduler::PlanDecodes() {
  const bool prefills = std::any_of(running_.begin(), running_.end(), [](const Sequence* s) {
    return s->state == SequenceState::kPrefilling;
  });
  // Classic static batches compute all prompts before anything else.
  if (options_.padding && (prefills || padding_.prefilling())) return;
  for (size_t i = 0; i < ranked_.size(); ++i) {
    Sequence* sequence = ranked_[i].sequence;
    // One that an earlier one preempted in this step is no longer decoding.
    if (sequence->state != SequenceState::kDecoding) continue;
    if (urgent_.IsLeftBy(ranked_[i]) || !MakeRoom(i)) continue;
    decode_cost_ += cost_.Cost(sequence->computed, 1);
    Give(sequence, 1);
  }
}

bool Scheduler::MakeRoom(size_t index) {
  Sequence* sequence = ranked_[index].sequence;
  while (!kv_->Extend(sequence, sequence->computed + 1)) {
    // Those without work yet: prefilling and fetching ones wherever they rank, and decoding ones
    // from here on.
    candidates_.clear();
    for (size_t i = 0; i < ranked_.size(); ++i) {
      const Sequence* other = ranked_[i].sequence;
      const bool pending = i >= index || other->state != SequenceState::kDecoding;
      if (other->running() && pending && !other->promoted) candidates_.push_back(other);
    }
    if (candidates_.empty()) candidates_.push_back(sequence);
    const Sequence* victim = candidates_[policy_->PickVictim(candidates_)];
    Preempt(victim, PreemptReason::kMemory);
    short_of_blocks_ = true;
    if (victim == sequence) return false;
  }
  return true;
}

void Scheduler::Preempt(const Sequence* victim, PreemptReason reason) {
  Sequence* const sequence = *std::find(running_.begin(), running_.end(), victim);
  if (sequence->state == SequenceState::kFetching) {
    --num_fetching_;
    // Where it was to fetch from this step on.
    std::erase_if(schedule_.fetches,
                  [sequence](const Schedule::Fetch& fetch) { return fetch.sequence == sequence; });
  }
  kv_->Park(sequence);
  mover_->Move(sequence->id, &sequence->state, SequenceEvent::kPreempt);
  ++sequence->preemptions;
  sequence->queued_since = promotion_.QueuedSince(*sequence, now_);
  Erase(&running_, sequence);
  queue_.push_back(sequence);
  NoteHint(sequence);
  load_.Enter(sequence);
  ++num_preempted_;
  schedule_.preempted.push_back({sequence, reason});
}

void Scheduler::PlanRest() {
  if (const Sequence* urgent = urgent_.prompt(); urgent != nullptr) {
    const int32_t left = urgent->num_ids() - urgent->computed;
    budget_.BeginUrgent(decode_cost_, cost_.Cost(urgent->computed, left));
  } else {
    budget_.Begin(decode_cost_, urgent_.paused());
  }
  bool starting = true;
  const size_t running = ranked_.size();
  for (size_t next = 0; true;) {
    while (next < running && ranked_[next].sequence->state != SequenceState::kPrefilling) ++next;
    const bool start = starting && !line_.empty();
    if (start && (next == running || Before(line_.front(), ranked_[next]))) {
      starting = TakeFirst();
    } else if (next < running) {
      GiveChunk(ranked_[next++].sequence);
    } else {
      break;
    }
  }
  if (schedule_.head != nullptr || queue_.empty() || !line_.empty()) return;
  // All who wait follow somebody, or gave way just now.
  Sequence* const first =
      *std::min_element(queue_.begin(), queue_.end(),
                        [](const Sequence* a, const Sequence* b) { return a->order < b->order; });
  Block(first, first->follows > 0 ? BlockedBy::kLeader : BlockedBy::kPreemption);
}

bool Scheduler::TakeFirst() {
  const Ranked first = line_.front();
  Sequence* const sequence = first.sequence;
  const bool fresh = sequence->state == SequenceState::kWaiting;
  if (!continuous() && fresh && new_places_ == 0) {
    // Behind it may be one that the batch had already, and that gave way.
    if (schedule_.head == nullptr) Block(sequence, BlockedBy::kBatch);
    line_.Pop();
    return true;
  }
  // Also where it could not start: its leader is to run at its rank from now on.
  CachedPrefix prefix = kv_->Lookup(sequence);
  if (Follow(sequence, &prefix)) {
    line_.Pop();
    return true;
  }
  const BlockedBy rule = WhatBlocks(first, prefix);
  if (rule != BlockedBy::kNothing) {
    if (schedule_.head == nullptr) Block(sequence, rule);
    // The long ones' budget is spent, not that of others.
    if (rule != BlockedBy::kTokens || first.promoted || !IsLong(*sequence, prefix.tokens)) {
      return false;
    }
    line_.Pop();
    return true;
  }
  line_.Pop();
  Start(first, &prefix);
  if (fresh) --new_places_;
  if (sequence->state == SequenceState::kPrefilling) GiveChunk(sequence);
  line_.Settle(*policy_);
  return true;
}

BlockedBy Scheduler::WhatBlocks(const Ranked& first, const CachedPrefix& prefix) const {
  const Sequence& its = *first.sequence;
  if (short_of_blocks_) return BlockedBy::kPreemption;
  if (num_running() >= limit_) {
    // It would have taken a lower one's place, were its class below its share.
    const bool lower_runs = std::any_of(running_.begin(), running_.end(), [&](const Sequence* s) {
      return s->priority > its.priority && !policy_->MayPreempt(its, *s);
    });
    return lower_runs && options_.class_parts[0] > 0 ? BlockedBy::kFairness : BlockedBy::kPlaces;
  }
  // A batch starts as a whole, though not all of it computes in its first step.
  if (continuous() && !HasBudget(its, prefix)) return BlockedBy::kTokens;
  if (!kv_->Fits(its, prefix, PositionsToStart(its))) return BlockedBy::kBlocks;
  return BlockedBy::kNothing;
}

bool Scheduler::HasBudget(const Sequence& sequence, const CachedPrefix& prefix) const {
  if (rows_left() == 0) return false;
  if (schedule_.num_prefill_tokens == 0) return true;  // The first gets a token in any case.
  const double budget = budget_.For(urgent_.IsHigh(sequence), IsLong(sequence, prefix.tokens));
  return cost_.ChunkFor(prefix.tokens, 1, budget) > 0;
}

void Scheduler::Block(Sequence* head, BlockedBy rule) {
  schedule_.head = head;
  schedule_.head_blocked_by = rule;
}

void Scheduler::Start(const Ranked& ranked, CachedPrefix* prefix) {
  Sequence* const sequence = ranked.sequence;
  prefix->pending_end = 0;  // Whatever others compute: it follows nobody, and computes it itself.
  kv_->LookInTier(*sequence, prefix);
  kv_->Start(sequence, *prefix, PositionsToStart(*sequence));
  load_.Leave(sequence);
  Erase(&queue_, sequence);
  running_.push_back(sequence);
  sequence->run_steps = 0;
  sequence->promoted = ranked.promoted;
  sequence->long_prefill = IsLong(*sequence, sequence->computed);
  const bool first_time = sequence->state == SequenceState::kWaiting;
  if (first_time) {
    schedule_.started.push_back(sequence);
    const TimePoint since = std::max(sequence->queued_since, former_.collecting_since());
    sequence->formation = std::max(Duration{}, now_ - since);
  } else {
    --num_preempted_;
  }
  sequence->queued_since = now_;
  if (kv_->ReadIsCheaper(*prefix)) {
    ++num_fetching_;
    mover_->Move(sequence->id, &sequence->state, SequenceEvent::kFetch);
    schedule_.fetches.push_back({sequence, prefix->tier_blocks, prefix->tier_partial});
    return;
  }
  mover_->Move(sequence->id, &sequence->state,
               first_time ? SequenceEvent::kStart : SequenceEvent::kResume);
}

void Scheduler::GiveChunk(Sequence* sequence) {
  kv_->SkipAhead(sequence);
  int32_t most = std::min(sequence->num_ids() - sequence->computed, rows_left());
  if (options_.max_prefill_chunk > 0) most = std::min(most, options_.max_prefill_chunk);
  if (most <= 0) return;
  const double budget = budget_.For(urgent_.IsHigh(*sequence), sequence->long_prefill);
  int32_t chunk = cost_.ChunkFor(sequence->computed, most, budget);
  if (chunk == 0) {
    if (schedule_.num_prefill_tokens > 0) return;
    chunk = 1;
  }
  budget_.Spend(cost_.Cost(sequence->computed, chunk), sequence->long_prefill);
  schedule_.num_prefill_tokens += chunk;
  Give(sequence, chunk);
}

void Scheduler::Give(Sequence* sequence, int32_t num_tokens) {
  const int32_t start = sequence->computed;
  const bool sample = start + num_tokens == sequence->num_ids() && sequence->max_tokens > 0;
  schedule_.items.push_back({sequence, start, num_tokens, sample});
  schedule_.num_tokens += num_tokens;
  positions_ += StepCost::Positions(start, num_tokens);
  const int32_t fresh =
      std::min(sequence->prompt_len, start + num_tokens) - std::max(start, sequence->high_water);
  policy_->OnScheduled(*sequence, {.prompt_tokens = std::max(0, fresh),
                                   .output_tokens = sample ? 1 : 0,
                                   .cost = cost_.Cost(start, num_tokens)});
  sequence->queued_since = now_;
  const bool decodes = sequence->state == SequenceState::kDecoding;
  if (++sequence->run_steps >= kMinRunSteps && decodes) sequence->promoted = false;
}

void Scheduler::NumberBatch() {
  if (schedule_.started.empty()) return;
  ++batch_;
  batch_size_ = continuous() ? num_running() : static_cast<int32_t>(schedule_.started.size());
  int32_t tokens = 0;
  for (Sequence* sequence : schedule_.started) {
    sequence->batch = batch_;
    sequence->batch_size = batch_size_;
    tokens += sequence->num_ids();
  }
  if (continuous()) return;
  batch_runs_ = true;
  former_.OnStarted(batch_size_, tokens, now_);
  if (options_.padding) padding_.Begin(schedule_.started);
}

void Scheduler::Pad() {
  const int32_t members = num_running() + num_preempted_;
  if (!options_.padding || !batch_runs_ || members == 0) return;
  int32_t longest = 0;
  for (const ScheduledItem& item : schedule_.items) {
    if (item.sequence->state == SequenceState::kDecoding) {
      longest = std::max(longest, item.sequence->num_ids());
    }
  }
  const auto items = max_running_ - static_cast<int32_t>(schedule_.items.size());
  padding_.Add(rows_left(), items, batch_size_ - members, longest, &schedule_);
}

int32_t Scheduler::PositionOf(const Sequence& sequence) const {
  const Ranked its = RankedOf(const_cast<Sequence*>(&sequence));
  return static_cast<int32_t>(std::count_if(queue_.begin(), queue_.end(), [&](Sequence* other) {
    return other != &sequence && Before(RankedOf(other), its);
  }));
}

std::vector<uint64_t> Scheduler::QueueOrder() const {
  std::vector<Ranked> order;
  order.reserve(queue_.size());
  for (Sequence* sequence : queue_) order.push_back(RankedOf(sequence));
  std::sort(order.begin(), order.end(), Before);
  std::vector<uint64_t> ids;
  ids.reserve(order.size());
  for (const Ranked& ranked : order) ids.push_back(ranked.sequence->id);
  return ids;
}

Status Scheduler::CheckIntegrity() const {
  return CheckLists({.queue = queue_,
                     .running = running_,
                     .preempted = num_preempted_,
                     .fetching = num_fetching_,
                     .max_running = max_running_});
}

}  // namespace ropeway
