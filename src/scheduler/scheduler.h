// Decides what one step computes.
#ifndef ROPEWAY_SCHEDULER_SCHEDULER_H_
#define ROPEWAY_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence.h"
#include "core/sequence_state.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "ropeway/status.h"

namespace ropeway {

struct SchedulerOptions {
  int max_num_seqs = 1;            // Sequences that run at once.
  int max_num_batched_tokens = 1;  // Tokens of one step.
  int max_prefill_chunk = 0;  // Tokens of one sequence in one step; 0: the step's budget alone.
};

// A part of the step: positions [start, start + num_tokens) of one sequence.
struct ScheduledItem {
  Sequence* sequence = nullptr;
  int32_t start = 0;
  int32_t num_tokens = 0;
  // The last id is part of it: its successor is sampled, unless the sequence wants no token.
  bool sample = false;
};

// What keeps the first sequence of the queue from starting.
enum class BlockedBy { kNothing, kPlaces, kTokens, kBlocks, kPreemption, kLeader };
const char* BlockedByName(BlockedBy rule);

// What one step does. Block tables already cover it.
struct Schedule {
  std::vector<ScheduledItem> items;  // Decodes first, then prefill chunks; each in rank order.
  std::vector<Sequence*> preempted;  // In the order in which they gave way.
  std::vector<Sequence*> started;    // For the first time; resumed ones are not named.
  // Sequences that are fetching from now on: the tier is to be asked for their blocks from
  // computed / kBlockTokens on, as many as `blocks` says, and then for the parked tail.
  struct Fetch {
    Sequence* sequence = nullptr;
    int32_t blocks = 0;
    bool tail = false;
  };
  std::vector<Fetch> fetches;
  std::vector<BlockCopy> copies;  // Before the step computes.
  int32_t num_tokens = 0;
  int32_t num_prefill_tokens = 0;
  Sequence* head = nullptr;  // The first of the queue that did not start; null: none waits.
  BlockedBy head_blocked_by = BlockedBy::kNothing;
};

// Accounts places, tokens and blocks; the policy ranks.
//
// Rules, in the order in which a step applies them:
// 1. Each decoding sequence gets one token, in rank order. Where a block is missing, the policy's
//    victim among the running ones without work in this step gives its blocks back, until the block
//    is there or the sequence itself was the victim.
// 2. Each prefilling sequence gets a chunk, in rank order, from the tokens left. It holds the
//    blocks of all its ids since it started.
// 3. Sequences of the queue (waiting and preempted) start in rank order while a place, a token and
//    the blocks for all their ids and one more are there. The first that does not fit ends this:
//    nobody passes it. A step that preempted starts nobody, for its blocks were short.
// 4. What the cache has of a starting sequence's ids is not computed. Where a tier has more of them
//    and reading is cheaper than computing, the sequence fetches first, and computes from the step
//    on in which the read is over.
// 5. Where another sequence (the leader) computes or reads what a starting one needs next, and
// that,
//    with what a tier has behind it, is at least kMinFollowTokens, the starting one follows: it
//    stays in the queue, others pass it, and the leader runs at the best rank of those who follow
//    it. If the leader ends or is preempted, the first of its followers starts and leads the
//    others.
//
// Everybody gets on: places never outnumber max_num_batched_tokens, so each running sequence gets
// at least one token per step; the first in rank always finds blocks, since all others give way to
// it and the pool holds the longest sequence allowed; so it ends, and the next one is first.
//
// Thread rule: the engine thread. Sequences are the caller's and must outlive their stay.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, SchedulingPolicy* policy, KvCacheManager* kv,
            SequenceMover* mover);

  // Queues a waiting sequence. Takes here, or throws std::bad_alloc with nothing changed, all
  // memory that the other methods will need for it, but KvCacheManager::Reserve for tokens that are
  // still to be generated. REQUIRES: its ids and max_tokens fit the whole
  // pool.
  void Add(Sequence* sequence);

  // Takes the sequence out by `event` (end, abort or fail), whatever its state, and gives its
  // blocks back.
  void Remove(Sequence* sequence, SequenceEvent event);

  // The read that a fetching sequence waits for is over, whatever it brought (`computed`).
  void FetchDone(Sequence* sequence);

  static constexpr int32_t kMinFollowTokens = 4 * kBlockTokens;

  // Plans the next step: moves states and allocates blocks accordingly. The reply is valid until
  // the next call. Its items are empty only if nobody is there, or a block was leaked.
  const Schedule& Plan(TimePoint now);

  int num_waiting() const { return static_cast<int>(queue_.size()) - num_preempted_; }
  int num_preempted() const { return num_preempted_; }
  int num_running() const { return static_cast<int>(running_.size()); }
  int num_fetching() const { return num_fetching_; }
  bool empty() const { return queue_.empty() && running_.empty(); }

  // Each sequence's state fits the list it is on, nobody is on two, and only running ones hold
  // blocks.
  Status CheckIntegrity() const;

 private:
  struct Ranked {
    Rank rank;
    Sequence* sequence;
  };

  void RankRunning(TimePoint now);
  void PlanDecodes();
  void PlanPrefills();
  void StartFromQueue(TimePoint now);
  // True once `sequence`, the ranked_[index], has blocks for its next position; false: it was
  // preempted.
  bool MakeRoom(size_t index);
  void Preempt(Sequence* sequence);
  void Start(size_t queue_index, const CachedPrefix& prefix);
  // Ends the waiting of those whose leader computes nothing for them any more, and ranks the
  // leaders of the others.
  void UpdateFollowers(TimePoint now);
  // Whether the sequence waits for another one from now on.
  bool Follow(Sequence* sequence, CachedPrefix* prefix);
  void Give(Sequence* sequence, int32_t num_tokens);
  void GiveChunk(Sequence* sequence);
  // The index of the first in rank, without those who follow another one or with them; the queue's
  // size: there is none.
  size_t FirstOfQueue(TimePoint now, bool followers) const;
  int32_t tokens_left() const { return options_.max_num_batched_tokens - schedule_.num_tokens; }

  const SchedulerOptions options_;
  const int max_running_;
  SchedulingPolicy* const policy_;
  KvCacheManager* const kv_;
  SequenceMover* const mover_;

  std::vector<Sequence*> queue_;    // Waiting and preempted, in no order: ranks may change.
  std::vector<Sequence*> running_;  // Prefilling and decoding, in no order.
  int num_preempted_ = 0;
  int num_fetching_ = 0;

  // Of the step being planned; members so that a step allocates nothing once they have grown.
  Schedule schedule_;
  std::vector<Ranked> ranked_;  // The running ones in rank order.
  std::vector<const Sequence*> candidates_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_SCHEDULER_H_
