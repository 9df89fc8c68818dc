#include "cli/run_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

namespace ropeway::cli {
namespace {

// More varied than greedy, steadier than the raw distribution: where neither the flags nor the
// model say.
constexpr float kTemperature = 0.7F;

// No prompt of a file is rejected because it waits long.
constexpr std::chrono::hours kMaxWait(1000);

}  // namespace

RunFlags::RunFlags() {
  engine.log.level = "warn";
  engine.options.queue.max_wait = kMaxWait;
  request.sampling.temperature = kTemperature;
}

std::filesystem::path StateFolder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base =
      state != nullptr && *state != '\0'
          ? state
          : std::filesystem::path(home ? home : ".") / ".local" / "state";
  return base / "ropeway";
}

StatusOr<std::string> SessionFolder(const std::string& named) {
  const auto bad = [&](const char* why) {
    return InvalidArgument(
        fmt::format("--session: expected a directory or a name, but '{}' {}", named, why));
  };
  std::error_code error;
  const bool exists = std::filesystem::exists(named, error);
  if (exists && !std::filesystem::is_directory(named, error)) return bad("is a file");
  if (exists || named.find('/') != std::string::npos || named.ends_with(".session")) return named;
  const bool printable =
      std::all_of(named.begin(), named.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!printable || named.size() > 128) {
    return bad("is not a name of 1 to 128 ASCII characters without spaces");
  }
  if (named.front() == '.' || named.front() == '-') return bad("begins with a dot or a dash");
  return (StateFolder() / named).string();
}

Request MakeRequest(const RunFlags& flags) {
  Request request = flags.request;
  if (!flags.session.empty()) request.session_id = kRunSession;
  return request;
}

void SetPrompt(const RunFlags& flags, bool begins, std::string text, Request* request) {
  if (flags.raw) {
    request->prompt = std::move(text);
    return;
  }
  Chat chat;
  if (begins && !flags.system.empty()) chat.messages.push_back({"system", flags.system});
  chat.messages.push_back({"user", std::move(text)});
  request->prompt = std::move(chat);
}

}  // namespace ropeway::cli
