// Whether the engine core accepts a request.
#ifndef ROPEWAY_ENGINE_ADMISSION_H_
#define ROPEWAY_ENGINE_ADMISSION_H_

#include <cstdint>

#include "engine/engine_core.h"
#include "engine/engine_options.h"
#include "ropeway/status.h"
#include "scheduler/scheduler.h"

namespace ropeway {

// InvalidArgument, with the field at fault, for a request that can never fit.
Status CheckFits(const CoreRequest& request, int32_t max_model_len);

// ResourceExhausted if too many prompt tokens wait already, or if the request would wait longer
// than max_wait; the status says when to retry then.
Status CheckQueue(const CoreRequest& request, const EngineCoreOptions& options,
                  const Scheduler& scheduler);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_ADMISSION_H_
