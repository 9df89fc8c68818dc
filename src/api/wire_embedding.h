// Embeddings as servers take and send them: of one prompt, as one document.
#ifndef ROPEWAY_API_WIRE_EMBEDDING_H_
#define ROPEWAY_API_WIRE_EMBEDDING_H_

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "api/wire_format.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api::wire {

// "mean", "last" or "cls". REQUIRES: not kModel.
const char* PoolingName(Pooling pooling);

// kUnimplemented unless the request leaves the pooling to the model: for servers that take none.
Status CheckPooling(const Request& request);
// kUnimplemented: no server embeds a chat.
Status NoChatToEmbed();

// Sets the `input` of OpenAI's API.
Status WriteInput(const Request& request, nlohmann::ordered_json* body);

// Reads the answer to one prompt: `data[0].embedding` (OpenAI's), `embeddings[0]` or `embedding`
// (Ollama's), each a list of numbers or the base64 of little-endian floats, with the tokens of its
// prompt in `usage.prompt_tokens` or `prompt_eval_count`.
std::unique_ptr<WireReply> MakeEmbeddingReply();

}  // namespace ropeway::api::wire

#endif  // ROPEWAY_API_WIRE_EMBEDDING_H_
