#include "api/ollama_answer.h"

#include <fmt/format.h>

#include <ctime>

#include "api/json.h"

namespace ropeway::api {

std::string OllamaErrorJson(const ApiError& error) {
  std::string json = "{\"error\":";
  AppendJsonString(error.message, &json);
  return json + "}";
}

std::string OllamaTime(std::chrono::system_clock::time_point time) {
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  const auto since = std::chrono::duration_cast<nanoseconds>(time.time_since_epoch());
  const auto whole = std::chrono::floor<seconds>(since);
  const std::time_t unix_time = whole.count();
  std::tm parts{};
  gmtime_r(&unix_time, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     (since - whole).count());
}

}  // namespace ropeway::api
