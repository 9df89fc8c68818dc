// The metrics of stored answers and conversations.
#ifndef ROPEWAY_SERVER_STORED_METRICS_H_
#define ROPEWAY_SERVER_STORED_METRICS_H_

#include <cstddef>
#include <mutex>
#include <string>

#include "base/metrics.h"
#include "store/object.h"

namespace ropeway::server {

// Thread rule: any thread.
class StoredMetrics {
 public:
  StoredMetrics();

  // In the Prometheus text format. `under_way`: answers that are being computed.
  std::string Text(const store::ObjectStoreStats& stats, size_t under_way) const;

 private:
  struct Sample {
    store::ObjectStoreStats stats;
    size_t under_way = 0;
  };

  mutable std::mutex mutex_;
  base::Metrics metrics_;
  base::SampledMetrics<Sample> sampled_;  // GUARDED_BY(mutex_)
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_METRICS_H_
