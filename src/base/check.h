// Check: an invariant of the process's own state.
#ifndef ROPEWAY_BASE_CHECK_H_
#define ROPEWAY_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#include "ropeway/status.h"

namespace ropeway::base {

// Aborts the process with the status's message if it is not OK. Only for bugs of Ropeway itself,
// never for anything that a request, a file or a client can cause: an engine with inconsistent
// block tables could answer one user with another's text, and a crash is better than that.
inline void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "ropeway: bug: %s\n", status.message().c_str());
  std::abort();
}

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_CHECK_H_
