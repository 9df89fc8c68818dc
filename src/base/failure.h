// Statuses for when memory may be short: nothing here throws.
#ifndef ROPEWAY_BASE_FAILURE_H_
#define ROPEWAY_BASE_FAILURE_H_

#include <chrono>
#include <new>
#include <thread>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::base {

// kResourceExhausted, in few enough bytes to need no memory itself.
Status OutOfMemory() noexcept;

// The status; without memory for the sentence, with a short one.
Status MakeStatus(StatusCode code, const char* message, const char* field = "") noexcept;
Status CopyStatus(const Status& status) noexcept;

// What the exception being handled means, with `doing` before its own words: "<doing> failed: ...".
// REQUIRES: called in a catch block.
Status CurrentFailure(const char* doing) noexcept;

// kDeadlineExceeded: a request's timeout was over.
Status RequestTimeout() noexcept;
// kCancelled.
Status RequestCancelled() noexcept;

// How the result of a request says that it ended so: OK, or why it has no whole answer.
Status StatusOfEnd(FinishReason reason) noexcept;

// Calls `fn` until it does not throw std::bad_alloc: for the few messages without which a request
// would have no end. They take about a hundred bytes; the caller waits until it gets them.
// `fn` must change nothing if it throws.
template <typename Fn>
auto RetryUntilMemory(Fn&& fn) {
  while (true) {
    try {
      return fn();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_FAILURE_H_
