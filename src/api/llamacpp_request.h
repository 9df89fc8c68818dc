// The body of POST /completion, llama.cpp's own.
#ifndef ROPEWAY_API_LLAMACPP_REQUEST_H_
#define ROPEWAY_API_LLAMACPP_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "api/fields.h"
#include "api/openai_format.h"
#include "ropeway/status.h"

namespace ropeway::api {

struct LlamaCppBody : OpenAiBody {
  LlamaCppBody() {
    shows_prompts = true;
    hides_unknown_prompts = true;
  }

  bool return_tokens = false;
  std::optional<std::vector<std::string>> samplers;  // The names of those that are used, in order.
  std::vector<std::string> response_fields;  // Paths into the answer, "a/b"; none: all of it.
};

// All bodies that the readers of this table are given are LlamaCppBodies.
const FieldTable<OpenAiBody>& LlamaCppFields();

// Reads a body.
Status ReadLlamaCppBody(std::string_view text, const BodyLimits& limits, LlamaCppBody* body);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_LLAMACPP_REQUEST_H_
