#include "server/stored_metrics.h"

namespace ropeway::server {

StoredMetrics::StoredMetrics() : sampled_(&metrics_) {
  using S = Sample;
  sampled_.Add("ropeway_stored_objects", "Stored answers and conversations.",
               [](const S& s) { return s.stats.objects; });
  sampled_.Add("ropeway_stored_bytes", "Size of their records, in bytes.",
               [](const S& s) { return s.stats.bytes; });
  sampled_.Add("ropeway_stored_under_way", "Answers to be stored that are being computed.",
               [](const S& s) { return s.under_way; });
  sampled_.Add("ropeway_stored_expired_total",
               "Stored answers and conversations removed because their time was over.",
               [](const S& s) { return s.stats.expired; });
  sampled_.Add("ropeway_stored_lost_total",
               "Stored answers and conversations whose record was found damaged.",
               [](const S& s) { return s.stats.lost; });
  sampled_.Add("ropeway_stored_write_errors_total",
               "Changes of stored answers and conversations that could not be written at once.",
               [](const S& s) { return s.stats.failed_writes; });
}

std::string StoredMetrics::Text(const store::ObjectStoreStats& stats, size_t under_way) const {
  const std::lock_guard lock(mutex_);
  sampled_.Follow({stats, under_way});
  return metrics_.Text();
}

}  // namespace ropeway::server
