// What clients store by id and fetch later, responses and conversations: on disk, within bounds,
// each for its time.
#ifndef ROPEWAY_STORE_OBJECT_STORE_H_
#define ROPEWAY_STORE_OBJECT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/options.h"
#include "ropeway/status.h"
#include "store/object.h"
#include "store/object_index.h"
#include "store/object_record.h"
#include "store/state_writer.h"

namespace ropeway::store {

// What is stored is never evicted: new objects beyond a bound are rejected. SessionOptions has the
// bounds; tenants share both, the count and the bytes, by a base::SharedBudget each. Objects go
// when they are deleted, or expire.
//
// A response that has successors is only hidden when it is deleted or expires: Read finds it as an
// ancestor alone (`hidden_too`). It goes with the last of them.
//
// Thread rule: every method from any thread.
class ObjectStore final : private StateWriter::Client {
 public:
  // Called once, on the writer's thread, when the changes are in the log, or the reason why not;
  // must not block.
  using DoneFn = std::function<void(const Status&)>;

  // Reads the heads of all objects; while the database is closed for a full disk they are not
  // there, and every name is kUnavailable. Damaged records become lost objects. `writer` must
  // outlive it. `unix_ms`: the time; null: the system's clock.
  static StatusOr<std::unique_ptr<ObjectStore>> Open(const SessionOptions& options,
                                                     StateWriter* writer,
                                                     std::function<int64_t()> unix_ms = nullptr);
  ~ObjectStore() override;
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // Whether there may be several tenants, as at the beginning; else the only one may have all the
  // room.
  void SetShared(bool shared);

  // OK if a new object of about so many bytes would be accepted now. kResourceExhausted: the
  // tenant's budget is full, and the message names it; kUnavailable: the last write failed (a full
  // disk) and none has succeeded since, or the database's files are damaged. Does not access the
  // disk.
  Status CheckRoom(const std::string& tenant, uint64_t bytes) const;

  // Makes all changes together, or none. New objects count against their tenant's budget
  // (kResourceExhausted); changes of old ones are always taken. kUnavailable: as CheckRoom, for new
  // objects. kNotFound: an object that is to change was deleted; `parent` is not there, or hidden.
  // kDataLoss: one of these is lost. kInvalidArgument: an id that exists is new, or an object is
  // named twice. On these, `done` is not called. After OK, `done` is called; if the write fails,
  // new objects are as if they had never been, and changes of old ones stay in memory, are read
  // back from there, and are written once that works again (`done` is called with the failure).
  Status Write(std::vector<ObjectChange> changes, DoneFn done);

  // kNotFound: there is none of this name (or it is hidden); kDataLoss, with the reason: its record
  // is damaged, and from now on lost; kUnavailable: it cannot be read now, because of the disk or
  // of damage to the database's files. Reads the disk.
  StatusOr<Object> Read(const ObjectName& name, bool hidden_too = false);

  // Removes the object, or hides it while it has successors, and calls `done` when that is in the
  // log. kNotFound, or kUnavailable while the objects are not read yet, without a call of `done`:
  // there is none.
  Status Delete(const ObjectName& name, DoneFn done);

  // The objects of a tenant, or of all (null), the oldest first; hidden ones are left out.
  std::vector<ObjectInfo> List(const std::string* tenant) const;
  // Those that are open, the oldest first.
  std::vector<ObjectInfo> Opened() const;
  // Whether the objects are read. Until then, on a full disk, everything is kUnavailable.
  bool loaded() const;

  ObjectStoreStats stats() const;

 private:
  using EntryPtr = ObjectIndex::EntryPtr;

  // A call of Write or Delete whose outcome is not known yet.
  struct Group {
    size_t changes = 0;
    bool fresh = false;  // It changes objects that were never written.
    DoneFn done;
  };
  // A change that Write is about to make.
  struct Staged {
    ObjectChange change;
    EntryPtr entry;
    ObjectHead head;
    ObjectRecords records;
  };
  // What the running write writes of an entry.
  struct Written {
    EntryPtr entry;
    uint64_t version = 0;
    bool closed = false;
    ObjectRecords records;
  };
  // An entry as it is when Read looks.
  struct Seen {
    EntryPtr entry;
    ObjectHead head;
    uint64_t version = 0;
    ObjectRecords unwritten;
  };

  ObjectStore(const SessionOptions& options, StateWriter* writer, std::function<int64_t()> unix_ms);
  // StateWriter::Client.
  Status Load(const StateDb& db) override;
  bool Collect(std::vector<StateChange>* changes) override;
  void Settle(const Status& status) override;

  // Why nothing can be written or read, without paths: clients see it. The log has it whole.
  static std::string ReasonOf(const Status& failure);
  static constexpr const char* kFilesDamaged = "the files of what is stored are damaged";

  std::vector<ObjectInfo> ListIf(const std::string* tenant, bool open_only) const;
  EntryPtr LoadedEntry(std::string_view key, std::string_view record) const;
  // Not OK: as Read, where the head cannot be read.
  Status LoadLate(const ObjectName& name, const std::string& key);
  StatusOr<std::string> ReadPart(std::string_view prefix, const Seen& seen, const ObjectPart& part,
                                 const std::shared_ptr<const std::string>& unwritten) const;

  // REQUIRE that mu_ is held.
  void AddLoaded(std::vector<EntryPtr> entries);
  Status Missing(const ObjectName& name) const;
  void FoundDamage(const Status& status);
  Status Unavailable() const;  // OK: something can be written.
  Status Stage(std::vector<Staged>* all, size_t i, int64_t now);
  Status StageNew(std::vector<Staged>* all, size_t i, int64_t now);
  StatusOr<EntryPtr> FindParent(const std::vector<Staged>& all, size_t i) const;
  StatusOr<Seen> Look(const ObjectName& name, const std::string& key, bool hidden_too) const;

  StateWriter* const writer_;
  const StateDb& db_;  // The writer's.
  const int64_t ttl_ms_;
  const std::function<int64_t()> unix_ms_;

  mutable std::mutex mu_;  // Guards the fields below, and all entries.
  ObjectIndex index_;
  std::list<Group> groups_;
  bool loaded_ = false;
  bool incomplete_ = false;  // Some heads could not be loaded.
  // The database's files were found damaged. Nothing new is stored from then on: it would be
  // rejected in the middle of its way, when the database meets the damage again.
  bool damaged_ = false;
  uint64_t lost_ = 0;
  uint64_t failed_writes_ = 0;

  // Used by the writer's thread only: what the running write writes.
  std::list<Group> settling_;
  std::list<EntryPtr> writing_;  // All entries of written_. The index's, so under mu_.
  std::vector<Written> written_;
};

// For clients: why an object is not there, or can only be deleted.
Status NoObject(const ObjectName& name);
Status ObjectLost(const ObjectEntry& entry);
// "response" or "conversation".
const char* KindName(ObjectKind kind);

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_OBJECT_STORE_H_
