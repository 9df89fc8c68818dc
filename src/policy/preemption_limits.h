// What keeps preemption from going round in circles.
#ifndef ROPEWAY_POLICY_PREEMPTION_LIMITS_H_
#define ROPEWAY_POLICY_PREEMPTION_LIMITS_H_

#include <cstdint>

namespace ropeway {

// A sequence that was preempted so often gives way to nobody any more, unless memory is short and
// all the others are at this number too. Each preemption costs it at least a turn in the queue;
// eight of them are more than a burst of urgent requests causes, and few enough to be an end.
inline constexpr int32_t kMaxPreemptions = 8;

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_PREEMPTION_LIMITS_H_
