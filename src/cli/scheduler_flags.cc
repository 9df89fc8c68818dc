#include "cli/scheduler_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "flags/units.h"

namespace ropeway {
namespace {

using std::chrono::milliseconds;

constexpr char kGroup[] = "Scheduling";
constexpr milliseconds kAuto(-1);
constexpr milliseconds kLeast(1);  // A target of 0 could never be met.
constexpr int kMaxTokens = 1 << 24;

struct Preset {
  const char* name;
  milliseconds timeout;
  int size;
};
constexpr std::array kPresets = {Preset{"latency", milliseconds(10), 4},
                                 Preset{"balanced", milliseconds(50), 8},
                                 Preset{"throughput", milliseconds(100), 16}};

constexpr std::array<std::string_view, 6> kPolicies = {"fcfs",        "sjf",      "length-balance",
                                                       "cache-aware", "priority", "fair"};
constexpr size_t kMaxPolicies = 3;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

StatusOr<milliseconds> ParseTimeout(const std::string& text) {
  if (text == "auto") return kAuto;
  StatusOr<milliseconds> timeout = ParseDuration(text);
  if (timeout.ok()) return timeout;
  return InvalidArgument(
      fmt::format("expected auto, or a time with its unit, such as 50ms, not '{}'", text));
}

StatusOr<std::string> ParsePolicy(const std::string& text) {
  const std::vector<std::string> names = Split(text, '+');
  const std::set<std::string> distinct(names.begin(), names.end());
  const bool known = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return std::find(kPolicies.begin(), kPolicies.end(), name) != kPolicies.end();
  });
  if (known && names.size() <= kMaxPolicies && distinct.size() == names.size()) return text;
  return InvalidArgument(
      fmt::format("expected {}, or two or three different ones of them joined by '+', not '{}'",
                  fmt::join(kPolicies, ", "), text));
}

StatusOr<std::array<int, 3>> ParseShares(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ',');
  std::array<int, 3> shares{};
  bool good = parts.size() == shares.size();
  for (size_t i = 0; good && i < shares.size(); ++i) {
    const char* const end = parts[i].data() + parts[i].size();
    const auto [rest, error] = std::from_chars(parts[i].data(), end, shares[i]);
    good = error == std::errc() && rest == end && shares[i] >= 1 && shares[i] <= 100;
  }
  if (good && shares[0] + shares[1] + shares[2] == 100) return shares;
  return InvalidArgument(
      fmt::format("expected three whole numbers of at least 1 that add up to 100, for high, medium "
                  "and low, such as 70,20,10, not '{}'",
                  text));
}

StatusOr<int> ParseMostGenerated(const std::string& text) {
  if (text == "auto") return -1;
  int tokens = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, tokens);
  if (error == std::errc() && rest == end && tokens >= 0 && tokens <= kMaxTokens) return tokens;
  return InvalidArgument(fmt::format(
      "expected auto, or a whole number of tokens, 0 to {}, not '{}'", kMaxTokens, text));
}

StatusOr<std::array<milliseconds, 3>> ParseLimits(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ',');
  std::array<milliseconds, 3> limits{};
  bool good = parts.size() == limits.size();
  for (size_t i = 0; good && i < limits.size(); ++i) {
    const StatusOr<milliseconds> limit = ParseDuration(parts[i]);
    good = limit.ok() && *limit >= kLeast;
    if (good) limits[i] = *limit;
  }
  if (good) return limits;
  return InvalidArgument(
      fmt::format("expected three times of at least 1ms, for high, medium and low, such as "
                  "100ms,300ms,500ms, not '{}'",
                  text));
}

std::string FormatLimits(const std::array<milliseconds, 3>& limits) {
  return fmt::format("{},{},{}", FormatDuration(limits[0]), FormatDuration(limits[1]),
                     FormatDuration(limits[2]));
}

void AddBatches(CLI::App* app, BatchingFlags* flags, EngineOptions* options) {
  std::vector<std::string> presets;
  for (const Preset& preset : kPresets) presets.emplace_back(preset.name);
  AddChoice(app, "--preset", &flags->preset, presets,
            "Dynamic batches, with a timeout and a size: latency (10ms, 4), balanced (50ms, 8) or "
            "throughput (100ms, 16); flags given beside it win")
      ->default_str("")
      ->group(kGroup);
  AddOnOff(app, "--static-padding", &options->scheduler.static_padding,
           "static: rows of ended and shorter requests keep their slot and cost, as in classic "
           "batching")
      ->group(kGroup);
  AddDuration(app, "--static-flush", &options->scheduler.static_flush,
              "static: a batch begins when its oldest request has waited so long", kLeast)
      ->group(kGroup);
  AddParsed(app, "--batch-timeout", "TIME|auto",
            "dynamic: likewise; auto: chosen from the arrivals, within --target-latency",
            ParseTimeout, [flags](milliseconds timeout) { flags->batch_timeout = timeout; })
      ->default_str(FormatDuration(options->scheduler.batch_timeout))
      ->group(kGroup);
  AddDuration(app, "--target-latency", &options->scheduler.target_latency,
              "dynamic, with --batch-timeout auto: a batch waits no longer than its predicted time "
              "leaves of this",
              kLeast)
      ->group(kGroup);
  // A server is for its users; the library leaves the strategies pure.
  options->scheduler.urgent_joins = true;
  AddOnOff(app, "--urgent-joins", &options->scheduler.urgent_joins,
           "dynamic, static, serial: a request of class high starts at once also while a batch "
           "runs, in up to half of --max-num-seqs")
      ->group(kGroup);
}

void AddClasses(CLI::App* app, EngineOptions* options) {
  const auto [high, medium, low] = options->scheduler.class_shares;
  AddParsed(app, "--class-shares", "H,M,L",
            "Parts of the work, in percent, that the classes high, medium and low get while they "
            "have requests; what one leaves the others use",
            ParseShares,
            [options](std::array<int, 3> shares) { options->scheduler.class_shares = shares; })
      ->default_str(fmt::format("{},{},{}", high, medium, low))
      ->group(kGroup);
  app->add_flag("--strict", options->scheduler.strict_priority,
                "No shares: a higher class always goes first")
      ->group(kGroup);
  AddParsed(
      app, "--preempt-max-generated", kIntOrAutoPlaceholder,
      "A request that has generated more is not preempted for a higher class, unless memory is "
      "short; auto: no limit where its KV is kept, 50 with --prefix-caching off",
      ParseMostGenerated, [options](int most) { options->scheduler.preempt_max_generated = most; })
      ->default_str("auto")
      ->group(kGroup);
  AddParsed(app, "--ttft-limits", "H,M,L",
            "Times to the first token, for high, medium and low, beyond which a request counts as "
            "late in the metrics",
            ParseLimits,
            [options](const std::array<milliseconds, 3>& limits) {
              options->scheduler.ttft_limits = limits;
            })
      ->default_str(FormatLimits(options->scheduler.ttft_limits))
      ->group(kGroup);
  AddParsed(app, "--latency-limits", "H,M,L",
            "Times from arrival to end, for high, medium and low, beyond which a request counts as "
            "late in the metrics",
            ParseLimits,
            [options](const std::array<milliseconds, 3>& limits) {
              options->scheduler.latency_limits = limits;
            })
      ->default_str(FormatLimits(options->scheduler.latency_limits))
      ->group(kGroup);
}

void AddSteps(CLI::App* app, EngineOptions* options) {
  AddInt(app, "--prefill-chunk", &options->scheduler.max_prefill_chunk, 0, 65536,
         "Tokens of one prompt in one step, at most; 0: --max-num-batched-tokens alone")
      ->group(kGroup);
  AddInt(app, "--long-prefill-threshold", &options->scheduler.long_prefill_threshold, 1, kMaxTokens,
         "A prompt with more tokens to compute is a long one")
      ->group(kGroup);
  AddInt(
      app, "--long-prefill-budget", &options->scheduler.long_prefill_budget, 1, 65536,
      "What long prompts together get of a step while others decode, in units of cost: about the "
      "time of so many short tokens")
      ->group(kGroup);
  AddChoice(app, "--batch-control", &options->scheduler.batch_control, {"fixed", "aimd", "memory"},
            "How many requests run at once: fixed (--max-num-seqs), or fewer by the time of a step "
            "(aimd) or by the free memory (memory)")
      ->group(kGroup);
  AddDuration(app, "--step-target", &options->scheduler.step_target,
              "aimd: how long a step is to take, at the 99th percentile", kLeast)
      ->group(kGroup);
  AddDuration(app, "--request-target", &options->scheduler.request_target,
              "aimd: how long a request is to take, at the 99th percentile; 0: not watched")
      ->group(kGroup);
  AddInt(app, "--aimd-start", &options->scheduler.aimd_start, 1, 4096,
         "aimd: how many requests run at once to begin with, from 8 to 64")
      ->group(kGroup);
}

// Whether requests start together.
bool InBatches(const std::string& scheduler) {
  return scheduler == "static" || scheduler == "dynamic";
}

}  // namespace

void AddBatchingFlags(CLI::App* app, BatchingFlags* flags, EngineOptions* options) {
  AddChoice(app, "--scheduler", &flags->scheduler, {"continuous", "dynamic", "static", "serial"},
            "How requests come together: continuous (they join and leave at every step), dynamic "
            "(in batches, by size or timeout), static (in full batches) or serial (one at a time)")
      ->default_str(options->scheduler.strategy)
      ->group(kGroup);
  AddInt(app, "--max-batch-size", &flags->max_batch_size, 1, 4096,
         "Requests of a static or dynamic batch, at most --max-num-seqs")
      ->default_str(fmt::format("{}", options->scheduler.max_batch_size))
      ->group(kGroup);
  AddParsed(app, "--policy", "NAMES",
            "Who goes first: fcfs, sjf, length-balance, cache-aware, priority or fair, or two or "
            "three joined by '+', of which the next one breaks ties of the one before",
            ParsePolicy,
            [options](const std::string& policy) { options->scheduler.policy = policy; })
      ->default_str(options->scheduler.policy)
      ->group(kGroup);
}

void AddSchedulerFlags(CLI::App* app, BatchingFlags* flags, EngineOptions* options) {
  AddClasses(app, options);
  AddDuration(app, "--max-wait", &options->scheduler.max_wait,
              "A request that would wait longer to start is refused with 429; one that has waited "
              "so long goes first",
              kLeast)
      ->group(kGroup);
  AddInt(app, "--max-queued-tokens", &options->scheduler.max_queued_tokens, 1, 1'000'000'000,
         "Prompt tokens that wait; more are refused with 429")
      ->group(kGroup);
  AddBatches(app, flags, options);
  AddSteps(app, options);
}

Status ResolveBatching(const BatchingFlags& flags, EngineOptions* options) {
  for (const Preset& preset : kPresets) {
    if (flags.preset != preset.name) continue;
    options->scheduler.strategy = "dynamic";
    options->scheduler.max_batch_size = preset.size;
    options->scheduler.batch_timeout = preset.timeout;
  }
  if (!flags.scheduler.empty()) options->scheduler.strategy = flags.scheduler;
  if (flags.batch_timeout) options->scheduler.batch_timeout = *flags.batch_timeout;
  if (flags.max_batch_size && *flags.max_batch_size > options->scheduler.max_num_seqs &&
      InBatches(options->scheduler.strategy)) {
    return InvalidArgument(
        fmt::format("--max-batch-size: expected at most --max-num-seqs, {}, for {} batches, not {}",
                    options->scheduler.max_num_seqs, options->scheduler.strategy,
                    *flags.max_batch_size),
        "max_batch_size");
  }
  options->scheduler.max_batch_size =
      std::min(flags.max_batch_size.value_or(options->scheduler.max_batch_size),
               options->scheduler.max_num_seqs);
  return {};
}

}  // namespace ropeway
