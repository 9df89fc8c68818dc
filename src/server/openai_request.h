// OpenAI's request bodies as validated requests. Pure functions: any thread.
#ifndef ROPEWAY_SERVER_OPENAI_REQUEST_H_
#define ROPEWAY_SERVER_OPENAI_REQUEST_H_

#include <optional>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "server/json_reader.h"

namespace ropeway {

using Prompt = decltype(Request::prompt);

// What a body asks for: the generations, and the form of the answer.
struct ApiRequest {
  // What all choices have in common: everything but prompt and choice. `model` as given; "" where
  // absent.
  Request request;
  std::vector<Prompt> prompts;  // At least one.
  int32_t n = 1;                // Choices of each prompt.
  bool chat = false;
  bool stream = false;
  bool include_usage = false;    // A last chunk with the usage; only with `stream`.
  bool echo = false;             // The prompt's text before the completion's.
  bool prompt_logprobs = false;  // vLLM's field of the answer.
  // The class that it asks for, and by which field; absent: by none. `request` has not got it yet.
  std::optional<Priority> priority;
  const char* priority_field = "priority";
  bool service_tier = false;  // The answer says which one served it.

  size_t choices() const { return prompts.size() * static_cast<size_t>(n); }
};

// The body of POST /v1/completions or, with `chat`, of POST /v1/chat/completions. The failed Status
// names the field at fault: kInvalidArgument for a malformed or unknown one, or for more than
// `max_choices` choices; kUnimplemented for one of OpenAI's or vLLM's that would change the answer
// and is not supported.
StatusOr<ApiRequest> ParseApiRequest(std::string_view body, bool chat, const JsonBounds& bounds,
                                     int max_choices = 128);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_OPENAI_REQUEST_H_
