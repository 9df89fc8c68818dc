// A body of POST /v1/responses: what is accepted is a chat that an engine takes, and its items,
// shown and read again, are the same chat.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "base/json.h"
#include "core/request_check.h"
#include "fuzz/fuzz_target.h"

namespace ropeway::fuzz {
namespace {

using api::ItemFormat;

std::unique_ptr<ItemFormat> MakeFormat() {
  return std::unique_ptr<ItemFormat>(
      static_cast<ItemFormat*>(api::MakeOpenAiResponses().release()));
}

void RequireObject(const std::string& text) {
  const StatusOr<nlohmann::json> json = base::ReadJson(text, {.max_depth = 80}, "the text");
  Require(json.ok() && json->is_object(), "what is shown is no JSON object");
}

bool Same(const std::vector<ToolCall>& a, const std::vector<ToolCall>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].id != b[i].id || a[i].name != b[i].name || a[i].arguments != b[i].arguments) {
      return false;
    }
  }
  return true;
}

bool Same(const std::vector<ChatMessage>& a, const std::vector<ChatMessage>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].role != b[i].role || a[i].content != b[i].content || a[i].name != b[i].name ||
        a[i].reasoning_content != b[i].reasoning_content ||
        a[i].tool_call_id != b[i].tool_call_id || !Same(a[i].tool_calls, b[i].tool_calls)) {
      return false;
    }
  }
  return true;
}

// Goes on from the body's own items.
void CheckItems(ItemFormat* format, const std::vector<ChatMessage>& messages, bool instructed) {
  const std::vector<std::string> items = format->InputItems();
  for (const std::string& item : items) RequireObject(item);
  const std::unique_ptr<ItemFormat> next = MakeFormat();
  Require(next->Parse(R"({"previous_response_id":"resp_1"})", {}).ok(), "a good body");
  const Status status = next->Continue(items);
  if (items.empty()) return RequireError(status);
  Require(status.ok(), "an item that was shown is not read");
  std::vector<ChatMessage> own = messages;
  if (instructed) own.erase(own.begin());
  Require(Same(std::get<Chat>(next->request()->prompts.front()).messages, own), "another chat");
}

void CheckBody(std::string_view body) {
  const std::unique_ptr<ItemFormat> format = MakeFormat();
  const Status status = format->Parse(body, {});
  if (!status.ok()) return RequireError(status);
  const api::ApiRequest& api = *format->request();
  Require(api.prompts.size() == 1 && api.n == 1, "one answer");
  const Chat chat = std::get<Chat>(api.prompts.front());
  const bool goes_on = !api.keeping.previous.empty() || !api.keeping.conversation.empty();
  Require(goes_on || core::CheckChat(chat).ok(), "a chat that no engine takes");
  api::AnswerHead head;
  head.id = "1";
  head.stored = true;
  format->Start(head);
  api::ChoiceOutput output;
  output.text = "a";
  const std::string whole = format->Whole({output});
  RequireObject(whole);
  if (!goes_on) {
    CheckItems(format.get(), chat.messages,
               nlohmann::json::parse(whole)["instructions"].is_string());
  }
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ropeway::fuzz::CheckBody({reinterpret_cast<const char*>(data), size});
  return 0;
}
