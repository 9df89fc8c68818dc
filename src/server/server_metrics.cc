#include "server/server_metrics.h"

#include <prometheus/text_serializer.h>

namespace ropeway {

ServerMetrics::ServerMetrics()
    : requests_(&prometheus::BuildCounter()
                     .Name("ropeway_http_requests_total")
                     .Help("HTTP requests by route and status code; 499: the client went away.")
                     .Register(registry_)),
      slow_readers_(&prometheus::BuildCounter()
                         .Name("ropeway_http_slow_readers_total")
                         .Help("Streams cancelled because their client read too slowly.")
                         .Register(registry_)
                         .Add({})),
      refused_connections_(&prometheus::BuildCounter()
                                .Name("ropeway_http_refused_connections_total")
                                .Help("Connections beyond the largest number that is served.")
                                .Register(registry_)
                                .Add({})),
      connections_(&prometheus::BuildGauge()
                        .Name("ropeway_http_connections")
                        .Help("Open client connections.")
                        .Register(registry_)
                        .Add({})) {}

void ServerMetrics::CountRequest(std::string_view route, int code) {
  requests_->Add({{"route", std::string(route)}, {"code", std::to_string(code)}}).Increment();
}

std::string ServerMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace ropeway
