// The sessions of an engine or a gateway: their state between turns, on disk and within bounds.
#ifndef ROPEWAY_STORE_SESSION_STORE_H_
#define ROPEWAY_STORE_SESSION_STORE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "ropeway/options.h"
#include "ropeway/session.h"
#include "ropeway/status.h"
#include "store/session.h"
#include "store/session_index.h"
#include "store/state_writer.h"

namespace ropeway::store {

class SessionStore;

struct SessionStoreOptions {
  // The ttl counts from the last use. store_bytes is of all records with their keys, and checked
  // when a turn begins: running turns may exceed it by what they add.
  SessionOptions sessions{};
  std::function<int64_t()> unix_ms = nullptr;  // The time; null: the system's clock.
};

struct SessionStoreStats {
  uint64_t sessions = 0;
  uint64_t bytes = 0;  // As for store_bytes.
  uint64_t expired = 0;
  uint64_t lost = 0;           // Found damaged since the start.
  uint64_t failed_writes = 0;  // Turns that were not written at their end.
  uint64_t unwritten = 0;      // Sessions whose last turn waits for a retry.
};

// The exclusive right to a session's next turn. Abandoned or destroyed without a Commit, it leaves
// the session as it was; a session that the turn created is removed. Must not outlive its store.
// Thread rule: Abandon from any thread, the rest from one at a time.
class SessionTurn {
 public:
  SessionTurn() = default;  // A turn of no session.
  SessionTurn(SessionTurn&& other) noexcept { *this = std::move(other); }
  SessionTurn& operator=(SessionTurn&& other) noexcept;
  ~SessionTurn() { Abandon(); }

  explicit operator bool() const { return entry_ != nullptr; }
  // REQUIRES: the turn is of a session.
  const std::string& session_id() const;

  // No effect the second time, and after a Commit.
  void Abandon() noexcept;

 private:
  friend class SessionStore;
  SessionTurn(SessionStore* store, std::shared_ptr<SessionEntry> entry)
      : store_(store), entry_(std::move(entry)), number_(entry_->turn) {}

  SessionStore* store_ = nullptr;
  std::shared_ptr<SessionEntry> entry_;
  uint64_t number_ = 0;  // Of all turns of the store.
};

// Each tenant has its own sessions: the same id of two tenants names two sessions. New turns beyond
// a bound are rejected; sessions are removed only when they expire.
//
// The writer writes all pending turns together, and each of its periods expired sessions are
// removed and failed writes retried. Thread rule: every method from any thread.
class SessionStore final : private StateWriter::Client {
 public:
  // Called on the writer's thread when a turn was written or could not be; must not block.
  using DoneFn = std::function<void(const Status&)>;

  // Reads the sessions in the writer's database. Damaged records become lost sessions. A database
  // that is closed for a full disk is tried again every period.
  static StatusOr<std::unique_ptr<SessionStore>> Open(SessionStoreOptions options,
                                                      std::shared_ptr<StateWriter> writer);
  // Writes pending turns. No DoneFn is called after it.
  ~SessionStore() override;
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // Begins the next turn of a session, which is created if there is none of this id. Does not
  // access the disk. kInvalidArgument: a turn is running; kDataLoss: the session is lost;
  // kResourceExhausted: a bound is reached; kUnavailable: the last write failed (a full disk), and
  // none has succeeded since. Throws std::bad_alloc with nothing changed.
  StatusOr<SessionTurn> Begin(const std::string& tenant, const std::string& id);

  // Whether the turn is a session's first.
  bool IsNew(const SessionTurn& turn) const;

  // The state that the turn continues; reads the disk. A damaged record makes the session a lost
  // one: kDataLoss. kNotFound: the session was closed meanwhile, or the turn abandoned. REQUIRES:
  // !IsNew(turn).
  StatusOr<SessionState> Load(const SessionTurn& turn);

  // Ends the turn; the session's next one continues from `next`. `done` is called when that is
  // durable, and then the next turn may begin. An abandoned turn is not kept. If writing fails, the
  // turn stays in memory, the write is retried until it succeeds, and until then no turn begins. A
  // session that was closed meanwhile stays closed. Never blocks; throws std::bad_alloc with
  // nothing changed.
  void Commit(SessionTurn* turn, const SessionState& next, DoneFn done);

  // A tenant's sessions that have a completed turn, the least recently used first.
  std::vector<SessionInfo> List(const std::string& tenant) const;

  // Removes the session, and returns when that is written. A running turn goes on, but its result
  // is not kept. kNotFound: the tenant has no session of this id. kUnavailable: it cannot be
  // written (then it is closed, and its record removed later) or not yet be read.
  Status Close(const std::string& tenant, const std::string& id);

  // Returns when all earlier commits were written or failed, and their DoneFns were called.
  void WaitWritten();

  SessionStoreStats stats() const;

 private:
  friend class SessionTurn;
  using Entry = SessionEntry;

  // A job of the writer.
  struct Work {
    std::shared_ptr<Entry> entry;
    uint64_t turn = 0;
    std::shared_ptr<const SessionRecords> records;  // Null: the session is to be removed.
    SessionHead head;
    DoneFn done;
  };

  SessionStore(SessionStoreOptions options, std::shared_ptr<StateWriter> writer);
  // Reads all heads.
  Status Load(const StateDb& db) override;
  void ReadHead(std::string_view key, std::string_view record);  // REQUIRES: mu_ is held.
  int64_t Now() const;
  void Abandon(Entry* entry, uint64_t turn) noexcept;

  // REQUIRE that mu_ is held.
  void RemoveExpired(int64_t now);
  bool NothingToWrite() const {
    return work_.empty() && removed_.empty() && index_.num_unwritten() == 0;
  }
  // Whether the result of a turn is still wanted.
  static bool IsKept(const Work& work) {
    return !work.entry->closed && work.entry->turn == work.turn;
  }

  bool Collect(std::vector<StateChange>* changes) override;
  // For the entries, then for the callers.
  void Settle(const Status& status) override;
  void SettleWork(const Work& work, const Status& status);  // REQUIRES: mu_ is held.
  void Tell(const std::list<Work>& work, const Status& status);

  const SessionStoreOptions options_;
  const std::shared_ptr<StateWriter> writer_;
  const StateDb& db_;  // The writer's.

  mutable std::mutex mu_;  // Guards the fields below, and all entries.
  std::condition_variable work_done_;
  SessionIndex index_;
  std::list<Work> work_;
  uint64_t turns_ = 0;       // Begun since the start.
  uint64_t work_added_ = 0;  // Since the start.
  uint64_t work_ended_ = 0;
  std::unordered_set<std::string> removed_;  // Keys of sessions whose records are to be removed.
  // The sessions that the running write removes. Only the writer's thread changes it, and reads it
  // without mu_.
  std::unordered_set<std::string> removing_;
  SessionStoreStats counts_;
  bool incomplete_ = false;  // Some records could not be read at start.

  // Used by the writer's thread only: what the running write writes.
  std::list<Work> writing_;
  std::vector<std::pair<std::shared_ptr<Entry>, std::shared_ptr<const SessionRecords>>> retried_;
};

// kInvalidArgument with the option at fault, as it is called in a configuration.
Status CheckSessionOptions(const SessionOptions& options);

// The writer to the database that the options describe: in the directory `sessions` of their
// state_path, or in memory. REQUIRES: the options are valid.
StatusOr<std::shared_ptr<StateWriter>> OpenStateWriter(const SessionOptions& options);

// The system's clock, as Unix time.
int64_t SystemUnixMs();

// The options' ttl. Beyond a century everything is kept for ever.
int64_t TtlMs(const SessionOptions& options);

// What the values of one client may take in that database: at most the options' store_bytes.
int64_t ValueBytes(const SessionOptions& options);

// The store that the options describe. `writer`: what it is kept by; null: one of its own, by
// OpenStateWriter. REQUIRES: the options are valid.
StatusOr<std::unique_ptr<SessionStore>> OpenSessionStore(
    const SessionOptions& options, std::shared_ptr<StateWriter> writer = nullptr);

// The metrics of a store of sessions, of an engine or of a gateway.
using SessionMetrics = base::SampledMetrics<SessionStoreStats>;

// `metrics` must outlive them.
SessionMetrics MakeSessionMetrics(base::Metrics* metrics);

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_SESSION_STORE_H_
