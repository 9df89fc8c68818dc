// What the options of a queue mean, at an engine and at a gateway.
#ifndef ROPEWAY_SCHEDULER_QUEUE_OPTIONS_H_
#define ROPEWAY_SCHEDULER_QUEUE_OPTIONS_H_

#include "ropeway/options.h"
#include "ropeway/status.h"
#include "scheduler/queue_load.h"

namespace ropeway::scheduler {

// InvalidArgument with the field at fault.
Status CheckQueueOptions(const QueueOptions& options);

// The policy's first key is the class. If the class only breaks another policy's ties, it tells
// little about waits.
bool HasClasses(const QueueOptions& options);

// The classes' shares, for predicted waits; 0: none.
ClassParts ClassPartsOf(const QueueOptions& options);

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_QUEUE_OPTIONS_H_
