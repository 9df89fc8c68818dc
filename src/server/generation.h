// One generation request over one connection: from the body to the last byte of its answer.
#ifndef ROPEWAY_SERVER_GENERATION_H_
#define ROPEWAY_SERVER_GENERATION_H_

#include <boost/asio/awaitable.hpp>

#include "server/request_reader.h"
#include "server/server_context.h"
#include "server/socket_stream.h"

namespace ropeway {

// What was sent.
struct Sent {
  int status = 499;  // Of HTTP; 499: the client left before the end.
  bool keep_alive = false;
};

// Validates `request`, hands it to the backend and sends what comes back, whole or as a stream. A
// client that leaves, or reads too slowly, is a cancel. On return the backend holds no reference to
// the connection.
boost::asio::awaitable<Sent> Generate(std::shared_ptr<SocketStream> stream, ServerContext* context,
                                      HttpRequest request, bool chat);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_GENERATION_H_
