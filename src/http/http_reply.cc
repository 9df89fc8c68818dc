#include "http/http_reply.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <exception>
#include <iterator>
#include <new>

namespace ropeway::http {
namespace {

constexpr std::pair<int, std::string_view> kReasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

std::string_view Reason(int status) {
  for (const auto& [known, reason] : kReasons) {
    if (known == status) return reason;
  }
  return "Unknown";
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

// RFC 9110, sections 15.3.5 and 15.4.5: an answer without content.
bool HasContent(int status) { return status != 204 && status != 304; }

std::string ReplyHead(int status, std::string_view content_type, const Framing& framing) {
  std::string head =
      fmt::format("HTTP/1.{} {} {}\r\nServer: ropeway\r\nDate: {}\r\nConnection: {}\r\n",
                  framing.http_1_0 ? 0 : 1, status, Reason(status), HttpDate(),
                  framing.keep_alive ? "keep-alive" : "close");
  if (!framing.request_id.empty()) {
    head += fmt::format("x-request-id: {}\r\n", framing.request_id);
  }
  if (HasContent(status)) head += fmt::format("Content-Type: {}\r\n", content_type);
  return head;
}

}  // namespace

Status StatusFromException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    spdlog::error("Out of memory while handling a request");
    return {StatusCode::kUnavailable, "The server has too little memory left for this request."};
  } catch (const std::exception& e) {
    spdlog::error("A request failed: {}", e.what());
  } catch (...) {
    spdlog::error("A request failed");
  }
  return {StatusCode::kInternal, "The server failed to handle the request."};
}

HttpReply ErrorReply(HttpError error) {
  HttpReply reply;
  reply.status = error.http_status;
  reply.error = std::move(error);
  return reply;
}

Status TooManyAnswers() {
  return {StatusCode::kUnavailable, "Your unread answers take too much memory; read them first."};
}

std::string SerializeHead(const HttpReply& reply, const Framing& framing) {
  std::string out = ReplyHead(reply.status, reply.content_type, framing);
  for (const auto& [name, value] : reply.headers) out += name + ": " + value + "\r\n";
  if (HasContent(reply.status)) out += fmt::format("Content-Length: {}\r\n", reply.body.size());
  return out + "\r\n";
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

}  // namespace ropeway::http
