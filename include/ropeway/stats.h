// What an engine or a gateway reports about its work as a whole: plain values of the public API.
#ifndef ROPEWAY_STATS_H_
#define ROPEWAY_STATS_H_

#include <cstdint>
#include <string>

namespace ropeway {

// A snapshot. Totals and averages are over the engine's life, rates over its last ten seconds.
struct EngineStats {
  // Batching.
  bool enabled = false;          // More than one request may run at once.
  std::string strategy;          // As SchedulingOptions::strategy.
  int max_batch_size = 0;        // Requests of one batch; "continuous": of one step.
  double max_batch_wait_ms = 0;  // How long a batch waits to fill; 0: it does not wait.
  // Batches begun, which is the newest Finish::batch_num. With "continuous", the requests that
  // start in the same step count as one batch.
  uint64_t total_batches = 0;
  uint64_t total_requests = 0;  // Requests that started in them.
  double avg_batch_size = 0;    // Mean of Finish::batch_size over the batches.
  // From a batch's start to the end of the last request that started in it, over batches that
  // ended.
  double avg_batch_duration_ms = 0;

  // Steps: the forward passes, each over one or more requests.
  uint64_t total_steps = 0;
  uint64_t total_rows = 0;  // Rows of all steps: a prompt's token or a decode each, no padding.
  double avg_step_rows = 0;
  double avg_step_size = 0;  // Requests of a step.
  double avg_step_duration_ms = 0;

  // Requests now.
  int queue_depth = 0;  // Waiting and preempted ones.
  int waiting = 0;      // Accepted and not started, also while the prompt is encoded.
  int preempted = 0;    // Started and stopped, to go on later.
  int running = 0;

  // KV blocks now; together all of the pool.
  int kv_blocks_free = 0;
  int kv_blocks_held = 0;    // By requests that run.
  int kv_blocks_cached = 0;  // By the prefix cache alone.

  // Rates.
  double utilization = 0;  // Share of the time in which a step ran: 0 to 1.
  // Computed for the first time: neither found in the prefix cache nor computed again after a
  // preemption.
  double prompt_tokens_per_second = 0;
  double generation_tokens_per_second = 0;
};

// How one backend of a gateway does.
struct BackendStatus {
  std::string model;  // The first of its names; "": not known yet.
  std::string name;
  // "up", "returning" (up, with a part of its places), "busy", "not_ready", "draining" or
  // "ejected".
  std::string state;
  std::string reason;  // Why it gets no requests, or fewer; "": it does.
  int in_flight = 0;
  int concurrency = 0;   // Requests that it may have at once now.
  bool learned = false;  // `concurrency` was learned; else it is set, or as the backend reports.
  int64_t outstanding_tokens = 0;  // Predicted, of what it has in flight.
  uint64_t sent = 0;
  uint64_t completed = 0;
  uint64_t ejections = 0;
  // Failures of requests, by kind: see FailureKind.
  uint64_t unreachable = 0;
  uint64_t busy = 0;
  uint64_t broken = 0;
  uint64_t rejected = 0;
  uint64_t timeouts = 0;     // Requests that were taken away since it was silent for too long.
  uint64_t retries = 0;      // Requests that it was sent after another attempt had failed.
  uint64_t resumptions = 0;  // Requests that it went on with after another backend.
  // Of its last completed requests; 0: there are none.
  double latency_p50_ms = 0;
  double latency_p99_ms = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_STATS_H_
