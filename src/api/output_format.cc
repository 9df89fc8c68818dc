#include "api/output_format.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "api/chat_messages.h"
#include "base/json.h"
#include "core/output_bounds.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using Kind = OutputFormat::Kind;

// Keeps the form that `field` asks for.
Status SetFormat(OutputFormat format, const std::string& field, OpenAiBody* body) {
  OutputFormat* const kept = &body->request.format;
  if (format.kind == Kind::kText) return {};
  if (kept->kind != Kind::kText) {
    return InvalidArgument(fmt::format("'{}' and '{}' cannot be used together: both ask for a form "
                                       "of the answer.",
                                       kept->field, field),
                           field);
  }
  format.field = field;
  *kept = std::move(format);
  return {};
}

// The schema in the order of the body's text, in which its properties are written.
Status SetSchema(const json& value, const std::vector<std::string_view>& path, OpenAiBody* body) {
  std::string field(path[0]);
  for (size_t i = 1; i < path.size(); ++i) field += "." + std::string(path[i]);
  OutputFormat format;
  format.kind = Kind::kJsonSchema;
  if (!value.is_string() && !value.is_object() && !value.is_boolean()) {
    return Mismatch(value, field, "a JSON Schema: an object, true or false");
  }
  const StatusOr<nlohmann::ordered_json> schema =
      value.is_string()
          ? base::ReadOrderedJson(value.get_ref<const std::string&>(), core::kSchemaBounds,
                                  "the schema")
          : base::ReadOrderedMember(body->text, path, core::kSchemaBounds, "the schema");
  if (!schema.ok()) return InvalidArgument(field + ": " + schema.status().message(), field);
  format.schema = schema->dump();
  return SetFormat(std::move(format), field, body);
}

Status SetChoices(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_array() || value.empty() || value.size() > core::kMaxChoices) {
    return Mismatch(value, field, fmt::format("a list of 1 to {} strings", core::kMaxChoices));
  }
  OutputFormat format;
  format.kind = Kind::kChoice;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", field, i);
    StatusOr<std::string> choice = ReadString(value[i], path);
    if (!choice.ok()) return choice.status();
    if (choice->empty()) return Mismatch(value[i], path, "a string of at least one character");
    format.choices.push_back(*std::move(choice));
  }
  return SetFormat(std::move(format), field, body);
}

Status SetRegex(const json& value, const std::string& field, OpenAiBody* body) {
  OutputFormat format;
  format.kind = Kind::kRegex;
  if (Status status = Store(ReadString(value, field), &format.regex); !status.ok()) return status;
  return SetFormat(std::move(format), field, body);
}

Status SetJsonObject(const std::string& field, OpenAiBody* body) {
  OutputFormat format;
  format.kind = Kind::kJsonObject;
  return SetFormat(std::move(format), field, body);
}

Status RejectGrammar(const json& value, const std::string& field, OpenAiBody*) {
  if (value == "" || value == false || value.empty()) return {};  // As empty fields are elsewhere.
  return Unsupported(field,
                     ": a grammar can take any amount of work; use a JSON schema, choices or "
                     "a regular expression");
}

// The members of an object that describes a schema: "name", "description", "schema" and "strict",
// and for a flat one its "type". The schema is always enforced, also without `strict`.
Status ReadDescribedSchema(const json& named, const std::vector<std::string_view>& path, bool flat,
                           OpenAiBody* body) {
  std::string field(path[0]);
  for (size_t i = 1; i < path.size(); ++i) field += "." + std::string(path[i]);
  const auto schema = named.find("schema");
  if (schema == named.end()) {
    return Mismatch(json(), field + ".schema", "a JSON Schema: an object, true or false");
  }
  constexpr std::string_view kUsed[] = {"name", "description", "schema", "strict", "type"};
  const std::span<const std::string_view> used = kUsed;
  for (const auto& [name, value] : named.items()) {
    const std::string at = field + "." + ShownName(name);
    if (name == "strict") {
      if (!value.is_null()) body->report->Add(ReadBool(value, at).status());
    } else if (name == "name" || name == "description") {
      if (!value.is_null()) body->report->Add(ReadString(value, at).status());
    } else if (name != "schema" && !(flat && name == "type")) {
      body->report->AddOther(field + ".", name, value, at, used.first(flat ? 5 : 4));
    }
  }
  std::vector<std::string_view> inner = path;
  inner.emplace_back("schema");
  return SetSchema(*schema, inner, body);
}

// OpenAI's {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}.
Status ReadNamedSchema(const json& format, OpenAiBody* body) {
  const auto named = format.find("json_schema");
  if (named == format.end() || !named->is_object()) {
    return Mismatch(named == format.end() ? json() : *named, "response_format.json_schema",
                    "an object with a name and a schema");
  }
  return ReadDescribedSchema(*named, {"response_format", "json_schema"}, /*flat=*/false, body);
}

// Which of the forms the format asks for; it stands in the field `field`.
StatusOr<std::string> ReadFormatType(const json& value, const std::string& field) {
  if (!value.is_object()) {
    return Mismatch(value, field,
                    R"({"type": "text"}, {"type": "json_object"} or {"type": "json_schema"})");
  }
  const json& type = base::Member(value, "type");
  if (!type.is_string()) {
    return Mismatch(type, field + ".type", R"("text", "json_object" or "json_schema")");
  }
  if (type != "text" && type != "json_object" && type != "json_schema") {
    return SupportsOnly(field + ".type", R"("text", "json_object" and "json_schema")");
  }
  return type.get<std::string>();
}

Status ReadResponseFormat(const json& value, const std::string& field, OpenAiBody* body) {
  const StatusOr<std::string> type = ReadFormatType(value, field);
  if (!type.ok()) return type.status();
  if (*type == "text") return {};
  if (*type == "json_schema") return ReadNamedSchema(value, body);
  // llama.cpp's server takes a schema here.
  const auto schema = value.find("schema");
  if (schema == value.end() || schema->is_null()) return SetJsonObject(field, body);
  return SetSchema(*schema, {"response_format", "schema"}, body);
}

// vLLM's: one of its members asks for a form.
Status ReadStructuredOutputs(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  for (const auto& [name, member] : value.items()) {
    if (member.is_null() || member == false) continue;
    const std::string path = field + "." + ShownName(name);
    Status status;
    if (name == "json") {
      status = SetSchema(member, {"structured_outputs", "json"}, body);
    } else if (name == "choice") {
      status = SetChoices(member, path, body);
    } else if (name == "regex") {
      status = SetRegex(member, path, body);
    } else if (name == "json_object") {
      status = ReadBool(member, path).status();
      if (status.ok()) status = SetJsonObject(path, body);
    } else if (name == "grammar") {
      status = RejectGrammar(member, path, body);
    } else {
      status = Unsupported(path);
    }
    if (!status.ok()) return status;
  }
  return {};
}

FieldReader<OpenAiBody> SchemaField(const char* name) {
  return [name](const json& value, const std::string&, OpenAiBody* body) {
    return SetSchema(value, {name}, body);
  };
}

}  // namespace

Status ReadTextFormat(const json& value, OpenAiBody* body) {
  const std::string field = "text.format";
  const StatusOr<std::string> type = ReadFormatType(value, field);
  if (!type.ok()) return type.status();
  if (*type == "json_schema") {
    return ReadDescribedSchema(value, {"text", "format"}, /*flat=*/true, body);
  }
  constexpr std::string_view kUsed[] = {"type"};
  ReportOthers(value, "text.format.", field, kUsed, body->report);
  return *type == "text" ? Status() : SetJsonObject(field, body);
}

Status ReadSchema(const json& value, const std::vector<std::string_view>& path, OpenAiBody* body) {
  return SetSchema(value, path, body);
}

FieldReaders<OpenAiBody> OutputFormatReaders() {
  return {{"response_format", ReadResponseFormat},
          {"structured_outputs", ReadStructuredOutputs},
          {"json_schema", SchemaField("json_schema")},
          {"guided_json", SchemaField("guided_json")},
          {"guided_choice", SetChoices},
          {"guided_regex", SetRegex},
          {"guided_grammar", RejectGrammar},
          {"grammar", RejectGrammar}};
}

Status ReadPlainFormat(const json& value, const std::string& field, OpenAiBody* body) {
  if (value == "") return {};
  if (value == "json") return SetJsonObject(field, body);
  if (!value.is_object()) return Mismatch(value, field, "\"json\" or a JSON Schema: an object");
  return SetSchema(value, {field}, body);
}

namespace wire {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A text of the client's, which may be anything.
StatusOr<OrderedJson> ReadSchema(const std::string& schema) {
  return base::ReadOrderedJson(schema, core::kSchemaBounds, "the schema");
}

OrderedJson NamedSchema(OrderedJson schema) {
  return {{"type", "json_schema"},
          {"json_schema", {{"name", "answer"}, {"schema", std::move(schema)}, {"strict", true}}}};
}

Status NoWay(const char* what) {
  return {StatusCode::kUnimplemented, fmt::format("it has no field for {}", what)};
}

}  // namespace

Status WriteOutputFormat(const OutputFormat& format, core::ServerKind kind, OrderedJson* body) {
  switch (format.kind) {
    case Kind::kText:
      return {};
    case Kind::kJsonObject:
      if (kind == core::kLmStudio) return NoWay("answers that are any JSON object");
      if (kind == core::kOllama) {
        (*body)["format"] = "json";
      } else {
        (*body)["response_format"] = {{"type", "json_object"}};
      }
      return {};
    case Kind::kJsonSchema: {
      StatusOr<OrderedJson> schema = ReadSchema(format.schema);
      if (!schema.ok()) return schema.status();
      if (kind == core::kOllama) {
        (*body)["format"] = *std::move(schema);
      } else {
        (*body)["response_format"] = NamedSchema(*std::move(schema));
      }
      return {};
    }
    case Kind::kChoice:
      if (kind == core::kRopeway) {
        (*body)["guided_choice"] = format.choices;
      } else if (kind == core::kVllm) {
        (*body)["structured_outputs"] = {{"choice", format.choices}};
      } else {
        return NoWay("answers that are one of some choices");
      }
      return {};
    case Kind::kRegex:
      if (kind == core::kRopeway) {
        (*body)["guided_regex"] = format.regex;
      } else if (kind == core::kVllm) {
        (*body)["structured_outputs"] = {{"regex", format.regex}};
      } else if (kind == core::kSglang) {
        (*body)["regex"] = format.regex;
      } else {
        return NoWay("answers that a regular expression matches");
      }
      return {};
  }
  return {};
}

}  // namespace wire
}  // namespace ropeway::api
