// How many files and sockets this process may have open.
#ifndef ROPEWAY_BASE_DESCRIPTOR_LIMIT_H_
#define ROPEWAY_BASE_DESCRIPTOR_LIMIT_H_

namespace ropeway {

// Raises the soft limit on descriptors (RLIMIT_NOFILE; usually 1,024) to the hard one: each
// connection takes a descriptor. Without effect where the system says no. Any thread.
void RaiseDescriptorLimit();

}  // namespace ropeway

#endif  // ROPEWAY_BASE_DESCRIPTOR_LIMIT_H_
