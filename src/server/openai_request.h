// OpenAI's request bodies as validated requests. Pure functions: any thread.
#ifndef ROPEWAY_SERVER_OPENAI_REQUEST_H_
#define ROPEWAY_SERVER_OPENAI_REQUEST_H_

#include <string_view>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "server/json_reader.h"

namespace ropeway {

// What a body asks for: the generation, and the form of the answer.
struct ApiRequest {
  Request request;  // `model` as given; "" where absent.
  bool chat = false;
  bool stream = false;
  bool include_usage = false;  // A last chunk with the usage; only with `stream`.
};

// The body of POST /v1/completions or, with `chat`, of POST /v1/chat/completions. The failed Status
// names the field at fault: kInvalidArgument for a malformed or unknown one, kUnimplemented for one
// of OpenAI's that would change the answer and is not supported.
StatusOr<ApiRequest> ParseApiRequest(std::string_view body, bool chat, const JsonBounds& bounds);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_OPENAI_REQUEST_H_
