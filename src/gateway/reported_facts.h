// What a backend says about itself, as it enters the gateway: bounded, and fit to be shown.
#ifndef ROPEWAY_GATEWAY_REPORTED_FACTS_H_
#define ROPEWAY_GATEWAY_REPORTED_FACTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ropeway/backend.h"
#include "ropeway/status.h"

namespace ropeway::gateway {

// The most names of models that are taken from one backend, and the most bytes of a name.
inline constexpr size_t kMostModelNames = 1024;
inline constexpr size_t kMostModelNameBytes = 512;
// All of them together: each request and each GET /v1/models looks at them.
inline constexpr size_t kMostModelNamesBytes = size_t{64} << 10;

// Bounds what a backend said. Drops names that are given twice, empty, too long, not printable
// (base::PrintableText) or beyond the bounds above. Drops a digest, numerics or limits that are too
// long to be compared; the backend cannot resume then. Makes the reason printable and short.
// Returns what it dropped that a person should know; "": nothing. O(n log n).
std::string BoundFacts(BackendFacts* facts);

// The status of a failed probe, with its message made printable and short.
Status ShownFailure(const Status& status);

// The names that all of `lists` have, except for those lists that are empty; in the order of the
// first one. O(n log n).
std::vector<std::string> CommonNames(const std::vector<const std::vector<std::string>*>& lists);

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_REPORTED_FACTS_H_
