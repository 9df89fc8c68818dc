// The three records of an object: its head, its fixed part and its state.
#ifndef ROPEWAY_STORE_OBJECT_RECORD_H_
#define ROPEWAY_STORE_OBJECT_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ropeway/status.h"
#include "store/object.h"

namespace ropeway::store {

// The records' keys are these, each before the object's. No session's key begins with them.
inline constexpr std::string_view kObjectHead = "oh";
inline constexpr std::string_view kObjectFixed = "of";
inline constexpr std::string_view kObjectState = "os";

// An object's key in the store, unique per name.
std::string ObjectKey(const ObjectName& name);
// The database's key of one of its records.
std::string ObjectDbKey(std::string_view prefix, const std::string& key);
// The name of a key; false if `key` is not one.
bool ParseObjectKey(std::string_view key, ObjectName* name);

// A part's record, by its size and checksum: they bind it to the head.
struct ObjectPart {
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};
ObjectPart PartOf(std::string_view record);

// What is known of an object without its parts, small enough to be read for all objects at start.
struct ObjectHead {
  uint64_t order = 0;      // Of its creation, among all objects of the store.
  int64_t created_ms = 0;  // Unix time.
  int64_t expires_ms = 0;  // Unix time; no meaning while it is open.
  bool open = false;
  bool hidden = false;  // Deleted or expired, but an ancestor.
  std::string parent;   // An id; "": none.
  ObjectPart fixed;
  ObjectPart state;
};

// All contain `key`, which detects a record under another object's key. The results are sealed
// (RecordWriter).
std::string PackObjectHead(const std::string& key, const ObjectHead& head);
// `prefix`: kObjectFixed or kObjectState.
std::string PackObjectPart(std::string_view prefix, const std::string& key, std::string_view text);

// kDataLoss, with the reason, for a record that is torn, changed, another object's or of an unknown
// version, or not the one that the head has as `part`.
StatusOr<ObjectHead> UnpackObjectHead(const std::string& key, std::string_view record);
StatusOr<std::string> UnpackObjectPart(std::string_view prefix, const std::string& key,
                                       const ObjectPart& part, std::string_view record);

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_OBJECT_RECORD_H_
