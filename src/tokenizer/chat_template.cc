#include "tokenizer/chat_template.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "base/chat_size.h"
#include "base/utf8.h"
#include "tokenizer/chat_values.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/template_trials.h"

namespace ropeway::tokenizer {
namespace {

constexpr size_t kMaxSourceBytes = size_t{1} << 20U;
// Common templates take less than a hundred steps per message. Some go through all messages for
// each of them, or through a message's characters.
constexpr double kSteps = 200'000;
constexpr double kStepsPerMessage = 1000;
constexpr double kStepsPerMessageCubed = 16;
constexpr double kStepsPerByte = 64;
// A template holds each message's text a few times: once for each "+" and once to write it.
constexpr double kHeldPerByte = 32;
// One that goes through all messages for each may make their text as often.
constexpr double kMadePerStep = 64;
constexpr double kMadePerMessageAndByte = 8;
#ifdef ROPEWAY_FUZZ
// With the fuzzers' instrumentation a byte takes a hundred times as long.
constexpr double kHeldBytes = 1 << 20;
constexpr double kMostSteps = 1'000'000;
constexpr double kMostMade = 1 << 26;
#else
constexpr double kHeldBytes = 64 << 20;
// Each takes a few seconds; the client may stop it earlier.
constexpr double kMostSteps = 150'000'000;
constexpr double kMostMade = 512 << 20;
#endif

// Errors may quote the template or the messages: they are clipped and made printable.
constexpr size_t kMaxErrorBytes = 1000;

std::string Clipped(std::string_view text) {
  if (text.size() <= kMaxErrorBytes) return std::string(text);
  return std::string(text.substr(0, kMaxErrorBytes)) + "...";
}

std::string At(const std::string& name, const jinja::Error& error) {
  return name + ", line " + std::to_string(error.line) + ": " +
         base::PrintableText(Clipped(error.what()));
}

// What the chat may take to render: more for one with more to render, up to a bound. (As doubles,
// which do not overflow.)
jinja::Bounds BoundsOf(const Chat& chat) {
  size_t text = base::OtherTextBytes(chat);
  size_t entries = chat.tools.size();
  for (const ChatMessage& message : chat.messages) {
    text += base::TextBytes(message);
    entries += 1 + message.tool_calls.size();
  }
  // Calls and tools take as many steps as messages; parts take less.
  const auto messages = static_cast<double>(entries);
  const auto bytes = static_cast<double>(text);
  const double more = kStepsPerMessage * messages +
                      kStepsPerMessageCubed * messages * messages * messages +
                      kStepsPerByte * bytes;
  const double held = kHeldBytes + kHeldPerByte * bytes;
  const double made = held + kMadePerStep * more + kMadePerMessageAndByte * messages * bytes;
  return {.steps = static_cast<int64_t>(std::min(kSteps + more, kMostSteps)),
          .made = static_cast<size_t>(std::max(held, std::min(made, kMostMade))),
          .held = static_cast<size_t>(held)};
}

// Cuts the chat behind what the last message says, as Hugging Face's renderer does. What looks the
// same in the template's own text does not count.
Status CutBehind(std::string_view said, RenderedChat* chat) {
  constexpr const char* kField = "continue_final_message";
  const std::string_view begun = jinja::StripLeft(said);
  const std::string_view stripped = jinja::StripRight(begun);
  if (stripped.empty()) {
    return InvalidArgument("continue_final_message needs a last message with text as its content",
                           kField);
  }
  const std::string_view text = chat->text;
  for (auto span = chat->quoted.rbegin(); span != chat->quoted.rend(); ++span) {
    const size_t at =
        jinja::FindLastText(text.substr(span->begin, span->end - span->begin), stripped);
    if (at == text.npos) continue;
    const size_t begin = span->begin + at;
    // White space at its end stays where the template shows it.
    const bool all = text.substr(begin).starts_with(begun);
    const size_t end = begin + (all ? begun : stripped).size();
    chat->quoted = SpansWithin(chat->quoted, 0, end);
    chat->text.resize(end);
    return {};
  }
  return InvalidArgument(
      "continue_final_message needs a last message whose content the model's chat template shows "
      "unchanged",
      kField);
}

std::tm UtcTime(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm time{};
  gmtime_r(&seconds, &time);
  return time;
}

}  // namespace

struct ChatTemplate::Program {
  jinja::Body body;
  std::string name;
  TemplateTraits traits = {};
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

const TemplateTraits& ChatTemplate::traits() const { return program_->traits; }

StatusOr<ChatTemplate> ChatTemplate::Parse(const std::string& source, const std::string& name) {
  if (source.size() > kMaxSourceBytes) {
    return Status(StatusCode::kUnimplemented,
                  name + ": must have at most " + std::to_string(kMaxSourceBytes) + " bytes, got " +
                      std::to_string(source.size()),
                  name);
  }
  try {
    Program program{jinja::Parse(source), name};
    program.traits = FindTraits(program.body, source);
    return ChatTemplate(std::make_shared<const Program>(std::move(program)));
  } catch (const jinja::Error& error) {
    return Status(StatusCode::kUnimplemented, At(name, error), name);
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, name + ": " + error.what(), name);
  }
}

StatusOr<RenderedChat> ChatTemplate::Render(const Chat& chat, std::string_view bos_token,
                                            std::string_view eos_token,
                                            std::chrono::system_clock::time_point now,
                                            const std::function<bool(size_t held)>& stopped) const {
  if (chat.continue_final_message && chat.messages.empty()) {
    return InvalidArgument("continue_final_message needs a last message", "continue_final_message");
  }
  const StatusOr<ChatValues> values =
      MakeChatValues(chat, program_->traits, bos_token, eos_token, stopped);
  if (!values.ok()) return values.status();
  std::function<bool(size_t)> asks;
  if (stopped) {
    asks = [&stopped, taken = values->bytes](size_t held) { return stopped(taken + held); };
  }
  jinja::Context context(BoundsOf(chat), UtcTime(now), std::move(asks));
  try {
    jinja::Str str = jinja::Render(program_->body, values->globals, context);
    RenderedChat rendered{std::move(str.text), std::move(str.quoted)};
    if (chat.continue_final_message) {
      Status status = CutBehind(LastTextOf(chat.messages.back(), program_->traits), &rendered);
      if (!status.ok()) return status;
    }
    return rendered;
  } catch (const jinja::Raised& raised) {
    return InvalidArgument(base::PrintableText(Clipped(raised.what())), "messages");
  } catch (const jinja::Error& error) {
    return InvalidArgument(At(program_->name, error), "messages");
  } catch (const jinja::Stopped&) {
    return Status(StatusCode::kCancelled, "the rendering was stopped");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, program_->name + ": " + error.what(), program_->name);
  }
}

}  // namespace ropeway::tokenizer
