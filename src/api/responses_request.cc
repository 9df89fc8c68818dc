#include "api/responses_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/chat_messages.h"
#include "api/json.h"
#include "api/output_format.h"
#include "api/tool_choice.h"
#include "base/json.h"

namespace ropeway::api {
namespace {

using base::Member;
using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostMetadata = 16;
constexpr size_t kMostKeyCharacters = 64;
constexpr size_t kMostValueCharacters = 512;

using ResponsesReader = Status (*)(const json& value, const std::string& field,
                                   ResponsesBody* body);

FieldReader<OpenAiBody> Own(ResponsesReader read) {
  return [read](const json& value, const std::string& field, OpenAiBody* body) {
    return read(value, field, static_cast<ResponsesBody*>(body));
  };
}

std::string Dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status ReadInput(const json& value, const std::string& field, ResponsesBody* body) {
  body->has_input = true;
  return ReadInputItems(value, field, body->report, &body->items);
}

Status ReadInstructions(const json& value, const std::string& field, ResponsesBody* body) {
  return Store(ReadString(value, field), &body->instructions);
}

Status ReadText(const json& value, const std::string& field, ResponsesBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  constexpr std::string_view kUsed[] = {"format"};
  ReportOthers(value, "text.", field, kUsed, body->report);
  const json& format = Member(value, "format");
  if (!format.is_null()) body->report->Add(ReadTextFormat(format, body));
  // A schema's properties are shown in their order, too.
  StatusOr<OrderedJson> shown =
      base::ReadOrderedMember(body->text, {field}, body->bounds, "the object");
  if (!shown.ok()) return InvalidArgument(field + ": " + shown.status().message(), field);
  if (format.is_null()) (*shown)["format"] = {{"type", "text"}};
  body->text_json = DumpJson(*shown);
  return {};
}

Status ReadReasoning(const json& value, const std::string& field, ResponsesBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  constexpr std::string_view kUsed[] = {"effort"};
  ReportOthers(value, "reasoning.", field, kUsed, body->report);
  const json& effort = Member(value, "effort");
  if (!effort.is_null()) {
    body->report->Add(Store(ReadString(effort, field + ".effort"), &body->reasoning_effort));
  }
  body->reasoning_summary_json = Dumped(Member(value, "summary"));
  return {};
}

Status ReadChoiceOfTools(const json& value, const std::string& field, ResponsesBody* body) {
  body->tool_choice_json = Dumped(value);
  return ReadToolChoice(value, field, body);
}

Status ReadInclude(const json& value, const std::string& field, ResponsesBody* body) {
  // What there is none of here is left out of every answer.
  constexpr std::string_view kKnown[] = {"message.output_text.logprobs",
                                         "reasoning.encrypted_content",
                                         "message.input_image.image_url",
                                         "file_search_call.results",
                                         "web_search_call.results",
                                         "web_search_call.action.sources",
                                         "computer_call_output.output.image_url",
                                         "code_interpreter_call.outputs"};
  if (!value.is_array()) return Mismatch(value, field, "a list of what the answer is to include");
  for (size_t i = 0; i < value.size() && !body->report->full(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const std::string_view name = base::Text(value[i]);
    if (std::ranges::find(kKnown, name) == std::end(kKnown)) {
      body->report->Add(Mismatch(value[i], at, fmt::format("one of {}", fmt::join(kKnown, ", "))));
    }
    if (name == kKnown[0]) body->logprobs = true;
  }
  return {};
}

Status ReadTruncation(const json& value, const std::string& field, ResponsesBody*) {
  if (value == "disabled") return {};
  if (value != "auto") return Mismatch(value, field, R"("disabled")");
  return Unsupported(field,
                     " as \"auto\": no item is left out of a prompt that is too long; it is "
                     "an error with the code context_length_exceeded");
}

size_t CharactersOf(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

Status ReadMetadata(const json& value, const std::string& field, ResponsesBody* body) {
  if (value.is_object() && value.size() > kMostMetadata) {
    return InvalidArgument(fmt::format("'{}' must be an object of at most {} strings, but has {}.",
                                       field, kMostMetadata, value.size()),
                           field);
  }
  if (!value.is_object()) {
    return Mismatch(value, field, fmt::format("an object of at most {} strings", kMostMetadata));
  }
  for (const auto& [key, text] : value.items()) {
    const std::string at = field + "." + ShownName(key);
    if (CharactersOf(key) > kMostKeyCharacters) {
      return InvalidArgument(fmt::format("'{}' has a key of more than {} characters: '{}'.", field,
                                         kMostKeyCharacters, ShownName(key)),
                             field);
    }
    if (!text.is_string() ||
        CharactersOf(text.get_ref<const std::string&>()) > kMostValueCharacters) {
      return Mismatch(text, at,
                      fmt::format("a string of at most {} characters", kMostValueCharacters));
    }
  }
  body->metadata_json = Dumped(value);
  return {};
}

// --- How long it is kept.

Status ReadPrevious(const json& value, const std::string& field, ResponsesBody* body) {
  if (!value.is_string() || value == "") return Mismatch(value, field, "the id of a response");
  body->keeping.previous = value.get<std::string>();
  return {};
}

Status ReadConversation(const json& value, const std::string& field, ResponsesBody* body) {
  const json& id = value.is_object() ? Member(value, "id") : value;
  if (!id.is_string() || id == "") {
    return Mismatch(value, field, "the id of a conversation, or {\"id\"}");
  }
  if (value.is_object()) {
    constexpr std::string_view kUsed[] = {"id"};
    ReportOthers(value, "conversation.", field, kUsed, body->report);
  }
  body->keeping.conversation = id.get<std::string>();
  return {};
}

// --- The body as a whole.

// The chat's messages: the instructions, then the items.
StatusOr<std::vector<ChatMessage>> MessagesOf(const std::string& instructions,
                                              const std::vector<InputItem>& history,
                                              const std::vector<InputItem>& items, bool checks) {
  ItemMessages messages;
  if (!instructions.empty()) {
    InputItem first;
    first.message = {"system", instructions};
    static_cast<void>(messages.Add(first));  // A message has no fault.
  }
  // An output whose call was deleted from a conversation is no fault of this request.
  for (const InputItem& item : history) static_cast<void>(messages.Add(item));
  for (const InputItem& item : items) {
    Status fault = messages.Add(item);
    if (checks && !fault.ok()) return fault;
  }
  return messages.Take();
}

// What "tools" is in the answer.
std::string ToolsJson(const std::vector<Tool>& tools) {
  std::string list = "[";
  for (const Tool& tool : tools) {
    list += list.size() > 1 ? "," : "";
    list += R"({"type":"function","name":)";
    AppendJsonString(tool.name, &list);
    list += ",\"description\":";
    if (tool.description.empty()) {
      list += "null";
    } else {
      AppendJsonString(tool.description, &list);
    }
    list += ",\"parameters\":" + (tool.parameters.empty() ? "null" : tool.parameters);
    list += fmt::format(",\"strict\":{}}}", tool.strict);
  }
  return list + "]";
}

std::string OrNull(const std::string& text) {
  if (text.empty()) return "null";
  std::string json;
  AppendJsonString(text, &json);
  return json;
}

// A number that the request gave; what the server or its model would take is not told.
std::string GivenOrNull(const SamplingParams& sampling, uint32_t bit, float value) {
  return (sampling.given & bit) != 0 ? fmt::format("{}", value) : "null";
}

std::string EchoOf(const ResponsesBody& body) {
  const Request& request = body.request;
  const Keeping& keeping = body.keeping;
  const std::string& choice = body.tool_choice_json;
  const std::string& text = body.text_json;
  const std::string& metadata = body.metadata_json;
  const std::string& summary = body.reasoning_summary_json;
  std::string echo = ",\"background\":";
  echo += keeping.background ? "true" : "false";
  echo += ",\"instructions\":" + OrNull(body.instructions);
  echo += ",\"max_output_tokens\":";
  echo += request.max_tokens ? fmt::format("{}", *request.max_tokens) : "null";
  echo +=
      fmt::format(",\"max_tool_calls\":null,\"parallel_tool_calls\":{}", body.parallel_tool_calls);
  echo += ",\"previous_response_id\":" + OrNull(keeping.previous);
  echo += ",\"conversation\":";
  echo += keeping.conversation.empty() ? "null" : "{\"id\":" + OrNull(keeping.conversation) + "}";
  echo += ",\"reasoning\":{\"effort\":" + OrNull(body.reasoning_effort.value_or(""));
  echo += ",\"summary\":" + (summary.empty() ? "null" : summary) + "}";
  const SamplingParams& sampling = request.sampling;
  echo += ",\"temperature\":" +
          GivenOrNull(sampling, SamplingParams::kTemperature, sampling.temperature);
  echo += ",\"text\":" + (text.empty() ? R"({"format":{"type":"text"}})" : text);
  echo += ",\"tool_choice\":" + (choice.empty() ? "\"auto\"" : choice);
  echo += ",\"tools\":" + ToolsJson(body.tools);
  echo += fmt::format(",\"top_logprobs\":{}", body.top_logprobs.value_or(0));
  echo += ",\"top_p\":" + GivenOrNull(sampling, SamplingParams::kTopP, sampling.top_p);
  echo += ",\"truncation\":\"disabled\",\"metadata\":" + (metadata.empty() ? "{}" : metadata);
  return echo;
}

void FinishResponses(ResponsesBody* body, FieldReport* report) {
  body->echo = EchoOf(*body);  // Before the tools are moved out.
  body->repeated_bytes = body->echo.size();
  const Keeping& keeping = body->keeping;
  const bool goes_on = !keeping.previous.empty() || !keeping.conversation.empty();
  if (!body->has_input && !goes_on) {
    report->AddTogether(InvalidArgument("'input' is required.", "input"));
  } else if (body->items.empty() && !goes_on) {
    report->AddTogether(InvalidArgument("'input' is empty.", "input"));
  }
  // Where something comes before it, an input may answer calls of that: ContinueItems checks it.
  StatusOr<std::vector<ChatMessage>> messages =
      MessagesOf(body->instructions, {}, body->items, /*checks=*/!goes_on);
  if (!messages.ok()) {
    report->AddTogether(messages.status(), {"input"});
  } else {
    body->messages = *std::move(messages);
  }
  Chat chat;
  if (!body->messages.empty()) {
    chat = TakeChat(body, report);
    SetToolChoice(*body, &chat, report);
  } else if (goes_on) {
    // There is none before ContinueItems.
    body->messages.push_back({"user", ""});
    chat = TakeChat(body, report);
    SetToolChoice(*body, &chat, report);
    chat.messages.clear();
  }
  body->prompts.emplace_back(std::move(chat));
  if (body->top_logprobs.value_or(0) > 0 && !body->logprobs) {
    report->AddTogether(
        InvalidArgument("'top_logprobs' needs 'include' to have \"message.output_text.logprobs\".",
                        "top_logprobs"),
        {"include"});
  }
  if (body->logprobs) body->request.logprobs = body->top_logprobs.value_or(0);
}

}  // namespace

const FieldTable<OpenAiBody>& ResponsesFields() {
  static const FieldTable<OpenAiBody> table = [] {
    FieldReaders<OpenAiBody> own = ChatReaders<OpenAiBody>();
    for (const char* of_chats :
         {"messages", "reasoning_effort", "add_generation_prompt", "continue_final_message"}) {
      own.erase(of_chats);
    }
    own.insert({{"input", Own(ReadInput)},
                {"instructions", Own(ReadInstructions)},
                {"text", Own(ReadText)},
                {"reasoning", Own(ReadReasoning)},
                {"tool_choice", Own(ReadChoiceOfTools)},
                {"parallel_tool_calls", FieldOf(ReadBool, &OpenAiBody::parallel_tool_calls)},
                {"include", Own(ReadInclude)},
                {"top_logprobs", IntField(0, kMaxLogprobs, &OpenAiBody::top_logprobs)},
                {"truncation", Own(ReadTruncation)},
                {"metadata", Own(ReadMetadata)},
                {"previous_response_id", Own(ReadPrevious)},
                {"conversation", Own(ReadConversation)}});
    FieldTable<OpenAiBody> all = WithOpenAiFields(kResponses, std::move(own));
    for (const char* of_others : {"n", "prompt_logprobs", "response_format", "ropeway_gateway"}) {
      all.readers.erase(of_others);
    }
    // A response has output: 0 is for prompts that are only looked at.
    FieldReader<OpenAiBody>& length = all.readers.at("max_output_tokens");
    length = [read = length](const json& value, const std::string& field, OpenAiBody* body) {
      Status status =
          value == -1 ? Status()
                      : ReadInt32(value, field, 1, std::numeric_limits<int32_t>::max()).status();
      return status.ok() ? read(value, field, body) : status;
    };
    return all;
  }();
  return table;
}

Status ReadResponsesBody(std::string_view text, const BodyLimits& limits, ResponsesBody* body) {
  const auto finish = [body](FieldReport* report) { FinishResponses(body, report); };
  return ReadOpenAiBody(text, limits, ResponsesFields(), "", finish, body);
}

Status ContinueItems(const std::vector<std::string>& history, ResponsesBody* body) {
  const std::string field =
      body->keeping.conversation.empty() ? "previous_response_id" : "conversation";
  std::vector<InputItem> before;
  before.reserve(history.size());
  std::set<std::string, std::less<>> ids;
  for (const std::string& text : history) {
    StatusOr<InputItem> item = ReadShownItem(text, field);
    if (!item.ok()) return item.status();
    ids.insert(item->id);
    before.push_back(*std::move(item));
  }
  for (InputItem& item : body->items) {
    if (ids.contains(item.id)) item.id.clear();
  }
  StatusOr<std::vector<ChatMessage>> messages =
      MessagesOf(body->instructions, before, body->items, /*checks=*/true);
  if (!messages.ok()) return messages.status();
  if (messages->empty())
    return InvalidArgument("'input' is empty, as is what it goes on from.", "input");
  std::get<Chat>(body->prompts.front()).messages = *std::move(messages);
  return {};
}

}  // namespace ropeway::api
