#include "loadgen/load_options.h"

#include <fmt/format.h>

#include <array>

namespace ropeway::loadgen {
namespace {

// Requests of all runs together: their records stay in memory.
constexpr int64_t kMaxRequests = 2'000'000;

Status Wrong(const char* flag, const std::string& what) {
  return InvalidArgument(fmt::format("--{} {}.", flag, what), flag);
}

Status CheckTogether(const BenchServeFlags& f, const GoodputLimits& goodput) {
  if (int64_t{f.num_prompts} * f.runs > kMaxRequests) {
    return Wrong("num-prompts", fmt::format("times --runs must be at most {}, but is {}",
                                            kMaxRequests, int64_t{f.num_prompts} * f.runs));
  }
  if (f.users > 0 && f.request_rate > 0) {
    return Wrong("users", "makes a closed loop and --request-rate an open one: give one of them");
  }
  const std::array sources = {std::pair("dataset", &f.dataset), std::pair("trace", &f.trace),
                              std::pair("conversations", &f.conversations)};
  const char* source = nullptr;
  for (const auto& [flag, file] : sources) {
    if (file->empty()) continue;
    if (source != nullptr) {
      return Wrong(source, fmt::format("and --{} exclude each other: both are workloads", flag));
    }
    source = flag;
  }
  if (!f.conversations.empty() && f.endpoint != "chat") {
    return Wrong("conversations", "needs --endpoint chat");
  }
  if (!f.conversations.empty() && f.request_rate > 0) {
    return Wrong("conversations", "is a closed loop, which --request-rate excludes");
  }
  if (!f.client_keys.empty() && f.trace.empty()) {
    return Wrong("client-keys", "needs --trace: a file that says which client sends what");
  }
  if (!f.stream && (goodput.ttft || goodput.tpot)) {
    return Wrong("goodput", "on ttft or tpot needs streams, which --no-stream turns off");
  }
  if (f.api_key.find_first_of("\r\n") != std::string::npos) {
    return Wrong("api-key", "must be one line");
  }
  return {};
}

}  // namespace

StatusOr<LoadOptions> CheckFlags(const BenchServeFlags& flags) {
  LoadOptions options;
  options.flags = flags;
  auto url = net::ParseBaseUrl(flags.base_url, "--base-url");
  if (!url.ok()) return url.status();
  options.url = *url;
  options.chat = flags.endpoint == "chat";
  if (flags.prompt_format != "auto") options.prompt_ids = flags.prompt_format == "ids";
  if (options.chat && options.prompt_ids.value_or(false)) {
    return Wrong("prompt-format", "ids needs --endpoint completions");
  }
  if (options.chat) options.prompt_ids = false;
  options.ignore_eos =
      flags.ignore_eos == "auto" ? flags.dataset.empty() : flags.ignore_eos == "on";
  options.priority = PriorityOf(flags.priority);
  auto goodput = ParseGoodput(flags.goodput);
  if (!goodput.ok()) return goodput.status();
  options.goodput = *goodput;
  if (Status status = CheckTogether(flags, *goodput); !status.ok()) return status;
  return options;
}

}  // namespace ropeway::loadgen
