// The dialects of the generation API. Each is made in a file of its own, and has a row in
// ServerRoutes (server/routes.cc).
#ifndef ROPEWAY_API_DIALECTS_H_
#define ROPEWAY_API_DIALECTS_H_

#include <memory>

#include "api/api_format.h"

namespace ropeway::api {

// OpenAI's: POST /v1/completions, POST /v1/chat/completions and POST /v1/responses, which is an
// ItemFormat.
std::unique_ptr<ApiFormat> MakeOpenAiCompletions();
std::unique_ptr<ApiFormat> MakeOpenAiChat();
std::unique_ptr<ApiFormat> MakeOpenAiResponses();

// llama.cpp's own: POST /completion.
std::unique_ptr<ApiFormat> MakeLlamaCppCompletion();
// Anthropic's: POST /v1/messages and POST /v1/messages/count_tokens. The whole answer of the second
// has the tokens of the prompt, and nothing is to be generated for it.
std::unique_ptr<ApiFormat> MakeAnthropicMessages();
std::unique_ptr<ApiFormat> MakeAnthropicCount();
// Ollama's: POST /api/chat and POST /api/generate.
std::unique_ptr<ApiFormat> MakeOllamaChat();
std::unique_ptr<ApiFormat> MakeOllamaGenerate();
// Embeddings: OpenAI's POST /v1/embeddings, Ollama's POST /api/embed and, older, /api/embeddings,
// and llama-server's POST /embedding.
std::unique_ptr<ApiFormat> MakeOpenAiEmbeddings();
std::unique_ptr<ApiFormat> MakeOllamaEmbed();
std::unique_ptr<ApiFormat> MakeOllamaOldEmbeddings();
std::unique_ptr<ApiFormat> MakeLlamaEmbedding();

}  // namespace ropeway::api

#endif  // ROPEWAY_API_DIALECTS_H_
