// The metrics of an HTTP server.
#ifndef ROPEWAY_HTTP_HTTP_METRICS_H_
#define ROPEWAY_HTTP_HTTP_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace ropeway::http {

// What an HTTP server counts. Thread-safe.
class HttpMetrics {
 public:
  HttpMetrics();

  // A request of `tenant`, "" if it has none, answered with HTTP status `code`; 499 if the client
  // left before.
  void CountRequest(std::string_view route, int code, const std::string& tenant);
  int64_t answered() const { return answered_; }
  // Drops the numbers of tenants for which `remembered` returns false.
  void ForgetTenants(const std::function<bool(const std::string&)>& remembered);
  void CountSlowReader() { slow_readers_->Increment(); }
  // An answer that was not sent whole: its tenant's take too much memory.
  void CountCutAnswer() { cut_answers_->Increment(); }
  // A connection that found no place.
  void CountRejectedConnection() { rejected_connections_->Increment(); }
  // A connection that gave its place to a newer one.
  void CountEvictedConnection() { evicted_connections_->Increment(); }
  void ConnectionOpened() { connections_->Increment(); }
  void ConnectionClosed() { connections_->Decrement(); }

  // In the Prometheus text format, without the series of tenants.
  std::string Text() const;
  // A series for each tenant and code.
  prometheus::MetricFamily TenantRequests() const;

 private:
  std::atomic<int64_t> answered_{0};
  mutable std::mutex mutex_;
  // By tenant and code; not the library's counters, which cannot be dropped while they are counted
  // in. GUARDED_BY(mutex_)
  std::map<std::string, std::map<int, int64_t>> tenant_requests_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Counter* slow_readers_;
  prometheus::Counter* cut_answers_;
  prometheus::Counter* rejected_connections_;
  prometheus::Counter* evicted_connections_;
  prometheus::Gauge* connections_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_HTTP_METRICS_H_
