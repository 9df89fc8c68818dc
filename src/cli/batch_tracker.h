// Which requests got their first token in the same step of the engine, and when they have all
// ended.
#ifndef ROPEWAY_CLI_BATCH_TRACKER_H_
#define ROPEWAY_CLI_BATCH_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

// A request's step is known at its end only (Finish::first_token_step). So deltas are used to learn
// which requests may share a step: an engine's deltas come step by step, and no request has two in
// one step. Hence the tracker's groups may hold several steps but never split one; a group is done
// when a later one has begun and all of it ended, and falls into its batches then.
//
// Thread-safe.
class BatchTracker {
 public:
  // A delta with tokens of `id` came. In the order of the engine's callbacks.
  void OnToken(RequestId id);

  // `id` ended; `first_token_step` is 0 where it got no token.
  void OnEnd(RequestId id, uint64_t first_token_step);

  // No further delta or end will come: what is left is done.
  void Close();

  // The batches that have ended since the last call, by step; each with its ids, lowest first.
  // Requests without a token are a batch of step 0.
  std::map<uint64_t, std::set<RequestId>> TakeEnded();

 private:
  struct Group {
    std::set<RequestId> running;
    std::map<uint64_t, std::set<RequestId>> ended;  // By step.
  };
  void MoveToEnded(Group* group);

  std::mutex mu_;
  std::set<RequestId> in_step_;             // Had a delta in the step that is under way.
  std::map<RequestId, uint64_t> group_of_;  // Of those that got a token and have not ended.
  std::map<uint64_t, Group> groups_;        // By number, the newest is still open.
  uint64_t current_ = 0;                    // The newest group's number.
  std::map<uint64_t, std::set<RequestId>> done_;
};

}  // namespace ropeway

#endif  // ROPEWAY_CLI_BATCH_TRACKER_H_
