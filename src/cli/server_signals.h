// The signals of a server: the end of the process, and reloads.
#ifndef ROPEWAY_CLI_SERVER_SIGNALS_H_
#define ROPEWAY_CLI_SERVER_SIGNALS_H_

#include <functional>
#include <memory>

namespace ropeway::cli {

// The last line in a server's log.
inline constexpr char kStopped[] = "stopped; requests answered: {}";

// The signals of a server, taken by a thread of its own that never waits for anything else. SIGTERM
// and SIGINT: while the server starts, one ends the process at once, after kStopped; later the
// first asks for the end, and a second one ends the process at once with exit code 1. SIGHUP asks
// for a reload, also where the process was started with SIGHUP ignored.
class ServerSignals {
 public:
  // The second part of a reload, which uses the server and waits for nothing.
  using Apply = std::function<void()>;
  // The first part of a reload, which reads files and may never return: a disk may hang. So it owns
  // all that it uses.
  using Read = std::function<Apply()>;

  // Call before any other thread starts: all of them inherit the mask that blocks these signals. At
  // most one per process.
  ServerSignals();

  // From now on a signal asks for the end.
  void SetServing();

  // From now on SIGHUP calls `read` and what it returns, on a thread for reloads, once at once if
  // there was one before. One reload at a time: SIGHUPs that come while files are read are one more
  // reload after it. Call once.
  void StartReloads(Read read);

  // No Apply goes on when this returns, and none begins. Does not wait for a Read.
  void EndReloads();

  // Blocks until the program is asked to end; returns the signal's name. Call once.
  const char* Wait();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // Outlived by the threads.
};

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_SERVER_SIGNALS_H_
