// One request and its answer, from sending to the last byte.
#ifndef ROPEWAY_BENCH_EXCHANGE_H_
#define ROPEWAY_BENCH_EXCHANGE_H_

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "bench/request_record.h"
#include "net/http_client.h"

namespace ropeway {

// What is sent where. What it points to must outlive the exchange.
struct Asking {
  const std::string* path;
  const std::function<std::string()>* body_of;  // Called once, when the request is sent.
  double timeout;                               // Seconds, from then on.
  bool keep_text;                               // Of the answer, in the record.
};

// Fills `record` but for its numbers and `due`. `now` tells the seconds since the request was due.
// Nothing is thrown: what goes wrong is in the record. The arguments must outlive the reply.
boost::asio::awaitable<void> Exchange(HttpCall* call, Asking asking,
                                      const std::function<double()>& now, RequestRecord* record);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_EXCHANGE_H_
