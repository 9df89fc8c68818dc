// What goes into an EngineCore and what comes out of it.
#ifndef ROPEWAY_ENGINE_CORE_REQUEST_H_
#define ROPEWAY_ENGINE_CORE_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/block_name.h"
#include "core/sequence.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/schedule.h"

namespace ropeway {

// A request as the front end hands it over: encoded, checked, limits resolved.
struct CoreRequest {
  RequestId id = 0;
  std::vector<TokenId> prompt;  // At least 1 id.
  int32_t max_tokens = 1;  // Resolved, at least 0; prompt.size() + max_tokens <= max_model_len.
  SampleSpec spec;         // Seed resolved; prompt_len is set by the core.
  bool ignore_eos = false;
  std::vector<TokenId> stop_ids;          // In any order.
  TimePoint arrival{};                    // When Submit was called.
  TimePoint deadline = TimePoint::max();  // Fails with kDeadlineExceeded then.
  std::string tenant;
  BlockName cache_root;  // Names whose KV blocks it may share (see CacheRoot).
  // Of the prompt's full blocks, as many of the first as are known already; the core names the
  // rest.
  std::vector<BlockName> block_names;
  Retention retention = Retention::kNormal;
  Priority priority = Priority::kMedium;
  double tenant_weight = 1.0;
};

// What happened to a request in a step, in order. After kFinished or kFailed the core knows the id
// no more and its blocks are back.
struct CoreEvent {
  enum class Kind { kStarted, kPromptScored, kToken, kPreempted, kFinished, kFailed };
  Kind kind = Kind::kToken;
  RequestId id = 0;
  uint64_t step = 0;
  // kPromptScored, where the request wants prompt log-probs: the next ids of its prompt. The first
  // event of a request begins with the id at position 0, whose log-prob is NaN.
  std::vector<Scored> scored;
  Sampled sampled;  // kToken. An end token is reported too, before kFinished.
  FinishReason reason = FinishReason::kStop;  // kFinished.
  int32_t prompt_tokens = 0;                  // kFinished.
  int32_t completion_tokens = 0;              // kFinished: an end token is counted.
  int32_t cached_tokens = 0;  // kToken, kFinished: of the prompt, found when it began to compute.
  int32_t preemptions = 0;    // kFinished.
  uint64_t first_token_step = 0;                          // kFinished.
  PreemptReason preempt_reason = PreemptReason::kMemory;  // kPreempted.
  // kStarted, kFinished, kFailed: see Finish; and of its time in the queue, what it waited for
  // others to fill a batch.
  uint64_t batch = 0;
  int32_t batch_size = 0;
  Duration formation{};
  Status status;  // kFailed.
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_CORE_REQUEST_H_
