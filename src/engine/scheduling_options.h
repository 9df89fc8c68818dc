// From EngineOptions to what the scheduler and its policy are set up with.
#ifndef ROPEWAY_ENGINE_SCHEDULING_OPTIONS_H_
#define ROPEWAY_ENGINE_SCHEDULING_OPTIONS_H_

#include <memory>

#include "engine/engine_core.h"
#include "policy/scheduling_policy.h"
#include "ropeway/options.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"

namespace ropeway {

// kInvalidArgument with the field at fault. Who has much to do before LlmEngine::Create asks it
// first.
Status CheckScheduling(const EngineOptions& options);

// The policy that the options name.
StatusOr<std::unique_ptr<SchedulingPolicy>> PolicyOf(const EngineOptions& options);

// What EngineStats says of the options: the strategy and its limits. REQUIRES:
// CheckScheduling(options) is OK.
EngineStats DescribeBatching(const EngineOptions& options);

// Sets the core's options that concern scheduling. REQUIRES: CheckScheduling(options) is OK.
void SetScheduling(const EngineOptions& options, EngineCoreOptions* core);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_SCHEDULING_OPTIONS_H_
