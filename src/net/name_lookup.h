// Names of hosts, resolved beside the threads that ask for them.
#ifndef ROPEWAY_NET_NAME_LOOKUP_H_
#define ROPEWAY_NET_NAME_LOOKUP_H_

#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "net/http_connection.h"

namespace ropeway::net {

// A host's name that is being resolved. The system's resolver blocks its thread, for minutes where
// a name server is silent, and cannot be interrupted: so each lookup has a thread of its own, up to
// kMaxThreads in the process, and further ones wait for a thread. A lookup that is dropped
// leaves its thread behind.
//
// Thread rule: one thread at a time.
class NameLookup {
 public:
  static constexpr int kMaxThreads = 16;

  // The addresses of a host and port, or why there are none. Blocks.
  using Resolve = std::function<HttpEndpoints(const std::string& host, uint16_t port,
                                              boost::system::error_code* error)>;
  using Done = std::function<void(const boost::system::error_code& error, HttpEndpoints found)>;

  // Starts to resolve; `done` is called by a thread that runs `io`, once. `resolve`: in place of
  // the system's resolver, for tests. Throws where memory is short or no thread can be started;
  // `done` is not called then.
  NameLookup(std::string host, uint16_t port, boost::asio::io_context* io, Done done,
             Resolve resolve = {});

  // Does not wait. Where `done` has not begun by then, it is not called any more; `io` is not used
  // any more.
  ~NameLookup();

  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

 private:
  struct Job;
  class Threads;

  const std::shared_ptr<Job> job_;
};

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_NAME_LOOKUP_H_
