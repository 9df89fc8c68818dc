#include "server/event_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/utf8.h"
#include "server/errors.h"
#include "server/logprobs_json.h"

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNull = "null";

std::string DumpPart(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Append(std::vector<OutputToken> tokens, std::vector<OutputToken>* to) {
  to->insert(to->end(), std::make_move_iterator(tokens.begin()),
             std::make_move_iterator(tokens.end()));
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  std::string repaired;
  const bool ascii = std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
  if (!ascii && !IsValidUtf8(text)) {
    repaired = ReplaceInvalidUtf8(text);
    text = repaired;
  }
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", byte);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

EventWriter::EventWriter(AnswerHead head, size_t choices)
    : head_(std::move(head)), choices_(choices) {
  const char* object = head_.chat ? "chat.completion.chunk" : "text_completion";
  begin_ = "data: {\"id\":";
  AppendJsonString(head_.id, &begin_);
  begin_ += fmt::format(",\"object\":\"{}\",\"created\":{},\"model\":", object, head_.created);
  AppendJsonString(head_.model, &begin_);
  if (!head_.service_tier.empty()) {
    begin_ += ",\"service_tier\":";
    AppendJsonString(head_.service_tier, &begin_);
  }
  begin_ += ",\"choices\":[";
  for (size_t i = 0; i < choices; ++i) {
    if (head_.echo.empty()) continue;
    choices_[i].echo_bytes = EchoOf(i).size();
    choices_[i].echo_due = head_.logprobs;
  }
}

const std::string& EventWriter::EchoOf(size_t choice) const {
  return head_.echo[choice / static_cast<size_t>(head_.n)];
}

std::string EventWriter::Chunk(size_t choice, std::string_view text, std::string_view logprobs,
                               std::string_view finish_reason, std::string_view tail) const {
  std::string out;
  out.reserve(begin_.size() + text.size() + logprobs.size() + tail.size() + 128);
  out += begin_;
  fmt::format_to(std::back_inserter(out), "{{\"index\":{},", choice);
  out += text;
  out += ",\"logprobs\":";
  out += logprobs;
  out += ",\"finish_reason\":";
  out += finish_reason;
  out += "}]";
  if (head_.include_usage) out += ",\"usage\":null";
  out += tail;
  out += "}\n\n";
  return out;
}

std::string EventWriter::TextChunk(size_t choice, std::string_view text,
                                   std::string_view logprobs) const {
  std::string json = head_.chat ? "\"delta\":{\"content\":" : "\"text\":";
  AppendJsonString(text, &json);
  if (head_.chat) json += '}';
  return Chunk(choice, json, logprobs, kNull, "");
}

std::string EventWriter::Begin() {
  std::string out;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (head_.chat) {
      out += Chunk(i, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", kNull, kNull, "");
    } else if (choices_[i].echo_bytes > 0 && !choices_[i].echo_due) {
      out += TextChunk(i, EchoOf(i), kNull);
    }
  }
  return out;
}

std::string EventWriter::Echo(size_t choice) {
  Choice& state = choices_[choice];
  const std::string& text = EchoOf(choice);
  const std::vector<OutputToken> tokens = std::exchange(state.prompt_tokens, {});
  const size_t begin = PromptTextBegin(tokens, text);
  state.echo_due = false;
  state.offsets.Append(text);
  Json lists = EmptyCompletionLogprobs();
  AppendCompletionLogprobs(
      tokens,
      [&](const OutputToken& token) {
        return state.offsets.Characters(token.text_offset -
                                        std::min<uint64_t>(begin, token.text_offset));
      },
      &lists);
  return TextChunk(choice, text, DumpPart(lists));
}

std::string EventWriter::Delta(size_t choice, ropeway::Delta delta) {
  Choice& state = choices_[choice];
  if (state.echo_due) Append(std::move(delta.prompt_tokens), &state.prompt_tokens);
  const bool tokens = head_.logprobs && !delta.tokens.empty();
  if (delta.text.empty() && !tokens) return "";
  std::string out;
  if (state.echo_due) out = Echo(choice);
  if (!head_.logprobs) return TextChunk(choice, delta.text, kNull);
  if (head_.chat) return TextChunk(choice, delta.text, DumpPart(ChatLogprobs(delta.tokens)));
  state.offsets.Append(delta.text);
  Json lists = EmptyCompletionLogprobs();
  AppendCompletionLogprobs(
      delta.tokens,
      [&](const OutputToken& token) {
        return state.offsets.Characters(state.echo_bytes + token.text_offset);
      },
      &lists);
  return out + TextChunk(choice, delta.text, DumpPart(lists));
}

std::string EventWriter::End(size_t choice, const Finish& finish) {
  Choice& state = choices_[choice];
  state.finish = finish;
  std::string out;
  if (state.echo_due) out = Echo(choice);
  const std::string reason = fmt::format("\"{}\"", FinishReasonText(finish.reason));
  const std::string tail = ",\"ropeway\":" + RopewayJson(finish);
  return out + Chunk(choice, head_.chat ? "\"delta\":{}" : "\"text\":\"\"", kNull, reason, tail);
}

std::string EventWriter::Done() const {
  std::string out;
  if (head_.include_usage) {
    std::vector<Finish> finishes;
    for (const Choice& choice : choices_) finishes.push_back(choice.finish);
    out = begin_ + "],\"usage\":" + UsageJson(SumUsage(finishes, head_.n)) +
          ",\"ropeway\":" + RopewayJson(finishes.front()) + "}\n\n";
  }
  return out + "data: [DONE]\n\n";
}

std::string EventWriter::Error(const Status& status) {
  return "data: " + ErrorJson(ToApiError(status)) + "\n\n";
}

}  // namespace ropeway
