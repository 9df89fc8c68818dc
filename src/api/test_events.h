// The events of a stream, for tests.
#ifndef ROPEWAY_API_TEST_EVENTS_H_
#define ROPEWAY_API_TEST_EVENTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace ropeway::api {

// The "data: " payloads of an event stream's body.
inline std::vector<std::string> Events(const std::string& body) {
  std::vector<std::string> events;
  constexpr std::string_view kPrefix = "data: ";
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    std::string event = body.substr(at, end - at);
    events.push_back(event.starts_with(kPrefix) ? event.substr(kPrefix.size()) : "?" + event);
    at = end + 2;
  }
  return events;
}

}  // namespace ropeway::api

#endif  // ROPEWAY_API_TEST_EVENTS_H_
