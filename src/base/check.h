// Check: what must hold, or the process is wrong about its own state.
#ifndef ROPEWAY_BASE_CHECK_H_
#define ROPEWAY_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#include "ropeway/status.h"

namespace ropeway {

// Ends the process with the status's sentence where it is not OK. Only for bugs of Ropeway's own,
// never for anything a request, a file or a client can cause: an engine that no longer knows who
// owns which KV block could answer one user with another's text, and a crash is better than that.
inline void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "ropeway: bug: %s\n", status.message().c_str());
  std::abort();
}

}  // namespace ropeway

#endif  // ROPEWAY_BASE_CHECK_H_
