// What must hold for every run: design.md's invariants 2 to 4 and the order of starts, seen from
// outside the engine core, by its answers and events alone.
#ifndef ROPEWAY_SIM_CHECKS_H_
#define ROPEWAY_SIM_CHECKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "setup.h"

namespace ropeway::sim {

// A generated token as far as determinism goes.
struct Output {
  TokenId token = 0;
  uint32_t logprob_bits = 0;
  bool operator==(const Output&) const = default;
};

// One accepted request as the outside saw it.
struct Record {
  SimRequest made;
  uint64_t order = 0;        // Of acceptance.
  uint64_t must_end_by = 0;  // Step.
  bool started = false;
  bool runs = false;  // As far as events tell: a resumed one only from its next token on.
  bool ended = false;
  bool finish_asked = false;  // Cancelled, or ended at a stop string.
  FinishReason asked_reason = FinishReason::kStop;
  uint64_t asked_step = 0;  // The last step before the first Finish.
  bool failed_at_mask = false;
  uint64_t first_token_step = 0;
  uint64_t last_token_step = 0;
  int32_t preemptions = 0;
  int32_t scored = 0;             // Ids of its prompt, from position 0.
  bool preempted_scored = false;  // Preempted with a part of its prompt scored.
  bool timed_out = false;
  FinishReason reason = FinishReason::kStop;
  std::vector<Output> output;                    // With that of a cut try which this one goes on.
  std::vector<std::vector<Output>> cut_outputs;  // Of earlier tries, cut by a kill.
};

// The checks, by the name under which a violation is reported:
//   integrity        free + cached + held = all, and all the core's own bookkeeping
//   no_end           an accepted request never ended
//   two_ends         a request ended twice, or had an event after its end
//   waited_too_long  a request was not done when all before it and itself must have been
//   fcfs_order       a later arrival ran its first step before an earlier one, or kept its blocks
//                    when an earlier one had to give way
//   same_text        tokens or log-probs differ from those of an undisturbed run
//   same_trace       one seed, two traces
//   kv               a context was read or written through a wrong block table, or from a block
//                    that holds something else than its name says
//   cached           more of a prompt is said to have been cached than was not computed
//   tenant           a request read a block that another tenant's request wrote
//   failed           a request failed or was rejected for another reason than its own or the
//                    device's
//   end_fields       an end's reason or counts are wrong
//   no_progress      a step without work while a request waits
//   scores           an id of a prompt was not scored, twice, out of order or not as it must be
//   deadline         a request lived on in a step that began after its deadline, or ended of it
//                    before
//   min_tokens       a request ended of itself before its min_tokens
//   stops            a request went on after an end token or one of its stop ids
//   masks            a token was not allowed behind those before it, or came where the constraint
//                    ends its request or fails
class Checks {
 public:
  // `prompt_rows`: positions of a request's prompt that the executor has computed since it was
  // accepted.
  Checks(const Setup& setup, std::function<int32_t(RequestId)> prompt_rows)
      : setup_(setup), prompt_rows_(std::move(prompt_rows)) {}

  void OnAdd(const SimRequest& made, const Status& answer, const Status& device, uint64_t step);
  // An id in use was offered again.
  void OnDuplicate(const Status& answer, const Status& device);
  void OnFinishAsked(RequestId id, FinishReason reason, uint64_t step);
  void OnEvents(const std::vector<engine::CoreEvent>& events, const Status& device,
                base::TimePoint now);
  // Finish returned. `none_left`: no sequence waits or runs.
  void OnFinishReturned(RequestId id, bool none_left);
  // The step began at `begin`.
  void AfterStep(const engine::CoreStats& stats, base::TimePoint begin);
  // The engine is gone. What is to be sent again, in order: all that had no end and whose client
  // did not go away; half of it goes on where its output was cut (CoreRequest::resume_ids).
  std::vector<SimRequest> OnKill();
  void OnIntegrity(const Status& status);
  void AtEnd();

  void Violate(const std::string& check, const std::string& message);
  // Whether the request may wait for another one that computes the same prefix.
  bool MayFollow(RequestId id) const;

  const std::map<RequestId, Record>& records() const { return records_; }
  // How often something happened to requests with a constraint.
  std::map<std::string_view, uint64_t> CountMasked() const;
  // The first message of each check that failed.
  const std::map<std::string, std::string>& violations() const { return violations_; }

 private:
  void OnPreempted(const engine::CoreEvent& event, Record* record);
  void OnStarted(const engine::CoreEvent& event, Record* record);
  void OnScored(const engine::CoreEvent& event, Record* record);
  void OnToken(const engine::CoreEvent& event, Record* record);
  void OnEnd(const engine::CoreEvent& event, const Status& device, base::TimePoint now,
             Record* record);
  void OnFailed(const engine::CoreEvent& event, const Status& device, base::TimePoint now,
                Record* record);
  void CheckCause(const engine::CoreEvent& event, const Record& record);
  void CheckMask(const engine::CoreEvent& event, const Record& record);

  const Setup& setup_;
  const std::function<int32_t(RequestId)> prompt_rows_;
  std::map<RequestId, Record> records_;
  std::set<RequestId> open_;  // Accepted and not ended.
  uint64_t next_order_ = 1;
  // Steps for which memory was short, or in which the oldest request got nothing while a request
  // waited for the tier, which takes time and no steps, or while one sat the step out for its mask
  // (see MaskChecks): they do not count as waiting.
  uint64_t free_steps_ = 0;
  int memory_in_a_row_ = 0;          // Of these, up to now.
  uint64_t deferred_masks_ = 0;      // CoreStats::deferred_masks.
  uint64_t memory_preemptions_ = 0;  // CoreStats::preemptions_by.
  std::map<std::string, std::string> violations_;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_CHECKS_H_
