#include "cli/chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/output.h"
#include "cli/terminal.h"

namespace ropeway::cli {
namespace {

// How late Ctrl-C may be noticed; the end of an answer is noticed at once.
constexpr std::chrono::milliseconds kChatPoll(20);
#include "base/system.h"
#include "base/words.h"

constexpr char kHelp[] =
    "/clear  forget the conversation, and begin anew\n"
    "/stats  tokens, speed and times of the last answer\n"
    "/exit   leave, as Ctrl-D does\n"
    "/help   this list\n"
    "Ctrl-C stops an answer. A line that ends with \\ continues in the next one.\n";

// An answer that was written to the output while it was generated.
struct StreamedAnswer {
  Result result;
  double seconds = 0.0;      // From Submit to the end.
  bool interrupted = false;  // By Ctrl-C.
};

// Submits `request` and writes its text to `output` as it is generated, with a final line break.
// Ctrl-C cancels the request while an `Interrupts` exists; so does a reader of `output` that is
// gone.
StatusOr<StreamedAnswer> Stream(Engine* engine, Request request, base::Output* output) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  bool line_open = false;  // Written by the engine's output thread until the request ends.
  const auto on_delta = [&](RequestId, const Delta& delta) {
    if (delta.text.empty()) return true;
    line_open = delta.text.back() != '\n';
    return output->Write(terminal ? ForTerminal(delta.text) : delta.text);
  };
  const auto start = std::chrono::steady_clock::now();
  StatusOr<RequestHandle> handle = engine->Submit(std::move(request), on_delta);
  if (!handle.ok()) return handle.status();
  StreamedAnswer answer;
  StatusOr<Result> result = handle->Wait(kChatPoll);
  for (; !result.ok(); result = handle->Wait(kChatPoll)) {
    if (!Interrupts::Take()) continue;
    answer.interrupted = true;
    handle->Cancel();
  }
  answer.result = *std::move(result);
  answer.seconds = base::ToSeconds(std::chrono::steady_clock::now() - start);
  if (line_open) output->Write("\n");
  return answer;
}

// "12 prompt tokens, 34 tokens in 0.5 s (68.0 tokens/s): queue 0.1 ms, ..."
std::string StatsLine(const StreamedAnswer& answer) {
  const Usage& usage = answer.result.finish.usage;
  return fmt::format("{}, {} in {:.1f} s ({:.1f} tokens/s){}",
                     base::Counted(usage.prompt_tokens, "prompt token"),
                     base::Counted(usage.completion_tokens, "token"), answer.seconds,
                     answer.seconds > 0 ? usage.completion_tokens / answer.seconds : 0.0,
                     PhasesText(answer.result.finish.times));
}

// Prints how much of the session of --session is restored; false where it is new or there is none.
bool ShowRestored(const RunFlags& flags, const Engine* engine) {
  if (flags.session.empty()) return false;
  const std::vector<SessionInfo> sessions = engine->Sessions();
  if (sessions.empty()) return false;
  const SessionInfo& session = sessions.front();
  base::Note(fmt::format("(session {}: {} of {} restored)\n", flags.session,
                         base::Counted(session.tokens, "token"),
                         base::Counted(session.turns, "turn")));
  if (!flags.system.empty()) {
    base::Note("(--system is not used: it is for a session's first turn)\n");
  }
  return true;
}

class Chat {
 public:
  Chat(const RunFlags& flags, Engine* engine) : flags_(flags), engine_(engine) { Clear(); }

  int Run() {
    base::Note(fmt::format("{}. Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands.\n",
                           engine_->model_name()));
    begun_ = ShowRestored(flags_, engine_);
    std::string text;
    while (output_.ok() && ReadMessage(&text)) {
      if (text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      if (text.front() == '/') {
        if (!RunCommand(text)) break;
      } else {
        Turn(text);
      }
    }
    return output_.End();
  }

 private:
  void Clear() {
    if (begun_) {
      const Status status = engine_->CloseSession(kRunSession);
      if (!status.ok()) base::Note(fmt::format("({})\n", status.message()));
    }
    begun_ = false;
    messages_.clear();
    if (!flags_.system.empty()) messages_.push_back({"system", flags_.system});
  }

  // Reads one message; false at Ctrl-D. A line that ends with '\' continues in the next one.
  bool ReadMessage(std::string* text) {
    text->clear();
    const char* prompt = ">>> ";
    while (true) {
      base::Note(prompt);
      std::string line;
      switch (lines_.Read(&line)) {
        case LineReader::Event::kEnd:
          base::Note("\n");
          return false;
        case LineReader::Event::kInterrupted:
          base::Note("\n(Ctrl-D leaves)\n");
          text->clear();
          prompt = ">>> ";
          continue;
        case LineReader::Event::kLine:
          break;
      }
      const bool goes_on = !line.empty() && line.back() == '\\';
      if (goes_on) line.back() = '\n';
      *text += line;
      if (!goes_on) return true;
      prompt = "... ";
    }
  }

  // Carries out a line that begins with '/'; false where the chat is to end.
  bool RunCommand(const std::string& line) {
    const std::string command = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (command == "/exit") return false;
    if (command == "/help") {
      base::Note(kHelp);
    } else if (command == "/clear") {
      Clear();
      base::Note("(a new chat)\n");
    } else if (command == "/stats") {
      base::Note(last_stats_.empty() ? "(no answer yet)\n" : "(" + last_stats_ + ")\n");
    } else {
      base::Note(fmt::format("There is no {}. The commands:\n{}", ForTerminal(command), kHelp));
    }
    return true;
  }

  // Sends the user's text and streams the answer; a turn that fails is forgotten.
  void Turn(const std::string& text) {
    const bool session = !flags_.session.empty();
    Request request = MakeRequest(flags_);
    // With a session, the new messages alone.
    std::vector<ChatMessage> messages;
    if (!begun_) messages = messages_;
    messages.push_back({"user", text});
    request.prompt = std::move(messages);
    StatusOr<StreamedAnswer> answer = Stream(engine_, std::move(request), &output_);
    const Status status = answer.ok() ? answer->result.status : answer.status();
    if (!status.ok() && !(answer.ok() && answer->interrupted)) {
      base::Note(fmt::format("(not answered: {}", status.message()));
      const bool grown = (begun_ || messages_.size() > (flags_.system.empty() ? 0U : 1U)) &&
                         status.code() == StatusCode::kInvalidArgument;
      base::Note(grown ? "; the chat may have grown too long: /clear begins a new one)\n" : ")\n");
      return;
    }
    // An answer that ended just before Ctrl-C is complete.
    const bool cut = !status.ok();
    if (answer->interrupted)
      base::Note(cut && session ? "(stopped, and forgotten)\n" : "(stopped)\n");
    if (answer->result.finish.reason == FinishReason::kLength) {
      base::Note("(cut: no more tokens are allowed, by --max-tokens or the model's context)\n");
    }
    last_stats_ = StatsLine(*answer);
    if (flags_.stats) base::Note("(" + last_stats_ + ")\n");
    if (session) {
      begun_ = begun_ || !cut;
      return;
    }
    messages_.push_back({"user", text});
    messages_.push_back({"assistant", std::move(answer->result.text)});
  }

  const RunFlags& flags_;
  Engine* const engine_;
  LineReader lines_{STDIN_FILENO};
  base::Output output_;
  std::vector<ChatMessage> messages_;  // Without a session: all so far.
  bool begun_ = false;                 // With a session: it has a turn.
  std::string last_stats_;
};

}  // namespace

std::string PhasesText(const PhaseTimes& times) {
  const auto ms = [](auto time) { return 1e3 * base::ToSeconds(time); };
  return fmt::format(
      ": queue {:.1f} ms, formation {:.1f} ms, prefill {:.1f} ms, decode {:.1f} ms, output {:.1f} "
      "ms",
      ms(times.queue), ms(times.formation), ms(times.prefill), ms(times.decode), ms(times.output));
}

int AnswerOne(const RunFlags& flags, std::string prompt, Engine* engine) {
  Request request = MakeRequest(flags);
  SetPrompt(flags, !ShowRestored(flags, engine), std::move(prompt), &request);
  base::Output output;
  const StatusOr<StreamedAnswer> answer = Stream(engine, std::move(request), &output);
  if (!answer.ok()) return base::Fail(answer.status());
  if (!output.ok()) return output.End();
  if (!answer->result.status.ok()) return base::Fail(answer->result.status);
  if (flags.stats) base::Note("(" + StatsLine(*answer) + ")\n");
  return 0;
}

int ChatInTerminal(const RunFlags& flags, Engine* engine) { return Chat(flags, engine).Run(); }

}  // namespace ropeway::cli
