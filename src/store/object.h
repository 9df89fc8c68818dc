// What clients store by id and fetch later, as values.
#ifndef ROPEWAY_STORE_OBJECT_H_
#define ROPEWAY_STORE_OBJECT_H_

#include <cstdint>
#include <optional>
#include <string>

namespace ropeway::store {

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
  bool lost = false;  // Its record was found damaged: it can only be deleted. It is not open.
};

struct ObjectStoreStats {
  uint64_t objects = 0;  // Hidden ones too.
  uint64_t bytes = 0;
  uint64_t expired = 0;        // Since the start.
  uint64_t lost = 0;           // Found damaged since the start.
  uint64_t failed_writes = 0;  // Changes since the start that were not written at once.
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_OBJECT_H_
