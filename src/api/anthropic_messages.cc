#include "api/anthropic_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "api/chat_messages.h"
#include "api/json.h"
#include "api/ordered_messages.h"

namespace ropeway::api::anthropic {
namespace {

using base::Member;
using nlohmann::json;

// A block of Claude Code's that is for Anthropic's bills. It differs from request to request, so
// that no prefix behind it would be found in the cache.
constexpr std::string_view kBillingBlock = "x-anthropic-billing-header:";

constexpr char kBlocks[] = "a string or a list of content blocks";

// Adds a text to what the message says. A list of one text is that text: so answers are sent back.
void AddPart(const std::string& text, ChatMessage* message) {
  if (message->content.empty()) {
    message->content = text;
    return;
  }
  if (text.empty()) return;
  if (message->part_sizes.empty()) message->part_sizes.push_back(message->content.size());
  message->content += '\n';
  message->content += text;
  message->part_sizes.push_back(text.size());
}

Status OtherBlock(const json& type, const std::string& at, const char* good) {
  if (!type.is_string()) {
    return Mismatch(type, at + ".type", "the type of a content block, such as \"text\"");
  }
  return Unsupported(at + ".type", fmt::format(" as \"{}\"; it may be {}",
                                               ShownName(type.get<std::string>()), good));
}

// A text or a list of text blocks. `parent`: what the names of rows for members of a block begin
// with.
void ReadTexts(const json& value, const std::string& at, std::string_view parent,
               FieldReport* report, ChatMessage* message) {
  if (value.is_string()) return AddPart(value.get<std::string>(), message);
  if (!value.is_array()) return report->Add(Mismatch(value, at, "a string or a list of texts"));
  for (size_t i = 0; i < value.size() && !report->full(); ++i) {
    const std::string place = fmt::format("{}[{}]", at, i);
    if (!value[i].is_object()) {
      report->Add(Mismatch(value[i], place, "an object"));
    } else if (Member(value[i], "type") != "text") {
      report->Add(OtherBlock(Member(value[i], "type"), place, "\"text\""));
    } else {
      constexpr std::string_view kUsed[] = {"type", "text"};
      ReportOthers(value[i], parent, place, kUsed, report);
      std::string text;
      report->Add(Store(ReadString(Member(value[i], "text"), place + ".text"), &text));
      if (!text.starts_with(kBillingBlock)) AddPart(text, message);
    }
  }
}

// Reads the messages in order.
class Reader {
 public:
  Reader(std::string field, const BodySource& source)
      : field_(std::move(field)), report_(source.report), ordered_(field_, source) {}

  void Read(const json& value, size_t index) {
    const std::string at = fmt::format("{}[{}]", field_, index);
    if (!value.is_object()) return report_->Add(Mismatch(value, at, "an object"));
    constexpr std::string_view kUsed[] = {"role", "content"};
    ReportOthers(value, "messages[].", at, kUsed, report_);
    const json& role = Member(value, "role");
    const json& content = Member(value, "content");
    const std::string place = at + ".content";
    if (role == "system") {
      ReadTexts(content, place, kParent, report_,
                &messages_.emplace_back(ChatMessage{"system", ""}));
    } else if (role != "user" && role != "assistant") {
      report_->Add(Mismatch(role, at + ".role", R"("user", "assistant" or "system")"));
    } else if (content.is_string()) {
      AddPart(content.get<std::string>(), Speaker(role.get<std::string>()));
    } else if (content.is_array()) {
      const bool asks = role == "user";
      index_ = index;
      if (content.empty()) Speaker(role.get<std::string>());
      for (block_ = 0; block_ < content.size() && !report_->full(); ++block_) {
        ReadBlock(content[block_], fmt::format("{}[{}]", place, block_), asks);
      }
    } else {
      report_->Add(Mismatch(content, place, kBlocks));
    }
  }

  std::vector<ChatMessage> Take() { return std::move(messages_); }

 private:
  static constexpr char kParent[] = "messages[].content[].";

  // The message that this role goes on with.
  ChatMessage* Speaker(std::string role) {
    const bool goes_on = !messages_.empty() && messages_.back().role == role;
    if (!goes_on) messages_.push_back({std::move(role), ""});
    return &messages_.back();
  }

  void ReadBlock(const json& block, const std::string& at, bool asks) {
    if (!block.is_object()) return report_->Add(Mismatch(block, at, "an object"));
    const json& type = Member(block, "type");
    if (type == "text") {
      AddPart(ReadText(block, "text", at), Speaker(asks ? "user" : "assistant"));
    } else if (type == "tool_result" && asks) {
      ReadResult(block, at);
    } else if (type == "tool_use" && !asks) {
      ReadCall(block, at);
    } else if (type == "thinking" && !asks) {
      std::string* const thoughts = &Speaker("assistant")->reasoning_content;
      if (!thoughts->empty()) *thoughts += '\n';
      *thoughts += ReadText(block, "thinking", at);
    } else if (type == "redacted_thinking" && !asks) {
      ReadText(block, "data", at);  // Only the server that wrote it can read it.
    } else {
      report_->Add(OtherBlock(type, at,
                              asks ? R"("text" or "tool_result")"
                                   : R"("text", "thinking", "redacted_thinking" or "tool_use")"));
    }
  }

  // The text of a block that has one.
  std::string ReadText(const json& block, const char* name, const std::string& at) {
    const std::string_view used[] = {"type", name, "signature"};
    const bool thought = std::string_view(name) == "thinking";
    ReportOthers(block, kParent, at, std::span(used).first(thought ? 3 : 2), report_);
    if (thought) ReadTextMember(block, "signature", at, report_);
    std::string text;
    report_->Add(Store(ReadString(Member(block, name), at + "." + name), &text));
    return text;
  }

  std::string ReadName(const json& block, const char* name, const std::string& at,
                       const char* expected) {
    const json& text = Member(block, name);
    if (text.is_string() && text != "") return text.get<std::string>();
    report_->Add(Mismatch(text, at + "." + name, expected));
    return {};
  }

  void ReadCall(const json& block, const std::string& at) {
    constexpr std::string_view kUsed[] = {"type", "id", "name", "input"};
    ReportOthers(block, kParent, at, kUsed, report_);
    ToolCall call;
    call.id = ReadName(block, "id", at, "the id of the call");
    call.name = ReadName(block, "name", at, "the name of a tool");
    if (Member(block, "input").is_object()) {
      report_->Add(Store(InputText(), &call.arguments));
    } else {
      report_->Add(Mismatch(Member(block, "input"), at + ".input", "an object"));
    }
    calls_.insert(call.id);
    Speaker("assistant")->tool_calls.push_back(std::move(call));
  }

  // The input of this call, in the order in which it was sent.
  StatusOr<std::string> InputText() {
    StatusOr<const nlohmann::ordered_json*> content = ordered_.List(index_, "content");
    if (!content.ok()) return content.status();
    return DumpJson((*content)->at(block_).at("input"));
  }

  void ReadResult(const json& block, const std::string& at) {
    constexpr std::string_view kUsed[] = {"type", "tool_use_id", "content", "is_error"};
    ReportOthers(block, kParent, at, kUsed, report_);
    ChatMessage& message = messages_.emplace_back(ChatMessage{"tool", ""});
    message.tool_call_id = ReadName(block, "tool_use_id", at, "the id of a call before it");
    if (!message.tool_call_id.empty() && !calls_.contains(message.tool_call_id)) {
      const std::string field = at + ".tool_use_id";
      report_->AddTogether(
          InvalidArgument(
              fmt::format("'{}' is '{}', but no message before it has a tool_use with this id.",
                          field, ShownName(message.tool_call_id)),
              field),
          {field_});
    }
    const json& content = Member(block, "content");
    if (!content.is_null()) {
      ReadTexts(content, at + ".content", "messages[].content[].content[].", report_, &message);
    }
    bool failed = false;
    const json& is_error = Member(block, "is_error");
    if (!is_error.is_null()) report_->Add(Store(ReadBool(is_error, at + ".is_error"), &failed));
    // Templates have no word for it.
    if (failed) SayThatItFailed(&message);
  }

  static void SayThatItFailed(ChatMessage* message) {
    const std::string_view text = message->content;
    if (text.starts_with("Error") || text.starts_with("error") || text.starts_with("ERROR")) return;
    constexpr std::string_view kError = "Error: ";
    message->content.insert(0, kError);
    if (!message->part_sizes.empty()) message->part_sizes.front() += kError.size();
  }

  const std::string field_;
  FieldReport* const report_;
  std::vector<ChatMessage> messages_;
  std::set<std::string, std::less<>> calls_;  // The ids of all so far.
  size_t index_ = 0;                          // The message that is read.
  size_t block_ = 0;                          // Its block.
  OrderedMessages ordered_;
};

}  // namespace

StatusOr<std::vector<ChatMessage>> ReadMessages(const json& value, const std::string& field,
                                                const BodySource& source) {
  if (!value.is_array()) return Mismatch(value, field, "a list of messages");
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  Reader reader(field, source);
  for (size_t i = 0; i < value.size() && !source.report->full(); ++i) reader.Read(value[i], i);
  return reader.Take();
}

Status ReadSystem(const json& value, const std::string& field, FieldReport* report,
                  ChatMessage* message) {
  message->role = "system";
  ReadTexts(value, field, "system[].", report, message);
  return {};
}

}  // namespace ropeway::api::anthropic
