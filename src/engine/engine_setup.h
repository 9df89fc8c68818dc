// What an engine is set up with, from its options.
#ifndef ROPEWAY_ENGINE_ENGINE_SETUP_H_
#define ROPEWAY_ENGINE_ENGINE_SETUP_H_

#include <cstdint>
#include <memory>

#include "engine/engine_core.h"
#include "executor/executor.h"
#include "ropeway/options.h"
#include "ropeway/status.h"
#include "store/session_store.h"
#include "store/state_db.h"

namespace ropeway {

// kInvalidArgument where preempt_checkpoint is none of its names. CheckEngineOptions asks it; who
// has much to do before LlmEngine::Create, first.
Status CheckPreemptCheckpoint(const EngineOptions& options);

// kInvalidArgument with the option at fault, as far as it can be seen without a model.
Status CheckEngineOptions(const EngineOptions& options);

// The core's options but for `tier` and `is_end`, which are not the options' to say; max_model_len
// lowered to what the model (its context length) and the KV pool hold. REQUIRES:
// CheckEngineOptions(options) is OK.
EngineCoreOptions CoreOptionsOf(const EngineOptions& options, int32_t model_context_length,
                                const KvLayout& layout);

// The store of sessions, over `state`, or where it is null, as the options say.
StatusOr<std::unique_ptr<SessionStore>> OpenSessions(const EngineOptions& options,
                                                     std::unique_ptr<StateDb> state);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_ENGINE_SETUP_H_
