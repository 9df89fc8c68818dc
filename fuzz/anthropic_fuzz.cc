// A body of POST /v1/messages: what is accepted is a chat that an engine takes, whose answer is
// JSON, whole and as a stream; and sent back with its answer it is accepted again.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "api/dialects.h"
#include "base/json.h"
#include "core/request_check.h"
#include "fuzz/fuzz_target.h"

namespace ropeway::fuzz {
namespace {

using api::ApiFormat;
using nlohmann::json;

json RequireObject(std::string_view text) {
  StatusOr<json> read = base::ReadJson(text, {.max_depth = 80, .repeated_keys = true}, "the text");
  Require(read.ok() && read->is_object(), "what is shown is no JSON object");
  return *std::move(read);
}

// An answer that thinks, speaks and calls; its call has a piece of the body as arguments.
Delta SaidOf(std::string_view body) {
  Delta said;
  said.reasoning = "t";
  said.text = "a";
  said.tool_calls.push_back({0, "id", "f", std::string(body.substr(0, 40))});
  return said;
}

void CheckStream(ApiFormat* format, const Delta& said, const Finish& finish) {
  format->OnAdmitted(3);
  std::string stream = format->Begin() + format->OnDelta(0, said) + format->OnEnd(0, finish);
  stream += format->Done();
  for (std::string_view rest = stream; !rest.empty();) {
    const size_t end = rest.find("\n\n");
    const size_t line = rest.find("\ndata: ");
    Require(line < end && end != rest.npos && rest.starts_with("event: "), "no event");
    const json event = RequireObject(rest.substr(line + 7, end - line - 7));
    Require(event["type"] == rest.substr(7, line - 7), "an event of another type");
    rest.remove_prefix(end + 2);
  }
}

void CheckBody(std::string_view body) {
  const std::unique_ptr<ApiFormat> format = api::MakeAnthropicMessages();
  const Status status = format->Parse(body, {});
  if (!status.ok()) {
    RequireError(status);
    RequireObject(format->ErrorBody(api::ToApiError(status)));
    return;
  }
  const api::ApiRequest& api = *format->request();
  Require(api.prompts.size() == 1 && api.n == 1, "one answer");
  const Chat chat = std::get<Chat>(api.prompts.front());
  Require(core::CheckChat(chat).ok(), "a chat that no engine takes");
  Require(api::MakeAnthropicCount()->Parse(body, {}).ok(), "a prompt that is not counted");
  format->Start({.id = "1", .model = "m"});
  Finish finish;
  finish.stop = api.request.stop.empty() ? -1 : 0;
  const Delta said = SaidOf(body);
  CheckStream(format.get(), said, finish);
  api::ChoiceOutput output;
  AddTo(said, &output);
  output.finish = finish;
  json answer = RequireObject(format->Whole({output}));

  // What continues a message, or has as many as a body may have, cannot go on.
  if (chat.continue_final_message) return;
  json next = RequireObject(body);
  next["messages"].push_back({{"role", "assistant"}, {"content", answer["content"]}});
  next["messages"].push_back(json::parse(R"({"role":"user","content":[
      {"type":"tool_result","tool_use_id":"id","content":"1"}]})"));
  const std::unique_ptr<ApiFormat> second = api::MakeAnthropicMessages();
  const Status again =
      second->Parse(next.dump(), {.json = {.max_depth = 100, .max_values = 10'000'000}});
  Require(again.ok(), "its own answer is not read: " + again.message());
  const Chat& longer = std::get<Chat>(second->request()->prompts.front());
  Require(longer.messages.size() >= chat.messages.size() + 1, "a message is lost");
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ropeway::fuzz::CheckBody({reinterpret_cast<const char*>(data), size});
  return 0;
}
