// Whether the engine core takes a request.
#ifndef ROPEWAY_ENGINE_ADMISSION_H_
#define ROPEWAY_ENGINE_ADMISSION_H_

#include <cstdint>

#include "engine/core_request.h"
#include "engine/engine_options.h"
#include "ropeway/status.h"
#include "scheduler/scheduler.h"

namespace ropeway {

// kInvalidArgument, with the field at fault, for a request that can never fit.
Status CheckFits(const CoreRequest& request, int32_t max_model_len);

// kResourceExhausted where too many prompt tokens wait already, or where the request would wait
// longer than max_wait; then it says when to come again.
Status CheckQueue(const CoreRequest& request, const EngineCoreOptions& options,
                  const Scheduler& scheduler);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_ADMISSION_H_
