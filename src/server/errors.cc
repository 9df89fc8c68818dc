#include "server/errors.h"

#include <nlohmann/json.hpp>

namespace ropeway {

ApiError ToApiError(const Status& status) {
  ApiError error;
  error.message = status.message();
  error.param = status.field();
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      error.http_status = 400;
      error.type = "invalid_request_error";
      break;
    case StatusCode::kUnimplemented:
      error.http_status = 400;
      error.type = "invalid_request_error";
      error.code = "unsupported_parameter";
      break;
    case StatusCode::kNotFound:
      error.http_status = 404;
      error.type = "invalid_request_error";
      error.code = "model_not_found";
      error.param = "model";
      break;
    case StatusCode::kResourceExhausted:
      error.http_status = 429;
      error.type = "rate_limit_error";
      error.code = "rate_limit_exceeded";
      break;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:  // Not by this client: nobody would read the answer then.
      error.http_status = 503;
      error.type = "service_unavailable_error";
      error.code = "unavailable";
      break;
    case StatusCode::kDeadlineExceeded:
      error.http_status = 408;
      error.type = "timeout_error";
      error.code = "timeout";
      break;
    case StatusCode::kOk:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      error.http_status = 500;
      error.type = "server_error";
      error.code = "internal_error";
      break;
  }
  return error;
}

std::string ErrorJson(const ApiError& error) {
  using Json = nlohmann::ordered_json;
  auto or_null = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  Json body;
  body["error"] = {{"message", error.message},
                   {"type", error.type},
                   {"param", or_null(error.param)},
                   {"code", or_null(error.code)}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ropeway
