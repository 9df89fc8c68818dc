#include "tokenizer/chat_template.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "base/chat_size.h"
#include "base/utf8.h"
#include "tokenizer/jinja/ast.h"

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

constexpr size_t kMaxRoleBytes = 64;

// What the values of a message take besides their text.
constexpr size_t kMessageBytes = 512;
// Messages of so many bytes are made values in about a millisecond.
constexpr size_t kTakenToAsk = size_t{1} << 20U;

std::string Clipped(std::string_view text) {
  if (text.size() <= kMaxErrorBytes) return std::string(text);
  return std::string(text.substr(0, kMaxErrorBytes)) + "...";
}

std::string At(const std::string& name, const jinja::Error& error) {
  return name + ", line " + std::to_string(error.line) + ": " +
         base::PrintableText(Clipped(error.what()));
}

// Text of a message.
jinja::Value Said(const std::string& text) {
  jinja::Str str{text};
  AddSpan(0, text.size(), &str.quoted);
  return jinja::Value::Of(std::move(str));
}

// The client chooses a role from a few, and some templates make a control token of
// it ("<|" + role + "|>"), so a plain name counts as the template's own. No other text does: it
// could close the token and write more.
jinja::Value RoleValue(const std::string& role) {
  const bool plain = !role.empty() && role.size() <= kMaxRoleBytes &&
                     std::all_of(role.begin(), role.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '-';
                     });
  return plain ? jinja::Value::Of(role) : Said(role);
}

jinja::Value MessageValue(const ChatMessage& message) {
  using jinja::Value;
  jinja::Dict entries = {{Value::Of("role"), RoleValue(message.role)},
                         {Value::Of("content"), Said(message.content)}};
  // Only if set: templates test whether they are defined.
  if (!message.name.empty()) entries.emplace_back(Value::Of("name"), Said(message.name));
  if (!message.tool_call_id.empty()) {
    entries.emplace_back(Value::Of("tool_call_id"), Said(message.tool_call_id));
  }
  return Value::Of(std::move(entries));
}

// What the chat may take to render: more for one with more to render, up to a bound. (As doubles,
// which do not overflow.)
jinja::Bounds BoundsOf(size_t message_count, size_t text_bytes) {
  const auto messages = static_cast<double>(message_count);
  const auto bytes = static_cast<double>(text_bytes);
  const double more = kStepsPerMessage * messages +
                      kStepsPerMessageCubed * messages * messages * messages +
                      kStepsPerByte * bytes;
  const double held = kHeldBytes + kHeldPerByte * bytes;
  const double made = held + kMadePerStep * more + kMadePerMessageAndByte * messages * bytes;
  return {.steps = static_cast<int64_t>(std::min(kSteps + more, kMostSteps)),
          .made = static_cast<size_t>(std::max(held, std::min(made, kMostMade))),
          .held = static_cast<size_t>(held)};
}

Status StoppedRendering() { return {StatusCode::kCancelled, "the rendering was stopped"}; }

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
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

StatusOr<ChatTemplate> ChatTemplate::Parse(const std::string& source, const std::string& name) {
  if (source.size() > kMaxSourceBytes) {
    return Status(StatusCode::kUnimplemented,
                  name + ": must have at most " + std::to_string(kMaxSourceBytes) + " bytes, got " +
                      std::to_string(source.size()),
                  name);
  }
  try {
    return ChatTemplate(std::make_shared<const Program>(Program{jinja::Parse(source), name}));
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
  using jinja::Value;
  size_t bytes = 0;
  size_t taken = 0;  // By the messages' values.
  size_t asked = 0;
  jinja::List list;
  list.reserve(chat.messages.size());
  for (const ChatMessage& message : chat.messages) {
    const size_t text = base::TextBytes(message);
    bytes += text;
    taken += text + kMessageBytes;
    list.push_back(MessageValue(message));
    if (taken - asked < kTakenToAsk) continue;
    asked = taken;
    if (stopped && stopped(taken)) return StoppedRendering();
  }
  const jinja::Globals globals = {
      {"messages", Value::Of(std::move(list))},
      {"add_generation_prompt", Value::Of(chat.add_generation_prompt)},
      {"bos_token", Value::Of(bos_token)},
      {"eos_token", Value::Of(eos_token)},
      // As in Hugging Face's renderer without tools and documents.
      {"tools", Value()},
      {"documents", Value()},
  };
  std::function<bool(size_t)> asks;
  if (stopped) asks = [&stopped, taken](size_t held) { return stopped(taken + held); };
  jinja::Context context(BoundsOf(chat.messages.size(), bytes), UtcTime(now), std::move(asks));
  try {
    jinja::Str str = jinja::Render(program_->body, globals, context);
    return RenderedChat{std::move(str.text), std::move(str.quoted)};
  } catch (const jinja::Raised& raised) {
    return InvalidArgument(base::PrintableText(Clipped(raised.what())), "messages");
  } catch (const jinja::Error& error) {
    return InvalidArgument(At(program_->name, error), "messages");
  } catch (const jinja::Stopped&) {
    return StoppedRendering();
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, program_->name + ": " + error.what(), program_->name);
  }
}

}  // namespace ropeway::tokenizer
