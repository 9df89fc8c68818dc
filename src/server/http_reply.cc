#include "server/http_reply.h"

#include <fmt/format.h>

#include <ctime>
#include <iterator>

namespace ropeway {
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

// As HTTP wants it: "Sun, 06 Nov 1994 08:49:37 GMT". Not strftime, which follows the locale.
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

std::string Head(int status, std::string_view content_type, const Framing& framing) {
  return fmt::format(
      "HTTP/1.{} {} {}\r\nServer: ropeway\r\nDate: {}\r\nContent-Type: {}\r\n"
      "Connection: {}\r\n",
      framing.http_1_0 ? 0 : 1, status, Reason(status), HttpDate(), content_type,
      framing.keep_alive ? "keep-alive" : "close");
}

}  // namespace

HttpReply ErrorReply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.http_status;
  reply.body = ErrorJson(error);
  return reply;
}

std::string Serialize(const HttpReply& reply, const Framing& framing) {
  std::string out = Head(reply.status, reply.content_type, framing);
  for (const auto& [name, value] : reply.headers) out += name + ": " + value + "\r\n";
  out += fmt::format("Content-Length: {}\r\n\r\n", reply.body.size());
  if (!framing.head) out += reply.body;
  return out;
}

std::string EventStreamHead(const Framing& framing, const HttpHeaders& headers) {
  std::string out = Head(200, "text/event-stream; charset=utf-8", framing);
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

}  // namespace ropeway
