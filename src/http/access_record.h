// What the log says of one HTTP request, the line itself, and the names of requests.
#ifndef ROPEWAY_HTTP_ACCESS_RECORD_H_
#define ROPEWAY_HTTP_ACCESS_RECORD_H_

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ropeway::http {

// One request and its outcome. It has no member for the text of prompts or answers, nor for keys.
// What is empty or absent is not shown. The texts may be the client's: they are bounded and escaped
// where they are shown.
struct AccessRecord {
  std::string id;         // The answer's x-request-id.
  std::string own_id;     // The server's, which is in an answer's body, where `id` is the client's.
  std::string answer_id;  // By which a stored answer can be asked for.
  std::string key;        // The API key's name.
  std::string priority;   // The class that served it.
  std::string address;    // The client's.
  std::string method;
  std::string route;  // As the table of routes has it, not as the client wrote it.
  int status = 0;     // 499: the client left before its answer was complete.
  std::string model;
  std::string code;   // The error's.
  std::string field;  // The field at fault.

  // The tokens of all choices of a generation together, as usage counts them.
  struct Tokens {
    int64_t in = 0;
    int64_t cached = 0;
    int64_t out = 0;
  };
  std::optional<Tokens> tokens;
  // In milliseconds: from the request's arrival to its first step and to its first token, of the
  // first choice; and to the end of its answer.
  std::optional<double> queue_ms;
  std::optional<double> ttft_ms;
  double total_ms = 0.0;
};

// One line of name=value pairs; a value with more than plain characters is in quotes.
std::string AccessText(const AccessRecord& record);

// The same as members of a JSON object, without its braces.
std::string AccessJson(const AccessRecord& record);

// A client's name for its request where it can be used: 1 to 128 of [A-Za-z0-9._-]; else "".
std::string_view UsableRequestId(std::string_view given);

// To where base::Log writes when it is made, at level info. Thread-safe.
class AccessLog {
 public:
  AccessLog();

  // Whether a line would be written at all.
  bool on() const { return logger_->should_log(spdlog::level::info); }
  void Write(const AccessRecord& record) noexcept;

 private:
  const std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_ACCESS_RECORD_H_
