// The sessions that an engine keeps: who may take the next turn of which, within bounds.
#ifndef ROPEWAY_STORE_SESSION_STORE_H_
#define ROPEWAY_STORE_SESSION_STORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ropeway/session.h"
#include "ropeway/status.h"
#include "store/session.h"
#include "store/session_entry.h"
#include "store/state_db.h"

namespace ropeway {

class SessionStore;

struct SessionStoreOptions {
  std::chrono::milliseconds ttl = std::chrono::hours(24);  // Above 0; counted from the last use.
  size_t max_sessions = 10000;
  // Of all records, their keys included. Looked at when a turn begins: those under way may go
  // beyond it by what they add.
  uint64_t max_bytes = uint64_t{1} << 30;
  // How often sessions whose time is over are removed, and failed writes are tried again.
  std::chrono::milliseconds period{1000};
  std::function<int64_t()> unix_ms = nullptr;  // The time; empty: the system's clock.
};

struct SessionStoreStats {
  uint64_t sessions = 0;
  uint64_t bytes = 0;  // As for max_bytes.
  uint64_t expired = 0;
  uint64_t lost = 0;           // Found damaged since the start.
  uint64_t failed_writes = 0;  // Turns that were not written at their end.
  uint64_t unwritten = 0;      // Of the sessions, those whose last turn waits to be written again.
};

// The right to take a session's next turn, which one at a time has. Abandoned or destroyed without
// a Commit, it leaves the session as it was before; a session that the turn began is gone. Must not
// outlive its store. Thread rule: Abandon from any thread, all else from one at a time.
class SessionTurn {
 public:
  SessionTurn() = default;  // Of no session.
  SessionTurn(SessionTurn&& other) noexcept { *this = std::move(other); }
  SessionTurn& operator=(SessionTurn&& other) noexcept;
  ~SessionTurn() { Abandon(); }

  explicit operator bool() const { return entry_ != nullptr; }
  // REQUIRES: it is of a session.
  const std::string& session_id() const;

  // Without effect the second time, and after a Commit.
  void Abandon() noexcept;

 private:
  friend class SessionStore;

  SessionStore* store_ = nullptr;
  std::shared_ptr<SessionEntry> entry_;
  uint64_t number_ = 0;  // Of all turns of the store.
};

// Tenants see their own sessions only: two of them may use the same id, for two sessions. What is
// beyond a bound is refused, never dropped; sessions whose time is over are removed.
//
// Writing has a thread of its own, which writes all that waits at once, with one sync.
// Thread rule: every method from any thread.
class SessionStore {
 public:
  // Called on the store's thread when a turn is written, or could not be; must not wait.
  using DoneFn = std::function<void(const Status&)>;

  // Finds what `db` holds. Records that are damaged become lost sessions.
  static StatusOr<std::unique_ptr<SessionStore>> Open(SessionStoreOptions options,
                                                      std::unique_ptr<StateDb> db);
  // Writes what waits. No DoneFn is called after it.
  ~SessionStore();
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // Takes the next turn of a session, which is begun where there is none of that id. Touches no
  // disk. kInvalidArgument: a turn is under way; kDataLoss: the session is lost;
  // kResourceExhausted: a bound is reached. Throws std::bad_alloc with nothing changed.
  StatusOr<SessionTurn> Begin(const std::string& tenant, const std::string& id);

  // Whether the turn is a session's first.
  bool IsNew(const SessionTurn& turn) const;

  // What the turn goes on from; reads the disk. A record that is damaged makes the session a lost
  // one: kDataLoss. kNotFound: it was closed meanwhile, or the turn abandoned. REQUIRES:
  // !IsNew(turn).
  StatusOr<SessionState> Load(const SessionTurn& turn);

  // Ends the turn: `next` is what the session's next one goes on from. `done` is told when that is
  // durable; the session may take its next turn then. A turn that was abandoned is not kept. Where
  // writing fails, the session goes on in memory and the writing is tried again until it succeeds.
  // A session that was closed meanwhile stays closed. Never waits; throws std::bad_alloc with
  // nothing changed.
  void Commit(SessionTurn* turn, const SessionState& next, DoneFn done);

  // A tenant's sessions that have a completed turn, the least recently used first.
  std::vector<SessionInfo> List(const std::string& tenant) const;

  // Forgets the session, and returns when that is written. A turn under way goes on, but what it
  // adds is not kept. kNotFound: the tenant has none of that id.
  Status Close(const std::string& tenant, const std::string& id);

  // Returns when all that was committed before is written, or could not be, and its DoneFn was
  // called.
  void WaitWritten();

  SessionStoreStats stats() const;

 private:
  friend class SessionTurn;
  class Impl;
  explicit SessionStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway

#endif  // ROPEWAY_STORE_SESSION_STORE_H_
