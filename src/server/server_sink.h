// What the two sinks of this room share: output handed from the backend's threads to a connection.
#ifndef ROPEWAY_SERVER_SERVER_SINK_H_
#define ROPEWAY_SERVER_SERVER_SINK_H_

#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/backend.h"
#include "server/key_limits.h"

namespace ropeway {

// Thread rule: the OutputSink side from the backend's threads, the rest from the connection's.
class ServerSink : public OutputSink {
 public:
  // Tells the connection that there is something to take; `overflow`: that the reader was too slow
  // and the connection is to be closed. Called under the sink's lock: must neither block nor call
  // back into the sink.
  using WakeFn = std::function<void(bool overflow)>;

  explicit ServerSink(WakeFn wake) : wake_(std::move(wake)) {}

  // Its place among its key's requests, which ends with the request. Before the backend has it.
  void SetTicket(KeyTicket ticket) { ticket_ = std::move(ticket); }

  // What arrived since the last Take. Once `end` was taken nothing follows.
  struct Output {
    bool admitted = false;  // OnAdmitted was called, now or earlier.
    std::vector<Delta> deltas;
    struct End {
      Status status;  // Of OnError; OK after OnFinish.
      Finish finish;  // Valid where `status` is OK.
    };
    std::optional<End> end;
  };
  Output Take();

  // How far the request is; all of it stays to be taken. Like Take, asks to be woken by what comes
  // next.
  struct Progress {
    bool admitted = false;
    bool ended = false;
    bool failed = false;  // It ended by OnError.
  };
  Progress Look();

  // Of Admission; absent where it was not admitted yet.
  std::optional<int32_t> queue_position();

  // The connection's last call: `wake` is not called any more once this returned, and further
  // deltas ask the backend to cancel.
  void Close();

  void OnAdmitted(RequestId id, const Admission& admission) final;
  bool OnDelta(RequestId id, Delta delta) final;
  void OnFinish(RequestId id, const Finish& finish) final;
  void OnError(RequestId id, const Status& status) final;

 protected:
  // Keeps `delta`; false if it is one too many. Called under the lock.
  virtual bool Keep(Delta delta, std::vector<Delta>* pending) = 0;
  // Called under the lock when all of `pending` was taken.
  virtual void Taken() {}
  // Whether a delta is worth waking the connection.
  virtual bool wakes_on_delta() const = 0;

 private:
  void Wake(bool overflow);  // Under the lock.

  // Of the backend's threads, which call one at a time.
  KeyTicket ticket_;
  int32_t generated_ = 0;  // Tokens.

  std::mutex mutex_;
  WakeFn wake_;  // Empty once closed.
  Output pending_;
  std::optional<int32_t> queue_position_;
  bool signalled_ = false;  // The connection was woken and did not take yet.
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_SERVER_SINK_H_
