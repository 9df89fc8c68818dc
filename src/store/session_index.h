// The sessions of a store in memory: by key, their total size, and when the next one expires.
#ifndef ROPEWAY_STORE_SESSION_INDEX_H_
#define ROPEWAY_STORE_SESSION_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ropeway/session.h"
#include "ropeway/status.h"
#include "store/session.h"

namespace ropeway::store {

// The two records of one session.
struct SessionRecords {
  std::string head;
  std::string state;
};

// The store's mutex guards all fields but the names.
struct SessionEntry {
  std::string tenant;
  std::string id;
  std::string key;
  SessionHead head;         // After the last completed turn.
  uint64_t head_bytes = 0;  // Its record's size.
  uint64_t turn = 0;        // The number of the turn that runs or is being written; 0: none.
  bool closed = false;      // No longer in the index.
  Status lost;              // Not OK: why the session rejects turns.
  // The last turn if it could not be written: the database has an older one, or none.
  std::shared_ptr<const SessionRecords> unwritten;

  // Whether it has a completed turn, or had one before it was lost; else its first one is running.
  bool is_kept() const { return head.turns > 0 || !lost.ok(); }
  uint64_t bytes() const {
    return is_kept() ? head_bytes + head.state_bytes + 2 * (key.size() + 1) : 0;
  }
};

// Thread rule: one thread at a time, like entries; the store's mutex guards both.
class SessionIndex {
 public:
  using EntryPtr = std::shared_ptr<SessionEntry>;

  SessionIndex(size_t max_sessions, uint64_t max_bytes)
      : max_sessions_(max_sessions), max_bytes_(max_bytes) {}

  // Null: there is none.
  EntryPtr Find(const std::string& key) const;
  // Throws std::bad_alloc with nothing changed. REQUIRES: no entry has its key.
  void Insert(const EntryPtr& entry);
  // Removes the entry and marks it as closed. REQUIRES: the caller holds a pointer to it.
  void Forget(SessionEntry* entry) noexcept;

  // kResourceExhausted if no turn may begin now; `is_new`: of a new session.
  Status CheckBounds(bool is_new) const;

  // The session's turn has ended: this is its head now, in a record of `head_bytes`.
  void SetHead(SessionEntry* entry, const SessionHead& head, uint64_t head_bytes) noexcept;
  // Its turn was abandoned: it may expire again.
  void NoteExpiry(const SessionEntry& entry) noexcept;
  // Sets the records that wait to be written; null: none.
  void SetUnwritten(SessionEntry* entry, std::shared_ptr<const SessionRecords> records) noexcept;

  // No session without a running turn expires before this time.
  int64_t next_expiry() const { return next_expiry_; }
  // Removes the expired sessions without a running turn, and adds their keys to `removed`. Throws
  // std::bad_alloc with some of them removed.
  void RemoveExpired(int64_t now, std::unordered_set<std::string>* removed);

  // A tenant's sessions with a completed turn, in no order. `durable`: the database survives the
  // process. Throws std::bad_alloc.
  std::vector<SessionInfo> List(const std::string& tenant, int64_t now, bool durable) const;
  // The sessions with unwritten records. Throws std::bad_alloc.
  std::vector<EntryPtr> Unwritten() const;

  size_t size() const { return index_.size(); }
  uint64_t bytes() const { return bytes_; }  // All entries together.
  uint64_t num_unwritten() const { return num_unwritten_; }
  uint64_t num_expired() const { return num_expired_; }  // Removed by RemoveExpired.

 private:
  const size_t max_sessions_;
  const uint64_t max_bytes_;
  std::unordered_map<std::string, EntryPtr> index_;
  uint64_t bytes_ = 0;
  uint64_t num_unwritten_ = 0;
  uint64_t num_expired_ = 0;
  int64_t next_expiry_ = INT64_MAX;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_SESSION_INDEX_H_
