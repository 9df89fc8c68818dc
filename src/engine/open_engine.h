// Opens the model file and builds a running engine from the options.
#ifndef ROPEWAY_ENGINE_OPEN_ENGINE_H_
#define ROPEWAY_ENGINE_OPEN_ENGINE_H_

#include <memory>

#include "engine/llm_engine.h"
#include "engine/prompt_encoder.h"
#include "ropeway/options.h"
#include "ropeway/status.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// Loads the model and starts the engine. `clock` and `random` must outlive it; `random` is called
// by one thread at a time. On failure, one sentence names the file's or option's field at fault.
StatusOr<std::unique_ptr<LlmEngine>> OpenEngine(const EngineOptions& options,
                                                const base::Clock* clock, base::Random* random);

// An engine with what it needs of its process, as a backend of a gateway: requests may call its
// model anything, and its digest is known, by which streams go on elsewhere. See OpenLocalBackend.
StatusOr<std::shared_ptr<LlmEngine>> OpenLocalEngine(EngineOptions options);

struct RenderOptions {
  bool parse_special = false;  // Control tokens are recognised also in what messages say.
  bool generic_tools = false;  // Tools are shown by answer::WithoutTools.
};

// Renders chats by `chat_template`, for a model with `tokenizer`.
ChatRenderer RenderWith(tokenizer::ChatTemplate chat_template,
                        const tokenizer::Tokenizer& tokenizer, const RenderOptions& options);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_OPEN_ENGINE_H_
