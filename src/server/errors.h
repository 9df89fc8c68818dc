// Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}}.
#ifndef ROPEWAY_SERVER_ERRORS_H_
#define ROPEWAY_SERVER_ERRORS_H_

#include <string>

#include "ropeway/status.h"

namespace ropeway {

struct ApiError {
  int http_status = 500;
  std::string message;
  std::string type;
  std::string param;  // "": null.
  std::string code;   // "": null.
};

// What a client is told of a failed `status`. REQUIRES: !status.ok().
ApiError ToApiError(const Status& status);

// The JSON text of one error.
std::string ErrorJson(const ApiError& error);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_ERRORS_H_
