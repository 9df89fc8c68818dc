// What a request takes in memory.
#ifndef ROPEWAY_ENGINE_REQUEST_BYTES_H_
#define ROPEWAY_ENGINE_REQUEST_BYTES_H_

#include <cstddef>

#include "ropeway/request.h"

namespace ropeway {

// As far as its sender decides: its texts, ids and lists.
size_t BytesOf(const Request& request);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_REQUEST_BYTES_H_
