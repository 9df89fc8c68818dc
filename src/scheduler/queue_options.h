// What the options of a queue mean, at an engine and at a gateway.
#ifndef ROPEWAY_SCHEDULER_QUEUE_OPTIONS_H_
#define ROPEWAY_SCHEDULER_QUEUE_OPTIONS_H_

#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::scheduler {

// InvalidArgument with the field at fault.
Status CheckQueueOptions(const QueueOptions& options);

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_QUEUE_OPTIONS_H_
