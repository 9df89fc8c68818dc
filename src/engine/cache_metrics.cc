#include "engine/cache_metrics.h"

namespace ropeway {
namespace {

constexpr const char* kBlocks = "ropeway_kv_cache_blocks";
constexpr const char* kBlocksHelp =
    "KV blocks by state: held by sequences, cached for later, free.";

}  // namespace

CacheMetrics::CacheMetrics(Metrics* metrics)
    : queries_(metrics->AddCounter("ropeway_prefix_cache_queries_total",
                                   "Prompt tokens of requests that began to compute.")),
      hits_(metrics->AddCounter("ropeway_prefix_cache_hits_total",
                                "Of these, tokens found in the pool or read from the disk tier.")),
      recomputed_(metrics->AddCounter("ropeway_recomputed_tokens_total",
                                      "Tokens computed again because a preempted request's blocks "
                                      "were gone.")),
      evictions_(metrics->AddCounter("ropeway_kv_cache_evictions_total",
                                     "Cached blocks whose place in the pool was needed.")),
      spilled_(metrics->AddCounter("ropeway_kv_disk_spilled_blocks_total",
                                   "Evicted blocks handed to the disk tier.")),
      stored_(metrics->AddCounter("ropeway_kv_disk_stored_blocks_total",
                                  "Blocks handed to the disk tier, for whatever reason.")),
      lost_(metrics->AddCounter("ropeway_kv_disk_lost_blocks_total",
                                "Evicted blocks that the disk tier could not take.")),
      fetched_(metrics->AddCounter("ropeway_kv_disk_fetched_blocks_total",
                                   "Blocks read back into the pool.")),
      failed_reads_(metrics->AddCounter("ropeway_kv_disk_failed_reads_total",
                                        "Reads that brought less than was asked for.")),
      fetch_seconds_(metrics->AddCounter("ropeway_kv_disk_fetch_seconds_total",
                                         "Time that requests waited for reads.")),
      blocks_free_(metrics->AddGauge(kBlocks, kBlocksHelp, {{"state", "free"}})),
      blocks_cached_(metrics->AddGauge(kBlocks, kBlocksHelp, {{"state", "cached"}})),
      blocks_held_(metrics->AddGauge(kBlocks, kBlocksHelp, {{"state", "held"}})),
      tier_on_(
          metrics->AddGauge("ropeway_kv_disk_on",
                            "1 while the disk tier works; 0: none, or turned off by an error.")),
      tier_bytes_(metrics->AddGauge("ropeway_kv_disk_bytes", "Bytes that the disk tier takes.")),
      tier_capacity_(
          metrics->AddGauge("ropeway_kv_disk_capacity_bytes", "Bytes that it may take.")),
      tier_blocks_(metrics->AddGauge("ropeway_kv_disk_blocks", "Blocks in the disk tier.")),
      tier_pending_(metrics->AddGauge("ropeway_kv_disk_pending_bytes",
                                      "Bytes of memory on their way to or from it.")),
      tier_written_(
          metrics->AddCounter("ropeway_kv_disk_written_bytes_total", "Bytes of blocks written.")),
      tier_read_(metrics->AddCounter("ropeway_kv_disk_read_bytes_total", "Bytes of blocks read.")),
      tier_rejected_(metrics->AddCounter("ropeway_kv_disk_rejected_blocks_total",
                                         "Blocks found torn, foreign or corrupt; never served.")),
      tier_evicted_(metrics->AddCounter("ropeway_kv_disk_evicted_blocks_total",
                                        "Blocks dropped from the disk tier for space.")),
      tier_cpu_(metrics->AddCounter("ropeway_kv_disk_cpu_seconds_total",
                                    "CPU time of the disk tier's threads.")) {}

void CacheMetrics::RaiseTo(double total, Counter* counter) {
  const double by = total - counter->Value();
  if (by > 0) counter->Increment(by);
}

void CacheMetrics::Set(const CoreStats& stats, bool has_tier, const KvTierUsage& usage) {
  const std::lock_guard lock(mu_);
  const auto raise = [](uint64_t total, Counter* counter) {
    RaiseTo(static_cast<double>(total), counter);
  };
  raise(stats.prompt_tokens, queries_);
  raise(stats.cached_prompt_tokens, hits_);
  raise(stats.recomputed_tokens, recomputed_);
  raise(stats.evicted_blocks, evictions_);
  raise(stats.transfers.spilled_blocks, spilled_);
  raise(stats.transfers.stored_blocks, stored_);
  raise(stats.transfers.lost_blocks, lost_);
  raise(stats.transfers.fetched_blocks, fetched_);
  raise(stats.transfers.failed_reads, failed_reads_);
  RaiseTo(ToSeconds(stats.transfers.fetch_time), fetch_seconds_);
  blocks_free_->Set(stats.free_blocks);
  blocks_cached_->Set(stats.cached_blocks);
  blocks_held_->Set(stats.held_blocks);
  tier_on_->Set(has_tier && usage.on ? 1 : 0);
  if (!has_tier) return;
  tier_bytes_->Set(static_cast<double>(usage.bytes));
  tier_capacity_->Set(static_cast<double>(usage.capacity_bytes));
  tier_blocks_->Set(static_cast<double>(usage.blocks));
  tier_pending_->Set(static_cast<double>(usage.pending_bytes));
  raise(usage.written_bytes, tier_written_);
  raise(usage.read_bytes, tier_read_);
  raise(usage.rejected_blocks, tier_rejected_);
  raise(usage.evicted_blocks, tier_evicted_);
  RaiseTo(usage.cpu_seconds, tier_cpu_);
}

}  // namespace ropeway
