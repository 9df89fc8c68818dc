#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/clock.h"
#include "base/output.h"
#include "base/system.h"
#include "base/words.h"
#include "cli/prompts.h"
#include "cli/terminal.h"
#include "core/parameters.h"

namespace ropeway::cli {
namespace {

// How late Ctrl-C may be noticed; the end of an answer is noticed at once.
constexpr std::chrono::milliseconds kChatPoll(20);

// The terminal's faint and usual letters.
constexpr const char* kFaint = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";

// An answer that was written to the output while it was generated.
struct StreamedAnswer {
  Result result;
  double seconds = 0.0;      // From Submit to the end.
  bool interrupted = false;  // By Ctrl-C.
};

// Submits `request` and writes its text to `output` as it is generated, with a final line break.
// Ctrl-C cancels the request where it is caught; so does a reader of `output` that is
// gone.
StatusOr<StreamedAnswer> Stream(const RunFlags& flags, Engine* engine, Request request,
                                base::Output* output) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  // These two belong to the engine's output thread until the request ends.
  bool line_open = false;
  WordWrap wrap(flags.word_wrap ? ColumnsOf(STDOUT_FILENO) : 0);
  bool thinking = false;
  // Thoughts are for a person, and faint: the output of a program is the answer.
  const auto on_delta = [&](RequestId, const Delta& delta) {
    if (terminal && !delta.reasoning.empty()) {
      if (!thinking) output->Write(kFaint);
      line_open = thinking = true;
      if (!output->Write(wrap.Take(ForTerminal(delta.reasoning)))) return false;
    }
    if (delta.text.empty()) return true;
    if (std::exchange(thinking, false)) output->Write(wrap.End() + kPlain + "\n\n");
    line_open = delta.text.back() != '\n';
    return output->Write(terminal ? wrap.Take(ForTerminal(delta.text)) : delta.text);
  };
  const auto start = std::chrono::steady_clock::now();
  StatusOr<RequestHandle> handle = engine->Submit(std::move(request), on_delta);
  if (!handle.ok()) return handle.status();
  StreamedAnswer answer;
  StatusOr<Result> result = handle->Wait(kChatPoll);
  for (; !result.ok(); result = handle->Wait(kChatPoll)) {
    if (!CaughtSignals::Take(SIGINT)) continue;
    answer.interrupted = true;
    handle->Cancel();
  }
  answer.result = *std::move(result);
  answer.seconds = base::ToSeconds(std::chrono::steady_clock::now() - start);
  output->Write(wrap.End());
  if (thinking) output->Write(kPlain);
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
    base::Note("(--system is ignored: a session keeps the system message of its first turn)\n");
  }
  return true;
}

// Sets a parameter of `request` from its text; "none" takes one away that may be absent.
Status SetParameter(const core::Parameter& row, const std::string& text, Request* request) {
  if (text != "none") return ParameterFlag(row, request).set({text});
  return core::VisitValue(row, *request, [&]<typename T>(T& value) -> Status {
    if constexpr (
        requires { T().begin(); } || requires { T().has_value(); }) {
      value = T();
      return {};
    } else {
      return InvalidArgument("expected a value, not 'none'");
    }
  });
}

std::string ParameterText(const core::Parameter& row, const Request& request) {
  return core::VisitValue(row, request, []<typename T>(const T& value) -> std::string {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      return fmt::format("{}", value);
    } else if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return value.empty() ? "none" : fmt::format("{}", fmt::join(value, ", "));
    } else if constexpr (requires { value.has_value(); }) {
      return value ? fmt::format("{}", *value) : "none";
    } else {
      return "";
    }
  });
}

class ChatProgram {
 public:
  ChatProgram(const RunFlags& flags, LineEditor* lines, Engine* engine)
      : flags_(flags),
        engine_(engine),
        lines_(*lines),
        request_(MakeRequest(flags)),
        system_(flags.system) {
    Clear();
  }

  int Run() {
    base::Note(fmt::format("{}. Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands.\n",
                           engine_->model_name()));
    begun_ = restored_ = ShowRestored(flags_, engine_);
    if (restored_) messages_.clear();  // A session keeps the system message of its first turn.
    std::string text;
    while (output_.ok() && ReadMessage(&text)) {
      if (text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      lines_.Remember(text);
      if (text.front() == '/') {
        if (!RunCommand(text)) break;
      } else {
        Turn(text);
      }
    }
    return output_.End();
  }

 private:
  // One that begins with '/'. `run` gets what stands behind its name; false: the chat ends.
  struct Command {
    const char* name;
    const char* argument;
    const char* help;
    bool (ChatProgram::*run)(const std::string& argument);
  };
  static const Command kCommands[];

  bool in_session() const { return !flags_.session.empty(); }

  void Clear() {
    if (begun_) {
      const Status status = engine_->CloseSession(kRunSession);
      if (!status.ok()) base::Note(fmt::format("({})\n", status.message()));
    }
    begun_ = restored_ = false;
    last_.clear();
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }

  // Reads one message; false at Ctrl-D. A line that ends with '\' continues in the next one.
  bool ReadMessage(std::string* text) {
    text->clear();
    const char* prompt = ">>> ";
    while (true) {
      std::string line;
      switch (lines_.Read(prompt, &line)) {
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

  // False where the chat is to end.
  bool RunCommand(const std::string& line) {
    const std::string text = line.substr(0, line.find_last_not_of(" \t\r\n") + 1);
    const size_t space = std::min(text.find_first_of(" \t\n"), text.size());
    const std::string name = text.substr(0, space);
    const size_t argument = std::min(text.find_first_not_of(" \t\n", space), text.size());
    if (name == "/bye") return false;
    for (const Command* command = kCommands; command->name != nullptr; ++command) {
      if (name == command->name) return (this->*command->run)(text.substr(argument));
    }
    base::Note(fmt::format("There is no {}. The commands are:\n", ForTerminal(name)));
    return Help("");
  }

  bool Help(const std::string&) {
    std::string text;
    for (const Command* command = kCommands; command->name != nullptr; ++command) {
      text += fmt::format("{:<18}{}\n", fmt::format("{} {}", command->name, command->argument),
                          command->help);
    }
    base::Note(text +
               "Ctrl-C stops an answer. A line that ends with \\ continues in the next one.\n");
    return true;
  }

  bool Exit(const std::string&) { return false; }

  bool ClearAll(const std::string&) {
    Clear();
    base::Note("(a new chat)\n");
    return true;
  }

  bool Stats(const std::string&) {
    base::Note(last_stats_.empty() ? "(no answer yet)\n" : "(" + last_stats_ + ")\n");
    return true;
  }

  bool System(const std::string& text) {
    if (text.empty()) {
      base::Note(system_.empty() ? "(no system message)\n" : ForTerminal(system_) + "\n");
    } else if (begun_) {
      base::Note(
          "(a session keeps the system message of its first turn: /clear starts a new one)\n");
    } else {
      system_ = text;
      if (!messages_.empty() && messages_.front().role == "system") {
        messages_.erase(messages_.begin());
      }
      messages_.insert(messages_.begin(), {"system", system_});
      base::Note("(applies from the next answer on)\n");
    }
    return true;
  }

  bool Set(const std::string& argument) {
    const size_t space = std::min(argument.find_first_of(" \t"), argument.size());
    std::string name = argument.substr(0, space);
    std::replace(name.begin(), name.end(), '-', '_');
    const size_t value = std::min(argument.find_first_not_of(" \t", space), argument.size());
    const core::Parameter* const row = core::FindParameter(name);
    if (row != nullptr && row->help != nullptr && value < argument.size()) {
      const Status status = SetParameter(*row, argument.substr(value), &request_);
      if (!status.ok()) {
        base::Note(ForTerminal(fmt::format("({}: {})\n", name, status.message())));
      }
      if (status.ok()) base::Note(fmt::format("({} {})\n", name, ParameterText(*row, request_)));
      return true;
    }
    std::vector<std::string> names;
    std::string text;
    for (const core::Parameter& one : core::Parameters()) {
      if (one.help == nullptr) continue;
      names.emplace_back(one.name);
      text += fmt::format("{:<19} {:<7} {}\n", one.name, ParameterText(one, request_), one.help);
    }
    if (!name.empty() && (row == nullptr || row->help == nullptr)) {
      const std::string* const meant = base::Nearest(name, names, 2);
      base::Note(
          ForTerminal(fmt::format("(there is no parameter '{}'{})\n", name,
                                  meant == nullptr ? "; the parameters are:"
                                                   : fmt::format(": did you mean '{}'?", *meant))));
      if (meant != nullptr) return true;
    }
    base::Note(ForTerminal(text));
    return true;
  }

  bool Retry(const std::string&) {
    if (last_.empty()) {
      base::Note("(there is no message to answer again yet)\n");
    } else if (in_session()) {
      base::Note("(a session keeps each answer: /retry needs a chat without --session)\n");
    } else {
      if (last_kept_) messages_.resize(messages_.size() - 2);
      Turn(std::string(last_));
    }
    return true;
  }

  bool Save(const std::string& path) {
    std::error_code error;
    if (path.empty()) {
      base::Note("(/save needs a file name)\n");
    } else if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
      base::Note("(the file already exists)\n");
    } else {
      nlohmann::ordered_json list = nlohmann::ordered_json::array();
      for (const ChatMessage& message : messages_) {
        list.push_back({{"role", message.role}, {"content", message.content}});
      }
      using Json = nlohmann::ordered_json;
      const std::string text = list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
      std::FILE* const file = base::OpenPrivateFile(path);
      const bool good = file != nullptr &&
                        std::fwrite(text.data(), 1, text.size(), file) == text.size() &&
                        std::fflush(file) == 0;
      const int error_number = errno;  // fclose() has one of its own.
      if (file != nullptr) std::fclose(file);
      // The engine keeps tokens, not what was typed.
      const char* const missing = restored_ ? ", without the restored turns" : "";
      base::Note(
          good ? fmt::format("({} saved{})\n", base::Counted(messages_.size(), "message"), missing)
               : fmt::format("(cannot write the file: {})\n", std::strerror(error_number)));
    }
    return true;
  }

  bool Sessions(const std::string&) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(StateFolder(), error)) {
      if (std::filesystem::is_directory(entry.path() / "sessions", error)) {
        names.push_back(entry.path().filename().string());
      }
    }
    std::ranges::sort(names);
    base::Note(names.empty()
                   ? "(no saved conversations: ropeway run --session NAME starts one)\n"
                   : ForTerminal(fmt::format("{}\n(to continue one: ropeway run --session NAME)\n",
                                             fmt::join(names, "\n"))));
    return true;
  }

  // Sends the user's text and streams the answer; a turn that fails is forgotten.
  void Turn(const std::string& text) {
    last_ = text;
    last_kept_ = false;
    Request request = request_;
    // With a session, the new messages alone.
    Chat chat;
    if (!begun_) chat.messages = messages_;
    chat.messages.push_back({"user", text});
    request.prompt = std::move(chat);
    StatusOr<StreamedAnswer> answer = Stream(flags_, engine_, std::move(request), &output_);
    const Status status = answer.ok() ? answer->result.status : answer.status();
    if (!status.ok() && !(answer.ok() && answer->interrupted)) {
      base::Note(fmt::format("(not answered: {}", status.message()));
      const bool grown = (begun_ || messages_.size() > (system_.empty() ? 0U : 1U)) &&
                         status.code() == StatusCode::kInvalidArgument;
      base::Note(grown ? "; the chat may have grown too long: /clear starts a new one)\n" : ")\n");
      return;
    }
    // An answer that ended just before Ctrl-C is complete.
    const bool cut = !status.ok();
    if (answer->interrupted) {
      base::Note(cut && in_session() ? "(stopped; this turn is not kept)\n" : "(stopped)\n");
    }
    if (answer->result.finish.reason == FinishReason::kLength) {
      base::Note("(cut off: the limit of --max-tokens or of the model's context is reached)\n");
    }
    last_stats_ = StatsLine(*answer);
    if (flags_.stats) base::Note("(" + last_stats_ + ")\n");
    if (cut && in_session()) return;
    begun_ = in_session();
    last_kept_ = true;
    messages_.push_back({"user", text});
    messages_.push_back({.role = "assistant",
                         .content = std::move(answer->result.text),
                         .reasoning_content = std::move(answer->result.reasoning)});
  }

  const RunFlags& flags_;
  Engine* const engine_;
  LineEditor& lines_;
  Request request_;  // What /set says about each turn.
  base::Output output_;
  std::string system_;
  std::vector<ChatMessage> messages_;  // All so far; in a session, only this program's.
  bool begun_ = false;                 // With a session: it has a turn.
  bool restored_ = false;              // It has one of an earlier program.
  std::string last_;                   // What the user said last.
  bool last_kept_ = false;             // messages_ ends with last_ and its answer.
  std::string last_stats_;
};

const ChatProgram::Command ChatProgram::kCommands[] = {
    {"/clear", "", "forget the conversation and start a new one", &ChatProgram::ClearAll},
    {"/retry", "", "answer the last message again", &ChatProgram::Retry},
    {"/system", "TEXT", "set the system message; without TEXT: show it", &ChatProgram::System},
    {"/set", "NAME VALUE", "set a sampling parameter; without arguments: show all",
     &ChatProgram::Set},
    {"/save", "FILE", "write the messages of this chat to a new file, as JSON", &ChatProgram::Save},
    {"/sessions", "", "list the saved conversations", &ChatProgram::Sessions},
    {"/stats", "", "show tokens, speed and times of the last answer", &ChatProgram::Stats},
    {"/exit", "", "leave, as Ctrl-D does; also /bye", &ChatProgram::Exit},
    {"/help", "", "show this list", &ChatProgram::Help},
    {nullptr, "", "", nullptr}};

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
  const StatusOr<StreamedAnswer> answer = Stream(flags, engine, std::move(request), &output);
  if (!answer.ok()) return base::Fail(answer.status());
  if (!output.ok()) return output.End();
  if (!answer->result.status.ok()) return base::Fail(answer->result.status);
  if (flags.stats) base::Note("(" + StatsLine(*answer) + ")\n");
  return 0;
}

int ChatInTerminal(const RunFlags& flags, LineEditor* lines, Engine* engine) {
  return ChatProgram(flags, lines, engine).Run();
}

}  // namespace ropeway::cli
