#include "bench/load_options.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace ropeway {
namespace {

Status Wrong(const char* flag, const std::string& what) {
  return InvalidArgument(fmt::format("--{} {}.", flag, what), flag);
}

// Requests of all runs together: their records stay in memory.
constexpr int64_t kMaxRequests = 2'000'000;

Status CheckNumbers(const BenchServeFlags& f) {
  struct Bound {
    const char* flag;
    double value, low, high;
  };
  const std::array bounds = {
      Bound{"users", static_cast<double>(f.users), 0, 10'000},
      Bound{"max-concurrency", static_cast<double>(f.max_concurrency), 0, 10'000},
      Bound{"request-rate", f.request_rate, 0, 100'000},
      Bound{"num-prompts", static_cast<double>(f.num_prompts), 1, 1'000'000},
      Bound{"runs", static_cast<double>(f.runs), 1, 1'000},
      Bound{"warmup", static_cast<double>(f.warmup), 0, 1'000'000},
      Bound{"input-tokens", static_cast<double>(f.input_tokens), 1, 1'000'000},
      Bound{"output-tokens", static_cast<double>(f.output_tokens), 1, 1'000'000},
      Bound{"trace-speed", f.trace_speed, 1e-6, 1e6},
      Bound{"max-request-tokens", static_cast<double>(f.max_request_tokens), 0, 100'000'000},
      Bound{"temperature", f.temperature, 0, 2},
      Bound{"timeout", f.timeout, 0.001, 86'400},
  };
  for (const Bound& b : bounds) {
    if (!(b.value >= b.low && b.value <= b.high)) {  // NaN fails this too.
      return Wrong(b.flag, fmt::format("must be {} to {}, but is {}", b.low, b.high, b.value));
    }
  }
  if (int64_t{f.num_prompts} * f.runs > kMaxRequests) {
    return Wrong("num-prompts", fmt::format("times --runs must be at most {}, but is {}",
                                            kMaxRequests, int64_t{f.num_prompts} * f.runs));
  }
  return {};
}

Status CheckTogether(const BenchServeFlags& f, const GoodputLimits& goodput) {
  if (f.users > 0 && f.request_rate > 0) {
    return Wrong("users", "makes a closed loop and --request-rate an open one: give one of them");
  }
  if (!f.dataset.empty() && !f.trace.empty()) {
    return Wrong("dataset", "and --trace exclude each other: both say what to ask");
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
  auto url = ParseBaseUrl(flags.base_url, "--base-url");
  if (!url.ok()) return url.status();
  options.url = *url;
  if (Status status = CheckNumbers(flags); !status.ok()) return status;

  if (flags.endpoint != "completions" && flags.endpoint != "chat") {
    return Wrong("endpoint",
                 fmt::format("must be completions or chat, but is '{}'", flags.endpoint));
  }
  options.chat = flags.endpoint == "chat";
  if (flags.prompt_format != "auto" && flags.prompt_format != "ids" &&
      flags.prompt_format != "text") {
    return Wrong("prompt-format",
                 fmt::format("must be auto, ids or text, but is '{}'", flags.prompt_format));
  }
  if (flags.prompt_format != "auto") options.prompt_ids = flags.prompt_format == "ids";
  if (options.chat && options.prompt_ids.value_or(false)) {
    return Wrong("prompt-format", "ids needs --endpoint completions");
  }
  if (options.chat) options.prompt_ids = false;
  if (flags.ignore_eos != "auto" && flags.ignore_eos != "on" && flags.ignore_eos != "off") {
    return Wrong("ignore-eos",
                 fmt::format("must be auto, on or off, but is '{}'", flags.ignore_eos));
  }
  options.ignore_eos =
      flags.ignore_eos == "auto" ? flags.dataset.empty() : flags.ignore_eos == "on";

  for (const Priority priority : {Priority::kHigh, Priority::kMedium, Priority::kLow}) {
    if (flags.priority == PriorityName(priority)) options.priority = priority;
  }
  if (!flags.priority.empty() && !options.priority) {
    return Wrong("priority",
                 fmt::format("must be high, medium or low, but is '{}'", flags.priority));
  }

  auto goodput = ParseGoodput(flags.goodput);
  if (!goodput.ok()) return goodput.status();
  options.goodput = *goodput;
  if (Status status = CheckTogether(flags, *goodput); !status.ok()) return status;
  return options;
}

}  // namespace ropeway
