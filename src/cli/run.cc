#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "base/output.h"
#include "base/system.h"
#include "cli/line_editor.h"
#include "cli/models.h"
#include "cli/prompts.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "ropeway/engine.h"

namespace ropeway::cli {
namespace {

constexpr size_t kMaxPrompt = size_t{16} << 20;

// How long nothing is said about standard input in which nothing comes, and how long it may be so.
constexpr std::chrono::seconds kQuietWait(2);
constexpr std::chrono::seconds kInputWait(60);

// A chat is kept until its directory is removed.
constexpr std::chrono::hours kSessionTtl(24 * 365 * 100);

// Size of the KV blocks on disk; a long chat with a small model takes a few hundred MB.
constexpr int64_t kSessionDiskBytes = int64_t{1} << 30;

constexpr char kFooter[] =
    "Without a prompt, a chat starts in the terminal, or the prompt is read from standard input.\n"
    "Piped input is appended to a PROMPT: ropeway run 'Summarize:' < FILE\n"
    "Each line of --prompts FILE is a prompt. If the first one is a JSON object, all must be JSON\n"
    "objects: {\"prompt\": TEXT}, optionally with system and the parameters of the HTTP API, such\n"
    "as max_tokens, temperature, top_p, seed and stop.\n\n"
    "Example:\n  ropeway run --max-tokens 40 'What is a ropeway?'";

flags::FlagTable PromptRows(RunFlags* flags) {
  return {{"",
           {{"MODEL", flags::TextValue(&flags->first_word, "FILE").Words("models list --names"),
             "Model, as for --model; one that is not fetched yet is pulled after confirmation, or "
             "with --yes"},
            {"PROMPT", flags::TextValue(&flags->prompt, "TEXT"),
             "The prompt; may be given without MODEL"}}},
          {"Prompt",
           {{"--system", flags::TextValue(&flags->system, "TEXT"),
             "System message: how the model should behave"},
            {"--raw", flags::SwitchValue(&flags->raw),
             "Continue the prompt as plain text, without the model's chat template"},
            {"--session", flags::TextValue(&flags->session, "FILE|NAME"),
             "Keep the conversation and continue it the next time: in the directory FILE (with a "
             "slash, or ending in .session), or as NAME in ~/.local/state/ropeway"},
            {"--prompts", flags::TextValue(&flags->prompts_file, "FILE"),
             "Answer all prompts of a file together, and print each batch (the requests that "
             "started together) when it ends"},
            {"--output", flags::TextValue(&flags->output_file, "FILE"),
             "With --prompts: also write the answers with their batch numbers and times to this "
             "file, as JSON lines, or as CSV if its name ends in .csv"}}}};
}

// Keeps --session in its directory, with the KV blocks beside it (unless the disk tier has a
// directory of its own).
Status KeepSession(const RunFlags& flags, EngineOptions* options) {
  if (flags.session.empty()) return {};
  StatusOr<std::string> folder = SessionFolder(flags.session);
  if (!folder.ok()) return folder.status();
  // Other users must not read the conversation.
  if (const std::error_code error = base::MakePrivateDirectory(*folder)) {
    return InvalidArgument(
        fmt::format("--session: cannot create the directory '{}': {}", *folder, error.message()));
  }
  options->sessions.state_path = *folder;
  options->sessions.ttl = kSessionTtl;
  if (options->cache.disk_path.empty() && options->cache.prefix_caching) {
    options->cache.disk_path = *folder + "/kv";
    options->cache.disk_bytes = kSessionDiskBytes;
  }
  return {};
}

// Which of the two words on the command line is what: "PROMPT", "MODEL" or "MODEL PROMPT".
Status ResolveWords(RunFlags* flags) {
  if (flags->first_word.empty()) return {};
  const bool free = flags->engine.model == DefaultModelName();  // --model was not given.
  const bool model = free && IsModelWord(flags->first_word);
  if (!flags->prompt.empty() && !model) {
    return InvalidArgument(fmt::format(
        "one argument too many: '{}': '{}' is {} (see ropeway run --help)", flags->prompt,
        flags->first_word, free ? "not a model" : "the prompt, and --model is given"));
  }
  (model ? flags->engine.model : flags->prompt) = flags->first_word;
  return {};
}

// The engine, and in flags->request what the model says where the flags do not.
StatusOr<std::unique_ptr<Engine>> StartEngine(const EngineOptions& options, RunFlags* flags) {
  StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) return engine;
  if ((*engine)->embeds_only()) {
    return InvalidArgument(
        fmt::format("the model '{}' makes embeddings only and generates no text: `ropeway serve` "
                    "answers /v1/embeddings with it",
                    (*engine)->model_name()),
        "model");
  }
  (*engine)->sampling_defaults().ApplyTo(&flags->request.sampling);
  return engine;
}

// The prompt with what comes from standard input behind it, after an empty line. A terminal is not
// read where there is a prompt; an open pipe in which nothing comes is an error in the end, for
// neither an answer to half of a prompt nor a program that hangs is what anyone wants.
StatusOr<std::string> WholePrompt(const std::string& prompt) {
  if (!prompt.empty()) {
    if (isatty(STDIN_FILENO) != 0) return prompt;
    if (!IsReadableWithin(STDIN_FILENO, kQuietWait)) {
      base::Note("(waiting for standard input, which is appended to the prompt)\n");
      if (!IsReadableWithin(STDIN_FILENO, kInputWait)) {
        return InvalidArgument(
            fmt::format("standard input is open, but sent no data for {} s: use </dev/null if the "
                        "prompt is complete",
                        kInputWait.count()));
      }
    }
  }
  std::string text;
  if (!ReadAll(STDIN_FILENO, kMaxPrompt, &text)) {
    return InvalidArgument(
        fmt::format("cannot read standard input, or it has more than {} bytes", kMaxPrompt));
  }
  if (text.empty() && prompt.empty()) return InvalidArgument("no prompt: standard input is empty");
  if (text.empty() || prompt.empty()) return prompt + text;
  return prompt + "\n\n" + text;
}

int Run(const RunFlags& given) {
  SetCharacterLocale();
  RunFlags flags = given;
  if (Status status = ResolveWords(&flags); !status.ok()) return base::Fail(status);
  const bool many = !flags.prompts_file.empty();
  if (many && !flags.prompt.empty()) return base::Fail("give either a PROMPT or --prompts");
  if (!many && !flags.output_file.empty()) return base::Fail("--output needs --prompts");
  const bool chat = !many && flags.prompt.empty() && isatty(STDIN_FILENO) != 0;
  if (chat && flags.raw)
    return base::Fail("--raw needs a prompt: a chat uses the model's chat template");
  if (many && !flags.session.empty()) {
    return base::Fail("give either --session or --prompts: a session is one conversation");
  }
  StatusOr<EngineOptions> options =
      ResolveEngine(flags.engine, [&] { return OfferPull(flags.engine.model, flags.yes); });
  if (!options.ok()) return base::Fail(options.status());
  if (Status status = KeepSession(flags, &*options); !status.ok()) return base::Fail(status);
  if (chat) {
    const CaughtSignals interrupts({SIGINT});
    LineEditor lines(flags.history ? StateFolder() / ".history" : "");
    auto engine = StartEngine(*options, &flags);
    if (!engine.ok()) return base::Fail(engine.status());
    if (CaughtSignals::Take(SIGINT)) return 1;  // While the model was loaded.
    return ChatInTerminal(flags, &lines, engine->get());
  }

  StatusOr<std::string> prompt = many ? std::string() : WholePrompt(flags.prompt);
  if (!prompt.ok()) return base::Fail(prompt.status());
  // RunPrompts polls; the requests that it has under way are its bound.
  if (many) options->max_finished_bytes = std::numeric_limits<int64_t>::max();
  auto engine = StartEngine(*options, &flags);
  if (!engine.ok()) return base::Fail(engine.status());
  return many ? RunPrompts(flags, engine->get())
              : AnswerOne(flags, *std::move(prompt), engine->get());
}

}  // namespace

flags::Command RunCommand(RunFlags* flags) {
  const flags::FlagTable other = {
      {"Other",
       {{"--stats", flags::SwitchValue(&flags->stats), "Print tokens and times after each answer"},
        {"--word-wrap", flags::OnOffValue(&flags->word_wrap),
         "Wrap the lines of an answer between words, in a terminal"},
        {"--history", flags::OnOffValue(&flags->history),
         "Keep what is typed in chats for the arrow keys in later chats: in "
         "~/.local/state/ropeway/.history, readable only by you"}}}};
  return {"run",
          "Answer a prompt or a file of prompts, or chat in the terminal",
          flags::Join({PromptRows(flags),
                       SamplingTable(flags->request.sampling, &flags->engine.options.model.sampling,
                                     &flags->request),
                       YesTable(&flags->yes), EngineTable(&flags->engine),
                       BatchingTable(&flags->engine), other}),
          kFooter,
          [flags] { return Run(*flags); },
          {},
          {"--model", "--yes", "--system", "--raw", "--session", "--prompts", "--output",
           "--max-tokens", "--temperature", "--top-k", "--top-p", "--seed", "--stop",
           "--max-model-len", "--threads", "--kv-cache-size", "--stats", "--log-level"}};
}

}  // namespace ropeway::cli
