#include "scheduler/scheduler.h"

#include <algorithm>
#include <string>
#include <unordered_set>

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

// What memory is taken for when a sequence is queued, beyond its prompt.
constexpr int32_t kReservedTokens = 1024;

bool Before(const Rank& rank_a, const Sequence& a, const Rank& rank_b, const Sequence& b) {
  return rank_a != rank_b ? rank_a < rank_b : a.order < b.order;
}

}  // namespace

const char* BlockedByName(BlockedBy rule) {
  switch (rule) {
    case BlockedBy::kNothing:
      return "nothing";
    case BlockedBy::kPlaces:
      return "max_num_seqs";
    case BlockedBy::kTokens:
      return "max_num_batched_tokens";
    case BlockedBy::kBlocks:
      return "free KV blocks";
    case BlockedBy::kPreemption:
      return "a preemption in this step";
    case BlockedBy::kLeader:
      return "another request that computes the same prefix";
  }
  return "unknown";
}

Scheduler::Scheduler(const SchedulerOptions& options, SchedulingPolicy* policy, KvCacheManager* kv,
                     SequenceMover* mover)
    : options_(options),
      max_running_(std::min(options.max_num_seqs, options.max_num_batched_tokens)),
      policy_(policy),
      kv_(kv),
      mover_(mover) {
  const auto places = static_cast<size_t>(max_running_);
  running_.reserve(places);
  ranked_.reserve(places);
  candidates_.reserve(places);
  schedule_.items.reserve(places);
  schedule_.preempted.reserve(places);
  schedule_.started.reserve(places);
  schedule_.fetches.reserve(places);
}

void Scheduler::Add(Sequence* sequence) {
  // For what is longer the batch builder sees to it, step by step: a limit of 100,000 tokens would
  // take 300 KB for each that waits.
  KvCacheManager::Reserve(
      sequence, std::min(LongestTable(*sequence), sequence->num_ids() + kReservedTokens) + 1);
  // All who run may come back to the queue.
  const size_t most = queue_.size() + running_.size() + 1;
  if (queue_.capacity() < most) queue_.reserve(2 * most);
  queue_.push_back(sequence);
}

void Scheduler::Remove(Sequence* sequence, SequenceEvent event) {
  if (sequence->state == SequenceState::kPreempted) --num_preempted_;
  if (sequence->state == SequenceState::kFetching) --num_fetching_;
  Erase(sequence->running() ? &running_ : &queue_, sequence);
  kv_->Release(sequence);
  mover_->Move(sequence->id, &sequence->state, event);
  policy_->OnFinished(*sequence, event == SequenceEvent::kEnd);
}

void Scheduler::FetchDone(Sequence* sequence) {
  --num_fetching_;
  mover_->Move(sequence->id, &sequence->state, SequenceEvent::kFetched);
}

const Schedule& Scheduler::Plan(TimePoint now) {
  schedule_.items.clear();
  schedule_.preempted.clear();
  schedule_.started.clear();
  schedule_.fetches.clear();
  schedule_.copies.clear();
  schedule_.num_tokens = 0;
  schedule_.num_prefill_tokens = 0;
  schedule_.head = nullptr;
  schedule_.head_blocked_by = BlockedBy::kNothing;
  RankRunning(now);
  PlanDecodes();
  PlanPrefills();
  StartFromQueue(now);
  return schedule_;
}

void Scheduler::RankRunning(TimePoint now) {
  policy_->BeginStep(queue_, running_, now);
  ranked_.clear();
  for (Sequence* sequence : running_) ranked_.push_back({policy_->RankOf(*sequence), sequence});
  UpdateFollowers(now);
  std::sort(ranked_.begin(), ranked_.end(), [](const Ranked& a, const Ranked& b) {
    return Before(a.rank, *a.sequence, b.rank, *b.sequence);
  });
}

void Scheduler::UpdateFollowers(TimePoint now) {
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
    if (it != ranked_.end()) it->rank = std::min(it->rank, policy_->RankOf(*follower));
  }
}

bool Scheduler::Follow(Sequence* sequence, CachedPrefix* prefix) {
  if (prefix->pending_end <= prefix->blocks) return false;
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
  for (size_t i = 0; i < ranked_.size(); ++i) {
    Sequence* sequence = ranked_[i].sequence;
    // One that an earlier one preempted in this step is no longer decoding.
    if (sequence->state == SequenceState::kDecoding && MakeRoom(i)) Give(sequence, 1);
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
      if (other->running() && pending) candidates_.push_back(other);
    }
    const Sequence* victim = candidates_[policy_->PickVictim(candidates_)];
    for (const Ranked& ranked : ranked_) {
      if (ranked.sequence == victim) Preempt(ranked.sequence);
    }
    if (victim == sequence) return false;
  }
  return true;
}

void Scheduler::Preempt(Sequence* sequence) {
  if (sequence->state == SequenceState::kFetching) --num_fetching_;
  kv_->Park(sequence);
  mover_->Move(sequence->id, &sequence->state, SequenceEvent::kPreempt);
  ++sequence->preemptions;
  Erase(&running_, sequence);
  queue_.push_back(sequence);
  ++num_preempted_;
  schedule_.preempted.push_back(sequence);
}

void Scheduler::PlanPrefills() {
  for (const Ranked& ranked : ranked_) {
    if (ranked.sequence->state == SequenceState::kPrefilling) GiveChunk(ranked.sequence);
  }
}

void Scheduler::StartFromQueue(TimePoint now) {
  while (!queue_.empty()) {
    const size_t first = FirstOfQueue(now, false);
    if (first == queue_.size()) {
      schedule_.head = queue_[FirstOfQueue(now, true)];
      schedule_.head_blocked_by = BlockedBy::kLeader;
      return;
    }
    Sequence* sequence = queue_[first];
    // Also where it could not start: its leader is to run at its rank from now on.
    CachedPrefix prefix = kv_->Lookup(sequence);
    if (Follow(sequence, &prefix)) continue;
    BlockedBy blocked = BlockedBy::kNothing;
    if (!schedule_.preempted.empty()) {
      blocked = BlockedBy::kPreemption;
    } else if (num_running() >= max_running_) {
      blocked = BlockedBy::kPlaces;
    } else if (tokens_left() == 0) {
      blocked = BlockedBy::kTokens;
    } else {
      // One position more than its ids, where it wants one: else the token that its prefill samples
      // could find no block, and the whole prefill would be for nothing.
      const int32_t positions = std::min(sequence->num_ids() + 1, LongestTable(*sequence));
      if (!kv_->Fits(*sequence, prefix, positions)) {
        blocked = BlockedBy::kBlocks;
      } else {
        kv_->LookInTier(*sequence, &prefix);
        kv_->Start(sequence, prefix, positions);
      }
    }
    if (blocked != BlockedBy::kNothing) {
      schedule_.head = sequence;
      schedule_.head_blocked_by = blocked;
      return;
    }
    Start(first, prefix);
    if (sequence->state == SequenceState::kPrefilling) GiveChunk(sequence);
  }
}

size_t Scheduler::FirstOfQueue(TimePoint now, bool followers) const {
  size_t first = queue_.size();
  Rank first_rank;
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (queue_[i]->follows > 0 && !followers) continue;
    const Rank rank = policy_->RankOf(*queue_[i]);
    if (first == queue_.size() || Before(rank, *queue_[i], first_rank, *queue_[first])) {
      first = i;
      first_rank = rank;
    }
  }
  return first;
}

void Scheduler::Start(size_t queue_index, const CachedPrefix& prefix) {
  Sequence* sequence = queue_[queue_index];
  queue_[queue_index] = queue_.back();
  queue_.pop_back();
  running_.push_back(sequence);
  const bool first_time = sequence->state == SequenceState::kWaiting;
  if (first_time) {
    schedule_.started.push_back(sequence);
  } else {
    --num_preempted_;
  }
  if (kv_->ReadIsCheaper(prefix)) {
    ++num_fetching_;
    mover_->Move(sequence->id, &sequence->state, SequenceEvent::kFetch);
    schedule_.fetches.push_back({sequence, prefix.tier_blocks, prefix.tier_partial});
    return;
  }
  mover_->Move(sequence->id, &sequence->state,
               first_time ? SequenceEvent::kStart : SequenceEvent::kResume);
}

void Scheduler::GiveChunk(Sequence* sequence) {
  kv_->SkipAhead(sequence);
  int32_t chunk = std::min(sequence->num_ids() - sequence->computed, tokens_left());
  if (options_.max_prefill_chunk > 0) chunk = std::min(chunk, options_.max_prefill_chunk);
  if (chunk <= 0) return;
  schedule_.num_prefill_tokens += chunk;
  Give(sequence, chunk);
}

void Scheduler::Give(Sequence* sequence, int32_t num_tokens) {
  const int32_t start = sequence->computed;
  const bool sample = start + num_tokens == sequence->num_ids() && sequence->max_tokens > 0;
  schedule_.items.push_back({sequence, start, num_tokens, sample});
  schedule_.num_tokens += num_tokens;
  const int32_t fresh = std::min(sequence->prompt_len, start + num_tokens) -
                        std::max(start, sequence->high_water);
  policy_->OnScheduled(*sequence, {.prompt_tokens = std::max(0, fresh),
                                   .output_tokens = sample ? 1 : 0,
                                   .cost = static_cast<double>(num_tokens)});
}

Status Scheduler::CheckIntegrity() const {
  std::unordered_set<const Sequence*> seen;
  int preempted = 0;
  const auto broken = [](const Sequence& s, const char* what) {
    return Status(StatusCode::kInternal, "sequence " + std::to_string(s.id) + " (" +
                                             SequenceStateName(s.state) + ") " + what);
  };
  for (const Sequence* s : running_) {
    if (!seen.insert(s).second) return broken(*s, "is listed twice");
    if (!s->running()) return broken(*s, "is on the running list");
    if (s->computed >= s->num_ids()) return broken(*s, "has computed all its ids and not ended");
    if (static_cast<int32_t>(s->blocks.size()) < BlocksFor(s->computed)) {
      return broken(*s, "has more positions computed than its blocks hold");
    }
  }
  for (const Sequence* s : queue_) {
    if (!seen.insert(s).second) return broken(*s, "is listed twice");
    if (s->state != SequenceState::kWaiting && s->state != SequenceState::kPreempted) {
      return broken(*s, "is in the queue");
    }
    if (!s->blocks.empty() || s->computed != 0) return broken(*s, "holds blocks");
    if (s->state == SequenceState::kPreempted) ++preempted;
  }
  const auto fetching = std::count_if(running_.begin(), running_.end(), [](const Sequence* s) {
    return s->state == SequenceState::kFetching;
  });
  if (fetching != num_fetching_) {
    return {StatusCode::kInternal, "the scheduler counts " + std::to_string(num_fetching_) +
                                       " fetching sequences, " + std::to_string(fetching) + " are"};
  }
  if (preempted != num_preempted_) {
    return {StatusCode::kInternal, "the scheduler counts " + std::to_string(num_preempted_) +
                                       " preempted sequences, " + std::to_string(preempted) +
                                       " are"};
  }
  if (num_running() > max_running_) {
    return {StatusCode::kInternal, std::to_string(num_running()) + " sequences run, more than " +
                                       std::to_string(max_running_)};
  }
  return {};
}

}  // namespace ropeway
