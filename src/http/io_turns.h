// Turns of the requests that an I/O thread answers itself, in fair shares of its time.
#ifndef ROPEWAY_HTTP_IO_TURNS_H_
#define ROPEWAY_HTTP_IO_TURNS_H_

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "base/clock.h"
#include "base/fair_pool.h"
#include "http/socket_stream.h"

namespace ropeway::http {

// One request at a time does what takes an I/O thread's time: reads its small body, submits its
// choices, or writes the queue as JSON. Requests wait for their turns in a base::FairQueue, which
// counts what each turn took. Between two turns the thread looks at its sockets, so a new request
// is in the queue after a few turns of other tenants, however many requests they have waiting. Then
// its tenant is next, unless it has used more than they have.
//
// Thread rule: the thread of one event loop. Must outlive the loop's coroutines.
class IoTurns {
 private:
  struct Wish;

 public:
  IoTurns() = default;
  IoTurns(const IoTurns&) = delete;
  IoTurns& operator=(const IoTurns&) = delete;

  // A turn, or the wait for one; it ends at the latest with this object.
  class Turn {
   public:
    Turn() = default;
    ~Turn() { End(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Ends the turn and grants the next one, which begins once the thread has looked at its
    // sockets. Without effect on a Turn that Begin was not called with.
    void End();

   private:
    friend class IoTurns;
    IoTurns* turns_ = nullptr;  // Valid with wish_.
    std::shared_ptr<Wish> wish_;
  };

  // Waits until it is a turn of `flow`, also if the client has left meanwhile. `turn` is to end
  // before the next co_await: others wait for it. REQUIRES: the loop serves `stream`; `turn` is
  // new, and outlives the wait.
  boost::asio::awaitable<void> Begin(base::Flow flow, std::shared_ptr<SocketStream> stream,
                                     Turn* turn);

 private:
  // Grants the next turn, unless one is under way.
  void Next();

  const base::RealClock clock_{};
  base::FairQueue queue_;
  base::FairQueue::Handle running_;  // Whose turn it is; at most one.
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_IO_TURNS_H_
