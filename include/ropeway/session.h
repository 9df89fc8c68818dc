// Facts about the sessions of an engine or a gateway: plain values of the public API.
#ifndef ROPEWAY_SESSION_H_
#define ROPEWAY_SESSION_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace ropeway {

// One session between two of its turns.
struct SessionInfo {
  using Time = std::chrono::system_clock::time_point;

  std::string id;
  int64_t turns = 0;  // Completed and kept.
  // The history that the next turn goes on from; of a gateway as its backends counted it.
  int64_t tokens = 0;
  Time created{};
  Time last_used{};  // When its last turn ended.
  Time expires{};    // When it is closed if it is not used until then.
  bool turn_under_way = false;
  // Its last turn survives a restart: false without a state path, and where writing it failed (it
  // is tried again).
  bool durable = false;
  // Its record was found damaged: it takes no more turns, and can only be closed.
  bool lost = false;
};

}  // namespace ropeway

#endif  // ROPEWAY_SESSION_H_
