// Who sent an HTTP request.
#ifndef ROPEWAY_SERVER_CALLER_H_
#define ROPEWAY_SERVER_CALLER_H_

#include <string>

#include "ropeway/request.h"

namespace ropeway {

// What the API key of a request decides about it (server_options.h); as it is where none is needed.
struct Caller {
  std::string tenant;       // The key's name; "" where none is needed.
  std::string cache_scope;  // The key's.
  Priority priority = Priority::kMedium;
  Priority priority_ceiling = Priority::kHigh;
  double weight = 1.0;
  bool admin = false;  // It sent the admin key, which has no name.
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_CALLER_H_
