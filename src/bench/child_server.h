// A server that a benchmark starts, asks and stops.
#ifndef ROPEWAY_BENCH_CHILD_SERVER_H_
#define ROPEWAY_BENCH_CHILD_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "net/base_url.h"
#include "ropeway/status.h"

namespace ropeway {

// A port of the loopback address that was free just now; 0: none.
uint16_t FreePort();

// One process. It is killed when this process ends, however that happens.
// Thread rule: the thread that started it.
class ChildServer {
 public:
  // Starts `command` (a program and its arguments), of whose output the end is kept for messages,
  // and waits until http://127.0.0.1:`port`/health answers 200. Fails with kUnavailable and the
  // last words of its output where it ends before that or takes more than `patience` seconds.
  static StatusOr<std::unique_ptr<ChildServer>> Start(const std::vector<std::string>& command,
                                                      uint16_t port, double patience);

  // Stops it.
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  // SIGTERM, and SIGKILL where it has not ended after 60 s.
  void Stop();

  // Of its API, with /v1.
  const BaseUrl& url() const { return url_; }
  // The largest memory that it has had, in MiB; 0 where the system does not say.
  double PeakMemoryMib() const;

 private:
  ChildServer(pid_t pid, uint16_t port, std::string log);
  // True once the process has ended.
  bool Ended();
  std::string LastWords() const;

  pid_t pid_;  // 0: it has ended.
  BaseUrl url_;
  const std::string log_;  // A file, gone with this object.
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_CHILD_SERVER_H_
