// What clients store by id and fetch later, responses and conversations: on disk, within bounds,
// each for its time.
#ifndef ROPEWAY_STORE_OBJECT_STORE_H_
#define ROPEWAY_STORE_OBJECT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::store {

class StateWriter;

enum class ObjectKind : uint8_t { kResponse = 1, kConversation = 2 };

// Each tenant has its own objects: the same id of two tenants names two.
struct ObjectName {
  ObjectKind kind = ObjectKind::kResponse;
  std::string tenant;
  std::string id;

  bool operator==(const ObjectName&) const = default;
};

// What an object becomes.
struct ObjectChange {
  ObjectName name;
  // Set: the object is new, and this part of it never changes. Absent: it exists.
  std::optional<std::string> fixed;
  std::string state;  // The part that later changes replace.
  // With `fixed`: the id of a response of the same tenant that comes before this one, and is kept
  // as long as this one; "": none.
  std::string parent;
  // It is not complete: Open() lists it after a restart, and it does not expire.
  bool open = false;
};

// An object's two parts, as they were last changed.
struct Object {
  std::string fixed;
  std::string state;
  std::string parent;
  int64_t created_ms = 0;  // Unix time.
};

struct ObjectInfo {
  ObjectName name;
  int64_t created_ms = 0;  // Unix time.
  int64_t expires_ms = 0;  // Unix time: SessionOptions::ttl after the last change.
  uint64_t bytes = 0;      // Of its records with their keys.
  bool open = false;
  bool lost = false;  // Its record was found damaged: it can only be deleted.
};

struct ObjectStoreStats {
  uint64_t objects = 0;  // Hidden ones too.
  uint64_t bytes = 0;
  uint64_t expired = 0;        // Since the start.
  uint64_t lost = 0;           // Found damaged since the start.
  uint64_t failed_writes = 0;  // Changes since the start that were not written at once.
};

// What is stored is never evicted: new objects beyond a bound are rejected. SessionOptions has the
// bounds; tenants share both, the count and the bytes, by a base::SharedBudget each. Objects go
// when they are deleted, or expire.
//
// A response that has successors is only hidden when it is deleted or expires: Read finds it as an
// ancestor alone (`hidden_too`). It goes with the last of them.
//
// Thread rule: every method from any thread.
class ObjectStore {
 public:
  // Called once, on the writer's thread, when the changes are in the log, or the reason why not;
  // must not block.
  using DoneFn = std::function<void(const Status&)>;

  // Reads the heads of all objects. Damaged records become lost objects. `writer` must outlive it.
  static StatusOr<std::unique_ptr<ObjectStore>> Open(const SessionOptions& options,
                                                     StateWriter* writer);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // OK if a new object of about so many bytes would be accepted now. kResourceExhausted: the
  // tenant's budget is full, and the message names it; kUnavailable: the last write failed (a full
  // disk) and none has succeeded since. Does not access the disk.
  Status CheckRoom(const std::string& tenant, uint64_t bytes) const;

  // Makes all changes together, or none. New objects count against their tenant's budget
  // (kResourceExhausted); changes of old ones are always taken. kUnavailable: as CheckRoom, for new
  // objects. kNotFound: an object that is to change was deleted; `parent` is not there.
  // kInvalidArgument: an id that exists is new. On these, `done` is not called. After OK, `done` is
  // called; if the write fails, new objects are as if they had never been, and changes of old ones
  // stay in memory, are read back from there, and are written once that works again (`done` is
  // called with the failure).
  Status Write(std::vector<ObjectChange> changes, DoneFn done);

  // kNotFound: there is none of this name (or it is hidden); kDataLoss, with the reason: damaged,
  // and from now on lost; kUnavailable: it cannot be read now. Reads the disk.
  StatusOr<Object> Read(const ObjectName& name, bool hidden_too = false);

  // Removes the object, or hides it while it has successors, and calls `done` when that is in the
  // log. kNotFound, without a call of `done`: there is none.
  Status Delete(const ObjectName& name, DoneFn done);

  // The objects of a tenant, or of all (null), the oldest first; hidden ones are left out.
  std::vector<ObjectInfo> List(const std::string* tenant) const;
  // Those that are open, the oldest first.
  std::vector<ObjectInfo> Opened() const;

  ObjectStoreStats stats() const;

 private:
  class Impl;
  explicit ObjectStore(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_OBJECT_STORE_H_
