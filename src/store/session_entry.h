// A session as the store holds it in memory.
#ifndef ROPEWAY_STORE_SESSION_ENTRY_H_
#define ROPEWAY_STORE_SESSION_ENTRY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ropeway/status.h"
#include "store/session.h"

namespace ropeway {

// The two records of one session.
struct SessionRecords {
  std::string head;
  std::string state;
};

// All but the names is guarded by the store's mutex.
struct SessionEntry {
  std::string tenant;
  std::string id;
  std::string key;
  SessionHead head;         // Of the last completed turn.
  uint64_t head_bytes = 0;  // Of its record.
  uint64_t turn = 0;        // The number of the turn under way, or being written; 0: none.
  bool closed = false;      // No longer in the index.
  Status lost;              // Not OK: why it takes no more turns.
  // The last turn where it could not be written: the database has an older one, or none.
  std::shared_ptr<const SessionRecords> unwritten;

  // It has a completed turn, or had one before it was lost; else its first is under way.
  bool is_kept() const { return head.turns > 0 || !lost.ok(); }
  uint64_t bytes() const {
    return is_kept() ? head_bytes + head.state_bytes + 2 * (key.size() + 1) : 0;
  }
};

}  // namespace ropeway

#endif  // ROPEWAY_STORE_SESSION_ENTRY_H_
