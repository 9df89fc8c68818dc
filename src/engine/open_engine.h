// Opens the model file and builds a running engine from the options.
#ifndef ROPEWAY_ENGINE_OPEN_ENGINE_H_
#define ROPEWAY_ENGINE_OPEN_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

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

// Renders chats by `chat_template`, for a model with `tokenizer`. What the messages say is quoted,
// so that no control token is recognised in it, unless `parse_special`.
ChatRenderer RenderWith(tokenizer::ChatTemplate chat_template,
                        const tokenizer::Tokenizer& tokenizer, bool parse_special);

// The KV pool's default size: a quarter of `available_bytes` (0: unknown, taken as 1 GiB), at most
// 4 GiB, at most what max_num_seqs sequences of max_model_len tokens can fill, at least one block.
// `windows`: of the groups of layers that have blocks of their own (KvWindows).
int64_t DefaultKvCacheBytes(int64_t available_bytes, int max_num_seqs, int32_t max_model_len,
                            size_t block_bytes, const std::vector<int32_t>& windows = {0});

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_OPEN_ENGINE_H_
