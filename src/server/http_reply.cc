#include "server/http_reply.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <exception>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>

namespace ropeway::server {
namespace {

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

// The format that HTTP requires: "Sun, 06 Nov 1994 08:49:37 GMT". strftime would follow the locale.
std::string HttpDate() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::time_t now = std::time(nullptr);
  std::tm t{};
  gmtime_r(&now, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday,
                     kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

std::string ReplyHead(int status, std::string_view content_type, const Framing& framing) {
  return fmt::format(
      "HTTP/1.{} {} {}\r\nServer: ropeway\r\nDate: {}\r\nContent-Type: {}\r\n"
      "Connection: {}\r\n",
      framing.http_1_0 ? 0 : 1, status, Reason(status), HttpDate(), content_type,
      framing.keep_alive ? "keep-alive" : "close");
}

}  // namespace

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
    case StatusCode::kCancelled:  // By the server: a client that cancels is gone.
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

Status StatusFromException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    spdlog::error("No memory for a request");
    return {StatusCode::kUnavailable, "The server has too little memory left for this request."};
  } catch (const std::exception& e) {
    spdlog::error("A request failed: {}", e.what());
  } catch (...) {
    spdlog::error("A request failed");
  }
  return {StatusCode::kInternal, "The server failed to handle the request."};
}

HttpReply ErrorReply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.http_status;
  reply.body = ErrorJson(error);
  reply.error = error;
  return reply;
}

std::string Serialize(const HttpReply& reply, const Framing& framing) {
  std::string out = ReplyHead(reply.status, reply.content_type, framing);
  for (const auto& [name, value] : reply.headers) out += name + ": " + value + "\r\n";
  out += fmt::format("Content-Length: {}\r\n\r\n", reply.body.size());
  if (!framing.head) out += reply.body;
  return out;
}

std::string StreamHead(std::string_view content_type, const Framing& framing,
                       const HttpHeaders& headers) {
  std::string out = ReplyHead(200, content_type, framing);
  out += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  for (const auto& [name, value] : headers) out += name + ": " + value + "\r\n";
  if (!framing.http_1_0) out += "Transfer-Encoding: chunked\r\n";
  out += "\r\n";
  return out;
}

void AppendChunk(std::string_view data, const Framing& framing, std::string* out) {
  if (data.empty()) return;
  if (framing.http_1_0) {
    out->append(data);
    return;
  }
  fmt::format_to(std::back_inserter(*out), "{:x}\r\n", data.size());
  out->append(data);
  out->append("\r\n");
}

void AppendLastChunk(const Framing& framing, std::string* out) {
  if (!framing.http_1_0) out->append("0\r\n\r\n");
}

}  // namespace ropeway::server
