// Kinds of requests in chosen parts.
#ifndef ROPEWAY_BENCH_DEAL_H_
#define ROPEWAY_BENCH_DEAL_H_

#include <cstdint>
#include <vector>

namespace ropeway {

// The kind, 0, 1, ..., of each of `count` requests: of each kind as many as `shares` says (relative
// to their sum; rounded so that all are `count`), in an order that is a function of `seed` alone.
// REQUIRES: shares of at least 0, of which one is above.
std::vector<int> DealKinds(uint64_t seed, int count, const std::vector<double>& shares);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_DEAL_H_
