// The objects of a store in memory: by name, by age and by expiry, within bounds, as ancestors, and
// what of them is to be written.
#ifndef ROPEWAY_STORE_OBJECT_INDEX_H_
#define ROPEWAY_STORE_OBJECT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/shared_budget.h"
#include "ropeway/status.h"
#include "store/object.h"
#include "store/object_record.h"

namespace ropeway::store {

// Records in memory; null: the database has it.
struct ObjectRecords {
  std::shared_ptr<const std::string> head;
  std::shared_ptr<const std::string> fixed;
  std::shared_ptr<const std::string> state;
};

struct ObjectEntry;
// Entries by when they expire, which INT64_MAX is for those that do not now, and by their order.
using ObjectExpiries = std::map<std::pair<int64_t, uint64_t>, std::shared_ptr<ObjectEntry>>;

struct ObjectEntry {
  ObjectName name;
  std::string key;
  ObjectHead head;
  uint64_t head_bytes = 0;        // Its record's size.
  ObjectEntry* parent = nullptr;  // In the index as long as this is; null: none is there.
  int64_t successors = 0;         // Entries whose parent this is.
  uint64_t version = 0;           // Counts its changes.
  bool fresh = false;             // It was never written.
  bool closed = false;            // No longer in the index: its records are to be removed.
  Status lost;                    // Not OK: why it can only be deleted.
  ObjectRecords unwritten;        // Of its last changes.
  base::SharedBudget::Hold place;
  base::SharedBudget::Hold bytes;

  // Of its records with their keys.
  uint64_t size() const {
    return 3 * (kObjectHead.size() + key.size()) + head_bytes + head.fixed.bytes + head.state.bytes;
  }
  // INT64_MAX: it does not, as it is now.
  int64_t expiry() const { return head.open || head.hidden ? INT64_MAX : head.expires_ms; }
  bool IsExpired(int64_t now) const { return expiry() <= now; }

 private:
  friend class ObjectIndex;
  bool dirty_ = false;    // It is to be written.
  bool writing_ = false;  // It is among those that TakeDirty returned.
  ObjectExpiries::iterator place_in_expiries_;
  // One node, for the list of those to write: with it, marking one needs no memory. Elsewhere while
  // it is on such a list.
  std::list<std::shared_ptr<ObjectEntry>> node_ = std::list<std::shared_ptr<ObjectEntry>>(1);
};

// Thread rule: one thread at a time, like entries; the store's mutex guards both.
class ObjectIndex {
 public:
  using EntryPtr = std::shared_ptr<ObjectEntry>;

  ObjectIndex(int64_t max_objects, int64_t max_bytes) : places_(max_objects), bytes_(max_bytes) {}

  // Null: there is none.
  EntryPtr Find(const std::string& key) const;

  // Whether there may be several tenants, as at the beginning; else the only one may have all.
  void SetShared(bool shared);

  // kResourceExhausted, with the budget's name, if the tenant may not have one more of so many
  // bytes. A client is to come again when the next one expires.
  Status CheckRoom(const std::string& tenant, uint64_t bytes, int64_t now) const;
  // Takes the room of a new entry, or returns the same error.
  Status TakeRoom(ObjectEntry* entry, int64_t now);

  // Adds the entry, and makes it its parent's successor. One without room gets it, even beyond the
  // bounds. Throws std::bad_alloc with nothing changed but for that room. REQUIRES: no entry has
  // its key.
  void Insert(const EntryPtr& entry);
  // The order of the next new entry.
  uint64_t NextOrder() const { return by_order_.empty() ? 1 : by_order_.rbegin()->first + 1; }

  // The entry has changed: this is its head now. `records`: those of the change; null parts stay.
  void Change(const EntryPtr& entry, ObjectHead head, ObjectRecords records) noexcept;
  // Removes the entry, or hides it if it has successors. Throws std::bad_alloc with nothing
  // changed.
  void Delete(const EntryPtr& entry);
  // Removes the entry, and with the last successor its hidden ancestors. REQUIRES: it has no
  // successors.
  void Remove(EntryPtr entry) noexcept;
  // Only deletion, or the time, ends a lost one.
  void Lose(ObjectEntry* entry, Status why, int64_t expires_ms) noexcept;

  // Deletes what has expired, and looks at nothing else. Throws std::bad_alloc with some of it
  // deleted.
  void DeleteExpired(int64_t now);
  // Removes hidden ones without successors, as damage to these leaves them. Throws std::bad_alloc.
  void RemoveOrphans();

  // Moves those to write to `writing`, which is empty, until ReturnDirty.
  void TakeDirty(std::list<EntryPtr>* writing) noexcept;
  // `written`: not dirty but for what has changed since.
  void ReturnDirty(std::list<EntryPtr>* writing, bool written) noexcept;
  bool dirty() const { return !dirty_.empty(); }
  // Removes those that were never written. REQUIRES: none is in a list of TakeDirty.
  void RemoveFresh() noexcept;

  // The oldest first.
  const std::map<uint64_t, EntryPtr>& by_order() const { return by_order_; }
  size_t size() const { return by_key_.size(); }
  uint64_t bytes() const { return static_cast<uint64_t>(bytes_.used()); }
  uint64_t num_expired() const { return num_expired_; }
  // The entries that DeleteExpired has looked at.
  uint64_t num_looked_at() const { return num_looked_at_; }

 private:
  void MarkDirty(const EntryPtr& entry) noexcept;
  // Its expiry may have changed.
  void MoveInExpiries(ObjectEntry* entry) noexcept;
  Status NoRoom(const std::string& tenant, uint64_t bytes, bool place, int64_t now) const;

  mutable base::SharedBudget places_;
  mutable base::SharedBudget bytes_;
  std::unordered_map<std::string, EntryPtr> by_key_;
  std::map<uint64_t, EntryPtr> by_order_;
  std::list<EntryPtr> dirty_;
  uint64_t num_expired_ = 0;
  ObjectExpiries by_expiry_;  // All entries.
  uint64_t num_looked_at_ = 0;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_OBJECT_INDEX_H_
