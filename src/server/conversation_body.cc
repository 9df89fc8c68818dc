#include "server/conversation_body.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/fields.h"
#include "api/json.h"
#include "base/json.h"
#include "server/stored_answers.h"

namespace ropeway::server {
namespace {

using Json = nlohmann::ordered_json;

// A fault that the dialect has found in its `input`, as a fault of `items`.
Status AboutItems(const Status& status) {
  constexpr std::string_view kTheirs = "input";
  constexpr std::string_view kOurs = "items";
  std::string field = status.field();
  if (field.starts_with(kTheirs)) field.replace(0, kTheirs.size(), kOurs);
  std::string message = status.message();
  for (const char* const before : {"'", "\""}) {
    const std::string quoted = before + std::string(kTheirs);
    for (size_t at = 0; (at = message.find(quoted, at)) != std::string::npos; ++at) {
      const size_t end = at + quoted.size();
      // Not the type "input_text".
      if (end == message.size() || message[end] == '_') continue;
      message.replace(at + 1, kTheirs.size(), kOurs);
    }
  }
  Status about(status.code(), std::move(message), std::move(field));
  about.set_api_code(status.api_code());
  return about;
}

// The body of a request for a response that has this input, and more members.
std::string ResponsesBody(std::string_view input, std::string_view more) {
  return fmt::format(R"({{"model":"default","input":{}{}}})", input, more);
}

}  // namespace

StatusOr<ConversationBody> ReadConversationBody(std::string_view body,
                                                const api::BodyLimits& limits,
                                                const ConversationFields& fields,
                                                std::vector<std::string>* ignored) {
  const StatusOr<Json> document =
      base::ReadOrderedJson(body.empty() ? "{}" : body, limits.json, "The body");
  if (!document.ok()) return document.status();
  if (!document->is_object()) return InvalidArgument("The body must be a JSON object.");
  std::vector<std::string_view> used;
  if (fields.metadata) used.emplace_back("metadata");
  if (fields.items) used.emplace_back("items");
  api::FieldReport report(api::kConversations, limits);
  ConversationBody read;
  for (const auto& [name, value] : document->items()) {
    if (name == "metadata" && fields.metadata) {
      read.metadata = value.is_null() ? "{}" : api::DumpJson(value);
    } else if (name == "items" && fields.items && !value.is_null()) {
      if (!value.is_array() || value.size() > kMostItemsAtOnce) {
        report.Add(InvalidArgument(
            fmt::format("'items' must be a list of at most {} items.", kMostItemsAtOnce), "items"));
      }
      read.items = api::DumpJson(value);
      read.item_count = value.size();
    } else if (name != "items" || !fields.items) {
      report.AddOther("", name, value.is_null() ? nlohmann::json() : nlohmann::json(true),
                      api::ShownName(name), used);
    }
  }
  ignored->insert(ignored->end(), report.ignored().begin(), report.ignored().end());
  const bool lacks = (fields.required == "items" && read.item_count == 0) ||
                     (fields.required == "metadata" && !read.metadata);
  if (lacks && report.status().ok()) {
    const char* const what =
        read.item_count == 0 && read.items == "[]" ? "is empty" : "is required";
    return InvalidArgument(fmt::format("'{}' {}.", fields.required, what), fields.required);
  }
  if (Status status = report.status(); !status.ok()) return status;
  return read;
}

StatusOr<Items> NormalItems(const ConversationBody& body, const Items* before,
                            const api::BodyLimits& limits, api::ApiFormatMaker responses) {
  const bool has_items = body.item_count > 0;
  std::string more;
  if (body.metadata) more += ",\"metadata\":" + *body.metadata;
  // What goes on from a conversation may answer calls in that.
  if (before != nullptr) more += R"(,"conversation":"conv_")";
  const std::unique_ptr<api::ApiFormat> format = responses();
  Status status = format->Parse(ResponsesBody(has_items ? body.items : "\"-\"", more), limits);
  if (!status.ok()) return AboutItems(status);
  if (!has_items) return Items();
  auto* const items = dynamic_cast<api::ItemFormat*>(format.get());
  if (items == nullptr) return Status(StatusCode::kInternal, "The dialect has no items.");
  if (before != nullptr) status = items->Continue(*before);
  if (!status.ok()) return AboutItems(status);
  api::AnswerHead head;
  head.id = DrawId("");
  head.stored = true;
  items->Start(std::move(head));
  return items->InputItems();
}

Status CheckInclude(const std::vector<std::string>& include, const api::BodyLimits& limits,
                    api::ApiFormatMaker responses) {
  if (include.empty()) return {};
  const std::string more = ",\"include\":" + api::DumpJson(Json(include));
  return responses()->Parse(ResponsesBody("\"-\"", more), limits);
}

Status AddItems(Items items, store::Conversation* conversation) {
  if (conversation->items.size() + items.size() > kMostConversationItems) {
    return InvalidArgument(
        fmt::format("'items' must leave the conversation at most {} items, but it has {} already.",
                    kMostConversationItems, conversation->items.size()),
        "items");
  }
  conversation->items.insert(conversation->items.end(), std::make_move_iterator(items.begin()),
                             std::make_move_iterator(items.end()));
  return {};
}

std::string ConversationJson(const std::string& id, int64_t created_ms,
                             const store::Conversation& conversation) {
  std::string text = R"({"id":)";
  api::AppendJsonString(id, &text);
  return text + fmt::format(R"(,"object":"conversation","created_at":{},"metadata":{}}})",
                            created_ms / 1000, conversation.metadata);
}

}  // namespace ropeway::server
