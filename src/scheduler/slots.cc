#include "scheduler/slots.h"

#include <fmt/format.h>

#include <new>
#include <unordered_set>

#include "scheduler/scheduler_options.h"

namespace ropeway::scheduler {
namespace {

// Tokens beyond the prompt for which memory is reserved when a sequence is queued.
constexpr int32_t kReservedTokens = 1024;

// Queued sequences whose cached prefix is looked up anew in a step.
constexpr size_t kHintsPerStep = 2;

// The most positions that a sequence's blocks cover: its last token is never computed, but to start
// it needs a block for the next one.
int32_t LongestTable(const core::Sequence& sequence) {
  return sequence.prompt_len + sequence.request.max_tokens;
}

void Erase(std::vector<core::Sequence*>* list, core::Sequence* sequence) {
  const auto it = std::find(list->begin(), list->end(), sequence);
  if (it == list->end()) return;
  *it = list->back();
  list->pop_back();
}

// As one that waits: nullptr: nothing.
const char* WhatIsBrokenWaiting(const core::Sequence& s) {
  const bool waits =
      s.state == core::SequenceState::kWaiting || s.state == core::SequenceState::kPreempted;
  if (!waits) return "is in the queue";
  return s.kv.blocks.empty() && s.computed == 0 ? nullptr : "holds blocks";
}

const char* WhatIsBrokenRunning(const core::Sequence& s, int32_t groups) {
  if (!s.running()) return "is on the running list";
  if (s.computed >= s.num_ids()) return "has computed all its ids and not ended";
  const auto blocks = static_cast<int32_t>(s.kv.blocks.size());
  const bool covered = blocks >= groups * kvcache::BlocksFor(s.computed);
  return covered ? nullptr : "has more positions computed than its blocks hold";
}

}  // namespace

Slots::Slots(const SchedulingOptions& options, const Aging* aging, kvcache::KvCacheManager* kv,
             core::SequenceMover* mover, TenantTable* tenants, QueueLoad* load,
             SchedulerOutput* step)
    : options_(options),
      aging_(aging),
      kv_(kv),
      mover_(mover),
      tenants_(tenants),
      load_(load),
      output_(step),
      max_(std::min(options.max_num_seqs, options.max_num_batched_tokens)),
      limit_(max_) {
  running_.reserve(static_cast<size_t>(max_));
  output_->Reserve(static_cast<size_t>(max_));
}

int32_t Slots::PositionsToStart(const core::Sequence& sequence) {
  return std::min(sequence.num_ids() + 1, LongestTable(sequence));
}

void Slots::Add(core::Sequence* sequence, base::TimePoint now) {
  // The batch builder reserves more step by step: a limit of 100,000 tokens would take 300 KB for
  // each waiting sequence.
  kvcache::KvCacheManager::Reserve(
      sequence, std::min(LongestTable(*sequence), sequence->num_ids() + kReservedTokens) + 1,
      kv_->windows().groups());
  // All running sequences may return to the queue.
  const size_t most = queue_.size() + running_.size() + 1;
  if (queue_.capacity() < most) queue_.reserve(2 * most);
  load_->Add(*sequence);
  try {
    tenants_->Enter(sequence);
  } catch (const std::bad_alloc&) {
    load_->Remove(*sequence);
    throw;
  }
  queue_.push_back(sequence);
  sequence->sched.queued_since = now;
  UpdateHint(sequence);
  load_->Enter(sequence);
}

void Slots::Remove(core::Sequence* sequence, core::SequenceEvent event) {
  if (!sequence->running()) load_->Leave(sequence);
  Erase(sequence->running() ? &running_ : &queue_, sequence);
  kv_->Release(sequence);
  mover_->Move(sequence->id(), &sequence->state, event);
  load_->Remove(*sequence);
  tenants_->Leave(*sequence);
}

void Slots::FetchDone(core::Sequence* sequence) {
  mover_->Move(sequence->id(), &sequence->state, core::SequenceEvent::kFetched);
}

void Slots::BeginStep(base::TimePoint now) {
  now_ = now;
  ++step_;
  output_->Clear();
  const size_t count = std::min(queue_.size(), kHintsPerStep);
  for (size_t i = 0; i < count; ++i) {
    core::Sequence* const sequence = queue_[++next_hint_ % queue_.size()];
    load_->Leave(sequence);
    UpdateHint(sequence);
    load_->Enter(sequence);
  }
}

void Slots::UpdateHint(core::Sequence* sequence) {
  const kvcache::CachedPrefix prefix = kv_->Lookup(sequence);
  // It will find what another sequence computes now, or wait for it.
  sequence->sched.cached_hint = std::max(prefix.tokens, prefix.pending_end * base::kBlockTokens);
}

void Slots::PreemptLong(int32_t above) {
  for (size_t i = running_.size(); i-- > 0;) {  // Preempt puts the last one in its place.
    core::Sequence* const its = running_[i];
    if (its->long_rope || its->rope_length() <= above) continue;
    Preempt(its, PreemptReason::kLength);
  }
}

bool Slots::Follow(core::Sequence* sequence, kvcache::CachedPrefix* prefix) {
  // A batch starts as a whole: none of its members waits for another.
  if (!IsContinuous(options_) || prefix->pending_end <= prefix->blocks) return false;
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

void Slots::Start(const Ranked& ranked, kvcache::CachedPrefix* prefix) {
  core::Sequence* const sequence = ranked.sequence;
  prefix->pending_end = 0;  // It follows none, and computes itself what is not cached.
  kv_->LookInTier(*sequence, prefix);
  const bool reads = kv_->ReadIsCheaper(*prefix);
  if (!reads) prefix->ForgetTier();
  kv_->Start(sequence, *prefix, PositionsToStart(*sequence));
  load_->Leave(sequence);
  Erase(&queue_, sequence);
  running_.push_back(sequence);
  sequence->sched.run_steps = 0;
  sequence->sched.started_step = step_;
  sequence->sched.again_steps = 0;
  sequence->sched.aged = ranked.aged;
  sequence->sched.held_blocks = kv_->HeldBlocks(*sequence);
  tenants_->Hold(*sequence);
  sequence->sched.long_prefill = IsLong(*sequence, sequence->computed);
  sequence->sched.queued_since = now_;
  core::SequenceEvent event = core::SequenceEvent::kResume;
  if (sequence->state == core::SequenceState::kWaiting) {
    output_->started.push_back(sequence);
    event = core::SequenceEvent::kStart;
  }
  if (reads) {
    output_->fetches.push_back({sequence, prefix->tier_blocks, prefix->tier_partial});
    event = core::SequenceEvent::kFetch;
  }
  mover_->Move(sequence->id(), &sequence->state, event);
}

void Slots::Preempt(core::Sequence* sequence, PreemptReason reason) {
  // It may have been about to fetch from this step on.
  std::erase_if(output_->fetches, [sequence](const SchedulerOutput::Fetch& fetch) {
    return fetch.sequence == sequence;
  });
  tenants_->Release(*sequence);
  if (reason == PreemptReason::kLength) {
    kv_->Release(sequence);
    sequence->UseLongRope();
  } else {
    kv_->Park(sequence);
  }
  sequence->sched.first_turn = false;
  sequence->sched.contends = false;
  mover_->Move(sequence->id(), &sequence->state, core::SequenceEvent::kPreempt);
  ++sequence->preemptions;
  if (reason == PreemptReason::kAging || reason == PreemptReason::kFairness) {
    ++sequence->sched.turns_given;
  }
  sequence->sched.queued_since = aging_->QueuedSince(*sequence, now_);
  Erase(&running_, sequence);
  queue_.push_back(sequence);
  UpdateHint(sequence);
  load_->Enter(sequence);
  output_->preempted.push_back({sequence, reason});
  if (reason == PreemptReason::kMemory) output_->short_of_blocks = true;
}

Status Slots::CheckIntegrity() const {
  std::unordered_set<const core::Sequence*> seen;
  for (const auto* list : {&running_, &queue_}) {
    for (const core::Sequence* s : *list) {
      const char* what = list == &queue_ ? WhatIsBrokenWaiting(*s)
                                         : WhatIsBrokenRunning(*s, kv_->windows().groups());
      if (!seen.insert(s).second) what = "is listed twice";
      if (what == nullptr) continue;
      return {StatusCode::kInternal,
              fmt::format("sequence {} ({}) {}", s->id(), SequenceStateName(s->state), what)};
    }
  }
  size_t of_tenants = 0;
  for (const TenantTable::Tenant& tenant : tenants_->all()) {
    of_tenants += static_cast<size_t>(tenant.sequences);
  }
  if (of_tenants != queue_.size() + running_.size()) {
    return {StatusCode::kInternal, fmt::format("the tenants have {} sequences, but {} are listed",
                                               of_tenants, queue_.size() + running_.size())};
  }
  if (num_running() <= max_) return {};
  return {StatusCode::kInternal,
          fmt::format("{} sequences run, more than {}", num_running(), max_)};
}

StepOrder::StepOrder(const policy::SchedulingPolicy* policy, const kvcache::KvCacheManager* kv,
                     size_t slots)
    : policy_(policy), kv_(kv) {
  // Sequences preempted in a step stay in it beside those that take their slots.
  running.reserve(2 * slots);
}

void StepOrder::Rank(std::span<core::Sequence* const> waiting,
                     std::span<core::Sequence* const> active, TenantTable* tenants) {
  running.clear();
  for (core::Sequence* sequence : active) running.push_back(RankedOf(sequence));
  queue.Clear();
  for (core::Sequence* sequence : waiting) {
    if (sequence->sched.follows != 0) UpdateFollower(sequence);
    if (sequence->sched.follows != 0) continue;
    const Ranked ranked = RankedOf(sequence);
    queue.Add(ranked);
    Ranked& first = tenants->Of(*sequence).first;
    if (first.sequence == nullptr || Before(ranked, first)) first = ranked;
  }
  queue.Sort();
  SortRunning();
}

void StepOrder::UpdateFollower(core::Sequence* follower) {
  uint64_t leader = 0;
  if (!kv_->StillPending(*follower, &leader)) {
    follower->sched.follows = 0;
    return;
  }
  const auto it = std::find_if(running.begin(), running.end(), [leader](const Ranked& ranked) {
    return ranked.sequence->id() == leader;
  });
  if (it == running.end()) return;
  const Ranked its = RankedOf(follower);
  it->leads = true;
  it->aged = it->aged || its.aged;
  it->rank = std::min(it->rank, its.rank);
}

Ranked StepOrder::RankedOf(core::Sequence* sequence) const {
  return {
      {.rank = policy_->RankOf(*sequence), .order = sequence->order, .aged = sequence->sched.aged},
      sequence};
}

void StepOrder::SortRunning() { std::sort(running.begin(), running.end(), Before); }

int32_t StepOrder::PositionOf(const core::Sequence& sequence,
                              std::span<core::Sequence* const> waiting) const {
  const Ranked its = RankedOf(const_cast<core::Sequence*>(&sequence));
  return static_cast<int32_t>(std::count_if(
      waiting.begin(), waiting.end(),
      [&](core::Sequence* other) { return other != &sequence && Before(RankedOf(other), its); }));
}

std::vector<uint64_t> StepOrder::IdsOf(std::span<core::Sequence* const> waiting) const {
  std::vector<Ranked> order;
  order.reserve(waiting.size());
  for (core::Sequence* sequence : waiting) order.push_back(RankedOf(sequence));
  std::sort(order.begin(), order.end(), Before);
  std::vector<uint64_t> ids;
  ids.reserve(order.size());
  for (const Ranked& ranked : order) ids.push_back(ranked.sequence->id());
  return ids;
}

void PassedAged::Reserve(size_t sequences) {
  if (passed_.capacity() < sequences) passed_.reserve(2 * sequences);
}

bool PassedAged::MayPass(std::span<core::Sequence* const> running, int limit) const {
  return std::all_of(passed_.begin(), passed_.end(), [&](const Ranked& passed) {
    const auto later = std::count_if(
        running.begin(), running.end(),
        [&](const core::Sequence* other) { return other->order > passed.sequence->order; });
    return later < limit / 2;
  });
}

void PassedAged::Return(WaitingQueue<Ranked>* queue) const {
  for (const Ranked& passed : passed_) queue->Add(passed);
  if (!passed_.empty()) queue->Sort();
}

}  // namespace ropeway::scheduler
