// The sessions of a store by key, what they take together, and when the next one expires.
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
#include "store/session_entry.h"

namespace ropeway {

// Thread rule: one thread at a time, as entries are; the store's mutex sees to both.
class SessionIndex {
 public:
  using EntryPtr = std::shared_ptr<SessionEntry>;

  SessionIndex(size_t max_sessions, uint64_t max_bytes)
      : max_sessions_(max_sessions), max_bytes_(max_bytes) {}

  // Null: there is none.
  EntryPtr Find(const std::string& key) const;
  // Throws std::bad_alloc with nothing changed. REQUIRES: none has its key.
  void Insert(const EntryPtr& entry);
  // Takes it out, and marks it as closed. REQUIRES: the caller holds it.
  void Forget(SessionEntry* entry) noexcept;

  // kResourceExhausted where no turn may begin now; `is_new`: of a session that is not there yet.
  Status CheckBounds(bool is_new) const;

  // The session's turn was completed: this is its head now, in a record of so many bytes.
  void SetHead(SessionEntry* entry, const SessionHead& head, uint64_t head_bytes) noexcept;
  // Or it was abandoned: it may expire again.
  void NoteExpiry(const SessionEntry& entry) noexcept;
  // What waits to be written of it; null: nothing.
  void SetUnwritten(SessionEntry* entry, std::shared_ptr<const SessionRecords> records) noexcept;

  // No session without a turn under way expires before.
  int64_t next_expiry() const { return next_expiry_; }
  // Takes out those whose time is over, but for those with a turn under way, and adds their keys to
  // `removed`. Throws std::bad_alloc with some taken out.
  void RemoveExpired(int64_t now, std::unordered_set<std::string>* removed);

  // A tenant's sessions that have a completed turn, in no order. `durable`: what is written
  // outlives the process. Throws std::bad_alloc.
  std::vector<SessionInfo> List(const std::string& tenant, int64_t now, bool durable) const;
  // Those with something unwritten. Throws std::bad_alloc.
  std::vector<EntryPtr> Unwritten() const;

  size_t size() const { return index_.size(); }
  uint64_t bytes() const { return bytes_; }  // Of all.
  uint64_t num_unwritten() const { return num_unwritten_; }
  uint64_t num_expired() const { return num_expired_; }  // Taken out by RemoveExpired.

 private:
  const size_t max_sessions_;
  const uint64_t max_bytes_;
  std::unordered_map<std::string, EntryPtr> index_;
  uint64_t bytes_ = 0;
  uint64_t num_unwritten_ = 0;
  uint64_t num_expired_ = 0;
  int64_t next_expiry_ = INT64_MAX;
};

}  // namespace ropeway

#endif  // ROPEWAY_STORE_SESSION_INDEX_H_
