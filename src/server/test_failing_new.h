// Lets chosen allocations of this program fail.
#ifndef ROPEWAY_SERVER_TEST_FAILING_NEW_H_
#define ROPEWAY_SERVER_TEST_FAILING_NEW_H_

#include <cstddef>

namespace ropeway::server {

// Makes the `n`-th allocation from now (from 1) of at least `least_bytes`, on threads whose name
// begins with `thread_name`, throw std::bad_alloc; those before and after succeed. `thread_name`
// must outlive the countdown. n = 0: none. Returns how many such allocations there were since the
// last call.
int FailAllocation(const char* thread_name, int n, std::size_t least_bytes = 0);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TEST_FAILING_NEW_H_
