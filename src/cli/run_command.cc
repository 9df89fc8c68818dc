#include "cli/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/chat.h"
#include "cli/output.h"
#include "cli/prompts_run.h"
#include "cli/terminal.h"
#include "ropeway/engine.h"

namespace ropeway {
namespace {

constexpr size_t kMaxPrompt = size_t{16} << 20;

int AnswerOne(const RunFlags& flags, std::string prompt, Engine* engine) {
  Request request = MakeRequest(flags);
  SetPrompt(flags, !ShowRestored(flags, engine), std::move(prompt), &request);
  Output output;
  const StatusOr<Answer> answer = Stream(engine, std::move(request), &output);
  if (!answer.ok()) return Fail(answer.status());
  if (!output.ok()) return output.End();
  if (!answer->result.status.ok()) return Fail(answer->result.status);
  if (flags.stats) Note("(" + StatsLine(*answer) + ")\n");
  return 0;
}

int ChatInTerminal(const RunFlags& flags, const EngineOptions& options) {
  Interrupts interrupts;
  auto engine = Engine::Create(options);
  if (!engine.ok()) return Fail(engine.status());
  interrupts.Unblock();
  if (Interrupts::Take()) return 1;  // While the model was loaded.
  LineReader lines(STDIN_FILENO);
  Output output;
  return Chat(&flags, engine->get(), &lines, &output).Run();
}

}  // namespace

int RunRun(const RunFlags& flags) {
  const bool many = !flags.prompts_file.empty();
  if (many && !flags.prompt.empty()) return Fail("give either a PROMPT or --prompts");
  if (!many && !flags.output_file.empty()) return Fail("--output needs --prompts");
  const bool chat = !many && flags.prompt.empty() && isatty(STDIN_FILENO) != 0;
  if (chat && flags.raw) return Fail("--raw needs a prompt: a chat has the model's template");
  if (many && !flags.session.empty()) {
    return Fail("--session is one conversation, and --prompts are many: give one of them");
  }
  StatusOr<EngineOptions> options = ResolveEngine(flags.engine);
  if (!options.ok()) return Fail(options.status());
  if (Status status = KeepSession(flags, &*options); !status.ok()) return Fail(status);
  if (chat) return ChatInTerminal(flags, *options);

  std::string prompt = flags.prompt;
  if (!many && prompt.empty()) {
    if (!ReadAll(STDIN_FILENO, kMaxPrompt, &prompt)) {
      return Fail(
          fmt::format("standard input cannot be read, or has more than {} bytes", kMaxPrompt));
    }
    if (prompt.empty()) return Fail("no prompt: standard input is empty");
  }
  auto engine = Engine::Create(*options);
  if (!engine.ok()) return Fail(engine.status());
  return many ? RunPrompts(flags, engine->get())
              : AnswerOne(flags, std::move(prompt), engine->get());
}

}  // namespace ropeway
