// Whether the engine core accepts a request.
#ifndef ROPEWAY_ENGINE_ADMISSION_H_
#define ROPEWAY_ENGINE_ADMISSION_H_

#include <cstdint>

#include "engine/engine_core.h"
#include "engine/engine_options.h"
#include "ropeway/status.h"
#include "scheduler/scheduler.h"

namespace ropeway::engine {

// InvalidArgument, with the field at fault, for a request that can never fit.
Status CheckFits(const core::CoreRequest& request, int32_t max_model_len);

// ResourceExhausted if too many prompt tokens wait already, or if the request would wait longer
// than max_wait; the status says when to retry then.
Status CheckQueue(const core::CoreRequest& request, const EngineCoreOptions& options,
                  const scheduler::Scheduler& scheduler);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_ADMISSION_H_
