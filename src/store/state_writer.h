// The thread that writes what must survive the process, for all that have a part in it.
#ifndef ROPEWAY_STORE_STATE_WRITER_H_
#define ROPEWAY_STORE_STATE_WRITER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ropeway/status.h"
#include "store/state_db.h"

namespace ropeway::store {

// Owns a database, and the thread `ropeway-store`, the only one that writes to it. Clients keep
// different keys, and mark theirs by prefixes. What they want to write waits at them until the
// thread asks; it writes all of it together. After a failed write it asks again every period, so
// that clients retry, and it writes nothing at all where they have nothing: it learns whether
// writing still fails.
//
// Thread rule: every method from any thread. Clients may hold their locks: it takes no lock of
// theirs under its own.
class StateWriter {
 public:
  class Client {
   public:
    virtual ~Client() = default;

    // Reads what the client must know of the database. Not OK: the database is closed, for a full
    // disk, and nothing was read; then it is called again, on the writer's thread, and failure()
    // says why until it succeeds.
    virtual Status Load(const StateDb& db) = 0;

    // The rest is called on the writer's thread only.

    // Adds the changes to write now, the oldest first: all of them are made, in one Write with the
    // other clients', or none. Returns whether it wants a Settle. Called at least every period.
    // Throws std::bad_alloc, which is a failed write.
    virtual bool Collect(std::vector<StateChange>* changes) = 0;

    // The outcome of a write that this client or another one wanted. Not OK: changes of the last
    // Collect may be in the database, and are to be collected again, or taken back.
    virtual void Settle(const Status& status) = 0;
  };

  // `period`: how often clients are asked without a Wake.
  explicit StateWriter(std::unique_ptr<StateDb> db,
                       std::chrono::milliseconds period = std::chrono::seconds(1));
  // REQUIRES: all clients are removed.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // Loads the client, and asks it from now on.
  void Add(Client* client);
  // Asks the client for the last time, and returns after it was called for the last time. What
  // cannot be written then is dropped. No effect if it was not added. REQUIRES: not on the writer's
  // thread.
  void Remove(Client* client);

  // Asks all clients soon.
  void Wake();

  // Why nothing can be written now, or not yet be read: the outcome of the last write, set before
  // clients are told of it. kDataLoss, the database's files are damaged, stays.
  Status failure() const;

  const StateDb& db() const { return *db_; }

 private:
  struct Member {
    Client* client;
    bool loaded;
    uint64_t last_round = UINT64_MAX;  // It leaves after it.
  };

  void Loop();
  // Asks the clients for their changes, and writes them.
  void Round();
  Status LoadRest();
  // Sets and logs the outcome of a write, or that the database is closed.
  void Note(const Status& status);

  const std::unique_ptr<StateDb> db_;
  const std::chrono::milliseconds period_;

  mutable std::mutex mu_;  // Guards the fields below.
  std::condition_variable wake_;
  std::condition_variable round_ended_;
  // Only the thread changes it, and reads it without mu_: a round takes no memory of its own.
  std::list<Member> members_;
  std::list<Member> joining_;  // Members from the next round on.
  uint64_t rounds_ = 0;        // Begun since the start.
  bool woken_ = false;
  bool stop_ = false;
  Status failure_;

  std::thread thread_;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_STATE_WRITER_H_
