// The bodies of Ollama's POST /api/chat and POST /api/generate.
#ifndef ROPEWAY_API_OLLAMA_REQUEST_H_
#define ROPEWAY_API_OLLAMA_REQUEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "api/fields.h"
#include "api/openai_format.h"
#include "ropeway/status.h"

namespace ropeway::api {

// A body of either path. Without messages, or a prompt, it has no prompts: clients ask so for a
// model to be loaded.
struct OllamaBody : OpenAiBody {
  OllamaBody() { stream = true; }

  // Of /api/generate.
  std::string prompt;
  std::string system;       // "": none.
  bool raw = false;         // The prompt is the text as it is, without the chat template.
  bool looks_back = false;  // Penalties are to look at a part of the text (repeat_last_n).
};

// All bodies that the readers of these tables are given are OllamaBodies.
const FieldTable<OpenAiBody>& OllamaChatFields();
const FieldTable<OpenAiBody>& OllamaGenerateFields();

// Reads a body by one of these tables.
Status ReadOllamaBody(std::string_view text, const BodyLimits& limits,
                      const FieldTable<OpenAiBody>& table, OllamaBody* body);

// A body that names a model, of POST /api/show or /api/pull.
struct OllamaModelBody {
  std::string model;  // "": it names none.
  bool stream = true;
  std::vector<std::string> ignored;  // See ApiRequest.
  FieldReport* report = nullptr;     // While it is read.
};
std::vector<std::string> OllamaModelFields();
StatusOr<OllamaModelBody> ReadOllamaModelBody(std::string_view text, const BodyLimits& limits);

// Another name of the model that Ollama's clients call so: "NAME" and "NAME:latest" are one. "":
// there is none.
std::string OtherOllamaName(const std::string& name);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_OLLAMA_REQUEST_H_
