#include "cli/engine_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/system.h"
#include "base/words.h"
#include "hub/model_store.h"
#include "hub/pull.h"
#include "hub/registry.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxTemplateBytes = 1 << 20;
constexpr milliseconds kAuto(-1);
constexpr milliseconds kLeast(1);  // A target of 0 can never be met.
constexpr int kMaxTokens = 1 << 24;
constexpr char kModelWords[] = "models list --names";

StatusOr<std::string> ReadTemplate(const std::string& path) {
  std::optional<std::string> text = base::ReadFile(path, kMaxTemplateBytes);
  if (!text) {
    return Status(StatusCode::kNotFound, fmt::format("--chat-template: cannot read '{}'", path));
  }
  if (text->empty() || text->size() > kMaxTemplateBytes) {
    return InvalidArgument(
        fmt::format("--chat-template: '{}' must have 1 to {} bytes", path, kMaxTemplateBytes));
  }
  return *std::move(text);
}

// Whether a file or directory can be written, as far as that is seen without making it.
Status CheckPath(const char* flag, const std::string& path, bool directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  if (path.empty() || error) return {};
  const bool is_there = fs::exists(at, error);
  if (!is_there) at = at.parent_path();
  // Missing parent directories of a directory are created too.
  while (directory && !fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  const bool is_file = is_there && !directory;
  if (is_file && fs::is_directory(at, error)) {
    errno = EISDIR;
  } else if (access((is_file ? at : at / ".").c_str(), W_OK) == 0) {
    return {};
  }
  return InvalidArgument(
      fmt::format("{}: cannot write '{}': {}", flag, path, std::strerror(errno)));
}

struct Preset {
  const char* name;
  milliseconds timeout;
  int size;
};
constexpr std::array kPresets = {Preset{"latency", milliseconds(10), 4},
                                 Preset{"balanced", milliseconds(50), 8},
                                 Preset{"throughput", milliseconds(100), 16}};

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

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
  StatusOr<milliseconds> timeout = flags::ParseDuration(text);
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
      fmt::format("expected one of {}, or two or three different ones joined by '+', not '{}'",
                  fmt::join(kPolicies, ", "), text));
}

StatusOr<std::array<int, 3>> ParseShares(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ',');
  std::array<int, 3> shares{};
  bool good = parts.size() == shares.size();
  for (size_t i = 0; good && i < shares.size(); ++i) {
    shares[i] = base::ParseNumber<int>(parts[i]).value_or(0);
    good = shares[i] >= 1 && shares[i] <= 100;
  }
  if (good && shares[0] + shares[1] + shares[2] == 100) return shares;
  return InvalidArgument(
      fmt::format("expected three whole numbers of at least 1 that add up to 100, for high, medium "
                  "and low, such as 70,20,10, not '{}'",
                  text));
}

StatusOr<int> ParseMostGenerated(const std::string& text) {
  if (text == "auto") return -1;
  const int tokens = base::ParseNumber<int>(text).value_or(-1);
  if (tokens >= 0 && tokens <= kMaxTokens) return tokens;
  return InvalidArgument(fmt::format(
      "expected auto, or a whole number of tokens, 0 to {}, not '{}'", kMaxTokens, text));
}

StatusOr<std::array<milliseconds, 3>> ParseLimits(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ',');
  std::array<milliseconds, 3> limits{};
  bool good = parts.size() == limits.size();
  for (size_t i = 0; good && i < limits.size(); ++i) {
    const StatusOr<milliseconds> limit = flags::ParseDuration(parts[i]);
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
  return fmt::format("{},{},{}", flags::FormatDuration(limits[0]), flags::FormatDuration(limits[1]),
                     flags::FormatDuration(limits[2]));
}

flags::FlagTable PolicyRow(QueueOptions* options) {
  return {{"Scheduling",
           {{"--policy",
             flags::ParsedValue(&options->policy, "NAMES", ParsePolicy).Default(options->policy),
             "Order of requests: fcfs, sjf, length-balance, cache-aware, priority or fair; or two "
             "or three of them joined by '+', where each breaks the ties of the one before it"}}}};
}

flags::FlagTable SharesRow(QueueOptions* options) {
  return {{"Scheduling",
           {{"--class-shares",
             flags::ParsedValue(&options->class_shares, "H,M,L", ParseShares)
                 .Default(fmt::format("{}", fmt::join(options->class_shares, ","))),
             "Shares of the work, in percent, that the classes high, medium and low get while they "
             "have requests; other classes use what a class leaves unused"}}}};
}

flags::FlagTable WaitRows(QueueOptions* options) {
  return {
      {"Scheduling",
       {{"--ttft-limits",
         flags::ParsedValue(&options->ttft_limits, "H,M,L", ParseLimits)
             .Default(FormatLimits(options->ttft_limits)),
         "Limits of the time to first token, for high, medium and low; a request above its limit "
         "counts as late in the metrics"},
        {"--latency-limits",
         flags::ParsedValue(&options->latency_limits, "H,M,L", ParseLimits)
             .Default(FormatLimits(options->latency_limits)),
         "Limits of the time from arrival to end, for high, medium and low; a request above its "
         "limit counts as late in the metrics"},
        {"--max-wait", flags::DurationValue(&options->max_wait, kLeast),
         "Maximum wait before a request starts: one that would wait longer is rejected with 429, "
         "and one that has waited this long goes first"},
        {"--max-queued-tokens", flags::IntValue(&options->max_queued_tokens, 1, 1'000'000'000),
         "Maximum prompt tokens in one tenant's waiting requests; more are rejected with 429"}}}};
}

// --top-k of top_k.
std::string FlagNamesOf(const core::Parameter& row) {
  std::string name = std::string("--") + row.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return row.letter == nullptr ? name : name + "," + row.letter;
}

// The value of a row's flag. REQUIRES: it is one word or several.
template <typename T>
flags::FlagValue ParameterValue(const core::Parameter& row, T* target) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::optional<float>>) {
    return row.above_low ? flags::AboveZeroValue(target, row.high)
                         : flags::NumberValue(target, row.low, row.high);
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return flags::IntValue(target, static_cast<int64_t>(row.low), static_cast<int64_t>(row.high));
  } else if constexpr (std::is_same_v<T, std::optional<int32_t>>) {
    const bool of_model = core::HasDefault(row);
    const int64_t least = of_model ? static_cast<int64_t>(row.low) : 1;
    return flags::IntValue(target, least, static_cast<int64_t>(row.high))
        .Default("the rest of the context");
  } else if constexpr (std::is_same_v<T, std::optional<uint64_t>>) {
    return flags::SeedValue(target);
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return flags::TextsValue(target, "TEXT");
  } else if constexpr (std::is_same_v<T, bool>) {
    return flags::SwitchValue(target);
  } else {
    return {};
  }
}

// Whether requests start together.
bool InBatches(const std::string& scheduler) {
  return scheduler == "static" || scheduler == "dynamic";
}

}  // namespace

std::string DefaultModelName() {
  const std::string& file = hub::DefaultModel().file;
  return file.substr(0, file.rfind(".gguf"));
}

flags::FlagTable ModelTable(std::string* model) {
  return {{"Model",
           {{"--model,-m", flags::TextValue(model, "FILE").Words(kModelWords),
             "GGUF file (the first part if it is split), folder in Hugging Face's format, or name "
             "of a fetched model: `ropeway models list` shows them"}}}};
}

flags::FlagValue ParameterFlag(const core::Parameter& row, Request* request) {
  return core::VisitValue(row, *request,
                          [&](auto& target) { return ParameterValue(row, &target); });
}

flags::FlagTable SamplingTable(const SamplingParams& otherwise, SamplingDefaults* defaults,
                               Request* request) {
  flags::FlagGroup group{"Sampling", {}};
  for (const core::Parameter& row : core::Parameters()) {
    if (row.help == nullptr) continue;
    std::optional<flags::FlagValue> value;
    core::VisitDefault(row, [&](auto of_model, auto member) {
      value = ParameterValue(row, &(defaults->*of_model))
                  .Default(fmt::format("the model's, or {}", otherwise.*member));
    });
    if (!value && request != nullptr) value = ParameterFlag(row, request);
    if (value) group.flags.push_back({FlagNamesOf(row), *std::move(value), row.help});
  }
  return {std::move(group)};
}

flags::FlagTable EngineSetupTable(EngineFlags* flags) {
  EngineOptions& options = flags->options;
  return {
      {"Model",
       {{"--chat-template", flags::TextValue(&flags->chat_template, "FILE"),
         "Jinja template for chats, instead of the model's own"},
        {"--quantize", flags::ChoiceValue(&options.model.quantize, {"q8_0", "q4_0"}),
         "Quantise weights in F32, F16 and BF16 when they are loaded: q8_0, or q4_0 (with the "
         "embedding and the output in q8_0)"},
        {"--parse-special", flags::SwitchValue(&options.model.parse_special),
         "Recognise control tokens such as <|im_end|> also in the text of chat messages, which can "
         "then imitate other roles"},
        {"--tool-parser", flags::TextValue(&options.model.tool_parser, "FORM"),
         "How the model writes calls of tools: auto (as its chat template says), none, or a form's "
         "name, such as hermes"},
        {"--reasoning-format",
         flags::ChoiceValue(&options.model.reasoning_format, {"auto", "none"}),
         "Where the model's thoughts go: auto (reasoning_content), or none (they stay in the "
         "text)"},
        {"--max-model-len,--ctx-size,-c",
         flags::IntValue(&options.model.max_model_len, 2, kMaxTokens)
             .Default("the model's context length, of encoders its max_seq_length"),
         "Maximum prompt plus output tokens of one request"}}},
      {"Engine",
       {{"--device", flags::TextValue(&options.device, "DEVICE"),
         "What computes: cpu, auto (a GPU that gives the same bits, where there is one), or what "
         "`ropeway devices` lists, such as cuda:0 or opencl:0; never changes a result"},
        {"--threads,-t", flags::IntValue(&options.threads, 1, 1024).Default("the physical cores"),
         "Number of compute threads; never changes a result"},
        {"--kv-cache-size",
         flags::SizeValue(&options.cache.kv_bytes, 1)
             .Default("a quarter of the free memory, at most 4GiB"),
         "Memory for the KV cache"},
        {"--kv-cache-dtype", flags::ChoiceValue(&options.cache.kv_dtype, {"f16", "q8_0"}),
         "Number format of the KV cache: f16, or q8_0 (8 bits; nearly twice the tokens in the "
         "same memory, slightly other results)"},
        {"--max-num-seqs,--parallel,-np", flags::IntValue(&options.scheduler.max_num_seqs, 1, 4096),
         "Maximum number of sequences that run at once"},
        {"--max-num-batched-tokens",
         flags::IntValue(&options.scheduler.max_num_batched_tokens, 1, 65536),
         "Maximum tokens per forward pass"}}},
      {"KV memory",
       {{"--prefix-caching", flags::OnOffValue(&options.cache.prefix_caching),
         "Keep the KV blocks of requests for later requests that begin with the same tokens, and "
         "share them between running requests; never changes a result"},
        {"--preempt-checkpoint",
         flags::ChoiceValue(&options.cache.preempt_checkpoint, {"pressure", "always"}),
         "When the KV blocks of a preempted request are written to disk: pressure (when their "
         "memory is needed) or always (at once)"},
        {"--kv-disk-path", flags::TextValue(&options.cache.disk_path, "DIR"),
         "Directory that keeps KV blocks beyond memory and across restarts; used by one process at "
         "a time"},
        {"--kv-disk-size", flags::SizeValue(&options.cache.disk_bytes, 1),
         "Maximum size of --kv-disk-path, including all overhead"},
        {"--kv-disk-write-rate", flags::RateValue(&options.cache.disk_write_rate),
         "Mean rate of writes to --kv-disk-path, such as 20MiB/s; auto: a rate that costs 3 % of "
         "the cores"},
        {"--kv-events", flags::TextValue(&options.cache.events_address, "ADDRESS"),
         "Publish which KV blocks there are, by ZeroMQ in vLLM's format, for routers: "
         "tcp://HOST:PORT, ipc://PATH, or a port of 127.0.0.1. Its readers see prompts"},
        {"--kv-events-topic", flags::TextValue(&options.cache.events_topic, "TEXT"),
         "Topic of the messages of --kv-events"}}}};
}

flags::FlagTable LogTable(LogFlags* log) {
  return {{"Other",
           {{"--log-level", flags::ChoiceValue(&log->level, {"debug", "info", "warn", "error"}),
             "Lowest level that is logged to standard error: debug, info, warn or error"},
            {"--log-format", flags::ChoiceValue(&log->format, {"text", "json"}),
             "Format of the log: text, or json (one JSON object per line, with time, level and "
             "message)"}}}};
}

void ApplyLog(const LogFlags& log) {
  spdlog::set_level(spdlog::level::from_str(log.level));
  if (log.format == "json") base::SetLogFormat(true);
}

flags::FlagTable EngineTable(EngineFlags* flags) {
  return flags::Join({ModelTable(&flags->model), EngineSetupTable(flags), LogTable(&flags->log)});
}

flags::FlagTable QueueTable(QueueOptions* options) {
  return flags::Join({PolicyRow(options), SharesRow(options), WaitRows(options)});
}

flags::FlagTable BatchingTable(EngineFlags* flags) {
  SchedulingOptions& options = flags->options.scheduler;
  const flags::FlagTable batches = {
      {"Scheduling",
       {{"--scheduler",
         flags::ChoiceValue(&flags->batching.scheduler,
                            {"continuous", "dynamic", "static", "serial"})
             .Default(options.strategy),
         "How requests are batched: continuous (they join and leave at every step), dynamic (in "
         "batches, by size or timeout), static (in full batches) or serial (one at a time)"},
        {"--max-batch-size",
         flags::IntValue(&flags->batching.max_batch_size, 1, 4096)
             .Default(fmt::format("{}", options.max_batch_size)),
         "Maximum requests in a static or dynamic batch; at most --max-num-seqs"}}}};
  return flags::Join({batches, PolicyRow(&flags->options.queue)});
}

flags::FlagTable SchedulingTable(EngineFlags* flags) {
  SchedulingOptions& options = flags->options.scheduler;
  QueueOptions* const queue = &flags->options.queue;
  BatchingFlags& batching = flags->batching;
  const flags::FlagTable classes = {
      {"Scheduling",
       {{"--strict-priority", flags::SwitchValue(&queue->strict_priority),
         "Ignore --class-shares: a higher class always goes first"},
        {"--preempt-max-generated",
         flags::ParsedValue(&options.preempt_max_generated, "N|auto", ParseMostGenerated)
             .Default("auto"),
         "A request that has generated more tokens than this is not preempted for a higher class, "
         "unless memory is short; auto: no limit if its KV blocks are kept, 50 with "
         "--prefix-caching off"}}}};
  const flags::FlagTable steps = {
      {"Scheduling",
       {{"--preset", flags::ChoiceValue(&batching.preset, PresetNames()),
         "Dynamic batches with a preset timeout and size: latency (10ms, 4), balanced (50ms, 8) or "
         "throughput (100ms, 16); other flags override it"},
        {"--static-padding", flags::OnOffValue(&options.static_padding),
         "static: ended and shorter requests keep their slot and cost, as in classic batching"},
        {"--static-flush", flags::DurationValue(&options.static_flush, kLeast),
         "static: maximum wait of a batch's oldest request; then the batch starts even if it is "
         "not full"},
        {"--batch-timeout",
         flags::ParsedValue(&batching.batch_timeout, "TIME|auto", ParseTimeout)
             .Default(flags::FormatDuration(options.batch_timeout)),
         "dynamic: maximum wait of a batch's oldest request; auto: chosen from the arrivals, "
         "within --target-latency"},
        {"--target-latency", flags::DurationValue(&options.target_latency, kLeast),
         "dynamic, with --batch-timeout auto: limit for the wait of a batch plus its predicted "
         "time"},
        {"--urgent-joins", flags::OnOffValue(&options.urgent_joins),
         "dynamic, static, serial: requests of class high start at once even while a batch runs, "
         "in up to half of --max-num-seqs"},
        {"--prefill-chunk", flags::IntValue(&options.max_prefill_chunk, 0, 65536),
         "Maximum tokens of one prompt per step; 0: only --max-num-batched-tokens limits them"},
        {"--long-prefill-threshold",
         flags::IntValue(&options.long_prefill_threshold, 1, kMaxTokens),
         "A prompt with more tokens to compute than this counts as long"},
        {"--long-prefill-budget", flags::IntValue(&options.long_prefill_budget, 1, 65536),
         "Maximum cost of all long prompts in a step while other requests decode, in units of "
         "about the time of one short token"},
        {"--batch-control",
         flags::ChoiceValue(&options.batch_control.name, {"fixed", "aimd", "memory"}),
         "How many sequences run at once: fixed (--max-num-seqs), or fewer, depending on the time "
         "of a step (aimd) or the free memory (memory)"},
        {"--step-target", flags::DurationValue(&options.batch_control.step_target, kLeast),
         "aimd: target for the time of a step, at the 99th percentile"},
        {"--request-target", flags::DurationValue(&options.batch_control.request_target),
         "aimd: target for the latency of a request, at the 99th percentile; 0: no target"},
        {"--aimd-start", flags::IntValue(&options.batch_control.start, 8, 64),
         "aimd: initial number of sequences that run at once; --max-num-seqs if that is less"}}}};
  return flags::Join({SharesRow(queue), classes, WaitRows(queue), steps});
}

StatusOr<std::string> ResolveModel(const std::string& model) {
  const bool remote =
      model.starts_with("hf:") || model.starts_with("http://") || model.starts_with("https://");
  std::error_code error;
  const bool path = model.find('/') != std::string::npos || std::filesystem::exists(model, error);
  if (path && !remote) return model;
  const hub::ModelStore store;
  if (const auto found = store.Find(model)) return found->path.string();
  const StatusOr<hub::Source> source = hub::ParseSource(model);
  if (source.ok()) {
    const auto found = hub::FindPulled(*source, hub::BuiltInRegistry(), store);
    if (found) return found->path.string();
  }
  const auto* known = hub::FindModel(hub::BuiltInRegistry(), model);
  if (known != nullptr || (remote && source.ok())) {
    return Status(StatusCode::kNotFound,
                  fmt::format("the model '{}' is not fetched yet: ropeway models pull {}", model,
                              known != nullptr ? known->name : model));
  }
  return Status(
      StatusCode::kNotFound,
      fmt::format(
          "there is no model '{}': it is neither a file nor a fetched model in {} (`ropeway "
          "models list` shows the fetched models and what can be fetched)",
          model, store.folder().string()));
}

const hub::RegistryModel* KnownModel(const std::string& path) {
  const hub::ModelStore store;
  for (const hub::RegistryModel& model : hub::BuiltInRegistry()) {
    if (store.folder() / model.file == std::filesystem::path(path)) return &model;
  }
  return nullptr;
}

SamplingDefaults KnownSampling(const std::string& path) {
  const hub::RegistryModel* const known = KnownModel(path);
  return known == nullptr ? SamplingDefaults() : known->sampling;
}

Status ResolveBatching(const BatchingFlags& flags, SchedulingOptions* options) {
  for (const Preset& preset : kPresets) {
    if (flags.preset != preset.name) continue;
    options->strategy = "dynamic";
    options->max_batch_size = preset.size;
    options->batch_timeout = preset.timeout;
  }
  if (!flags.scheduler.empty()) options->strategy = flags.scheduler;
  if (flags.batch_timeout) options->batch_timeout = *flags.batch_timeout;
  if (flags.max_batch_size && *flags.max_batch_size > options->max_num_seqs &&
      InBatches(options->strategy)) {
    return InvalidArgument(
        fmt::format("--max-batch-size: expected at most {} (--max-num-seqs) for {} batches, not {}",
                    options->max_num_seqs, options->strategy, *flags.max_batch_size),
        "max_batch_size");
  }
  options->max_batch_size =
      std::min(flags.max_batch_size.value_or(options->max_batch_size), options->max_num_seqs);
  return {};
}

StatusOr<EngineOptions> ResolveEngine(const EngineFlags& flags,
                                      const std::function<Status()>& fetch) {
  ApplyLog(flags.log);
  EngineOptions options = flags.options;
  if (Status status = ResolveBatching(flags.batching, &options.scheduler); !status.ok())
    return status;
  if (!flags.chat_template.empty()) {
    StatusOr<std::string> text = ReadTemplate(flags.chat_template);
    if (!text.ok()) return text.status();
    options.model.chat_template = *std::move(text);
  }
  for (const Status& status : {CheckPath("--trace-file", options.trace_file, false),
                               CheckPath("--state-path", options.sessions.state_path, true),
                               CheckPath("--kv-disk-path", options.cache.disk_path, true)}) {
    if (!status.ok()) return status;
  }
  if (Status status = fetch ? fetch() : Status(); !status.ok()) return status;
  StatusOr<std::string> path = ResolveModel(flags.model);
  if (!path.ok()) return path.status();
  options.model.path = *std::move(path);
  options.model.sampling = options.model.sampling.Or(KnownSampling(options.model.path));
  return options;
}

}  // namespace ropeway::cli
