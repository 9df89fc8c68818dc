// Errors as the API reports them.
#ifndef ROPEWAY_API_API_ERROR_H_
#define ROPEWAY_API_API_ERROR_H_

#include <string>

#include "http/http_error.h"
#include "ropeway/status.h"

namespace ropeway::api {

// An error as the API reports it, in OpenAI's terms. A dialect may write it in another shape
// (ApiFormat::ErrorBody).
using ApiError = http::HttpError;

// Maps a failed status to what a client is told. REQUIRES: !status.ok().
ApiError ToApiError(const Status& status);

// {"error": {"message", "type", "param", "code"}} as JSON text.
std::string ErrorJson(const ApiError& error);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_API_ERROR_H_
