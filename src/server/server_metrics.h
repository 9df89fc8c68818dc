// What the server itself counts; the backend's metrics stand beside them in /metrics.
#ifndef ROPEWAY_SERVER_SERVER_METRICS_H_
#define ROPEWAY_SERVER_SERVER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <string>
#include <string_view>

namespace ropeway {

// Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics();

  // One request answered with HTTP status `code`; 499 for one whose client went away before.
  void CountRequest(std::string_view route, int code);
  void CountSlowReader() { slow_readers_->Increment(); }
  // A connection beyond max_connections.
  void CountRefusedConnection() { refused_connections_->Increment(); }
  void ConnectionOpened() { connections_->Increment(); }
  void ConnectionClosed() { connections_->Decrement(); }

  // In the Prometheus text format.
  std::string Text() const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Counter* slow_readers_;
  prometheus::Counter* refused_connections_;
  prometheus::Gauge* connections_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_SERVER_METRICS_H_
