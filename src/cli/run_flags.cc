#include "cli/run_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/system.h"
#include "cli/flags.h"

namespace ropeway {
namespace {

// Livelier than greedy, steadier than the raw distribution: a person reads the answers here.
constexpr float kTemperature = 0.7F;

// A person's chat is there until it is removed.
constexpr std::chrono::hours kSessionTtl(24 * 365 * 100);

// Of many prompts at once, none is refused because it waits long.
constexpr std::chrono::hours kNobodyElseWaits(1000);

// Of KV blocks on disk, a long chat with a small model takes a few hundred MB.
constexpr int64_t kSessionDiskBytes = int64_t{1} << 30;

std::filesystem::path StateFolder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base =
      state != nullptr && *state != '\0'
          ? state
          : std::filesystem::path(home ? home : ".") / ".local" / "state";
  return base / "ropeway";
}

constexpr char kFooter[] =
    "Without a prompt: a chat in the terminal, or the prompt is what standard input brings.\n"
    "A line of --prompts FILE is a prompt; or, where the first one is a JSON object, every line "
    "is\n"
    "one: {\"prompt\": TEXT} with, where wanted, system, max_tokens, temperature, top_p, top_k,\n"
    "min_p, seed and stop.\n\n"
    "Example:\n  ropeway run --max-tokens 40 'What is a ropeway?'";

void AddPrompts(CLI::App* run, RunFlags* flags) {
  AddText(run, "PROMPT", &flags->prompt, "TEXT", "What to answer");
  AddText(run, "--system", &flags->system, "TEXT", "System message: how the model shall behave")
      ->group("Prompt");
  run->add_flag("--raw", flags->raw,
                "Continue the text as it is, without the model's chat template")
      ->group("Prompt");
  AddText(run, "--session", &flags->session, "FILE|NAME",
          "Keep the conversation, and go on with it the next time: in the directory FILE (with a "
          "slash, or ending in .session), or under a NAME in ~/.local/state/ropeway")
      ->group("Prompt");
  AddText(run, "--prompts", &flags->prompts_file, kFilePlaceholder,
          "Answer all prompts of a file at once, and print each batch as it ends: the requests "
          "whose first token came in the same step of the engine")
      ->group("Prompt");
  AddText(run, "--output", &flags->output_file, kFilePlaceholder,
          "With --prompts: also write the answers to this file, a JSON object a line")
      ->group("Prompt");
}

void AddSampling(CLI::App* run, RunFlags* flags) {
  const char* group = "Sampling";
  SamplingParams& sampling = flags->sampling;
  sampling.temperature = kTemperature;
  AddInt(run, "--max-tokens,-n", &flags->max_tokens, 1, 1 << 24, "Tokens of an answer, at most")
      ->default_str("what the context leaves")
      ->group(group);
  AddNumber(run, "--temperature", &sampling.temperature, 0, 2,
            "0 always takes the most probable token; more is more varied")
      ->default_str("0.7")
      ->group(group);
  AddInt(run, "--top-k", &sampling.top_k, -1, INT32_MAX,
         "Choose among the k most probable tokens; 0: all")
      ->group(group);
  AddNumber(run, "--top-p", &sampling.top_p, 0, 1,
            "Choose among the most probable tokens that together reach this probability")
      ->group(group);
  AddNumber(run, "--min-p", &sampling.min_p, 0, 1,
            "Leave out tokens below this part of the most probable one's probability")
      ->group(group);
  AddNumber(run, "--typical-p", &sampling.typical_p, 0, 1,
            "Locally typical sampling up to this probability")
      ->group(group);
  AddNumber(run, "--presence-penalty", &sampling.presence_penalty, -2, 2,
            "Makes tokens that were generated before less probable")
      ->group(group);
  AddNumber(run, "--frequency-penalty", &sampling.frequency_penalty, -2, 2,
            "Likewise, once for each time")
      ->group(group);
  AddNumber(run, "--repetition-penalty", &sampling.repetition_penalty, 0.01, 10,
            "Above 1: makes all tokens seen before less probable, the prompt's too")
      ->group(group);
  AddInt(run, "--seed", &sampling.seed, 0, INT64_MAX,
         "The same seed and prompt give the same answer")
      ->default_str("random")
      ->group(group);
  AddTexts(run, "--stop", &flags->stop, "TEXT", "The answer ends before this text")->group(group);
  run->add_flag("--ignore-eos", flags->ignore_eos, "Go on where the model would end its answer")
      ->group(group);
}

}  // namespace

CLI::App* AddRun(CLI::App* app, RunFlags* flags) {
  CLI::App* run =
      app->add_subcommand("run", "Answer a prompt, a file of prompts, or chat in the terminal");
  flags->engine.log_level = "warn";
  AddPrompts(run, flags);
  AddSampling(run, flags);
  AddEngineFlags(run, &flags->engine);
  AddBatchingFlags(run, &flags->engine.batching, &flags->engine.options);
  flags->engine.options.scheduler.max_wait = kNobodyElseWaits;
  run->add_flag("--stats", flags->stats,
                "Say after each answer how many tokens it took, and how fast")
      ->group("Other");
  run->footer(kFooter);
  return run;
}

StatusOr<std::string> SessionFolder(const std::string& named) {
  const auto bad = [&](const char* why) {
    return InvalidArgument(
        fmt::format("--session: expected a directory, or a name, but '{}' {}", named, why));
  };
  std::error_code error;
  const bool exists = std::filesystem::exists(named, error);
  if (exists && !std::filesystem::is_directory(named, error)) return bad("is a file");
  if (exists || named.find('/') != std::string::npos || named.ends_with(".session")) return named;
  const bool printable =
      std::all_of(named.begin(), named.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!printable || named.size() > 128) {
    return bad("is no name: 1 to 128 ASCII characters without spaces");
  }
  if (named.front() == '.' || named.front() == '-') return bad("begins with a dot or a dash");
  return (StateFolder() / named).string();
}

Status KeepSession(const RunFlags& flags, EngineOptions* options) {
  if (flags.session.empty()) return {};
  StatusOr<std::string> folder = SessionFolder(flags.session);
  if (!folder.ok()) return folder.status();
  // A person's words: nobody else's to read.
  if (const std::error_code error = MakePrivateDirectory(*folder)) {
    return InvalidArgument(
        fmt::format("--session: the directory '{}' cannot be made: {}", *folder, error.message()));
  }
  options->sessions.state_path = *folder;
  options->sessions.ttl = kSessionTtl;
  if (options->cache.disk_path.empty() && options->cache.prefix_caching) {
    options->cache.disk_path = *folder + "/kv";
    options->cache.disk_bytes = kSessionDiskBytes;
  }
  return {};
}

Request MakeRequest(const RunFlags& flags) {
  Request request;
  if (!flags.session.empty()) request.session_id = kRunSession;
  request.sampling = flags.sampling;
  request.max_tokens = flags.max_tokens;
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  return request;
}

void SetPrompt(const RunFlags& flags, bool begins, std::string text, Request* request) {
  if (flags.raw) {
    request->prompt = std::move(text);
    return;
  }
  std::vector<ChatMessage> messages;
  if (begins && !flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", std::move(text)});
  request->prompt = std::move(messages);
}

}  // namespace ropeway
