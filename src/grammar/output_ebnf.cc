#include "grammar/output_ebnf.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "core/output_bounds.h"
#include "grammar/ebnf.h"
#include "grammar/pattern_ebnf.h"
#include "grammar/schema_ebnf.h"
#include "grammar/schema_limits.h"

namespace ropeway::grammar {

namespace {

StatusOr<nlohmann::ordered_json> ReadSchema(const std::string& schema) {
  if (schema.size() > core::kMaxSchemaBytes) {
    return InvalidArgument(fmt::format("the schema has {} bytes; at most {} are supported",
                                       schema.size(), core::kMaxSchemaBytes));
  }
  return base::ReadOrderedJson(schema, core::kSchemaBounds, "the schema");
}

Status NoForm() {
  return InvalidArgument("the output's form is not one of those that OutputFormat has");
}

// One of these texts, as they are.
StatusOr<Ebnf::Node> ChoiceText(const std::vector<std::string>& choices, Ebnf* ebnf) {
  if (choices.empty() || choices.size() > core::kMaxChoices) {
    return InvalidArgument(
        fmt::format("expected 1 to {} choices, got {}", core::kMaxChoices, choices.size()));
  }
  const size_t before = ebnf->bytes();
  std::vector<Ebnf::Node> ways;
  for (const std::string& choice : choices) {
    if (choice.empty()) return InvalidArgument("a choice must not be empty");
    ways.push_back(ebnf->Literal(choice));
    if (ebnf->bytes() - before > kMaxEbnfBytes) {
      return InvalidArgument(
          fmt::format("the choices are too long: at most {} bytes are supported", kMaxEbnfBytes));
    }
  }
  return ebnf->Choice(ways);
}

StatusOr<Ebnf::Node> WriteText(const OutputFormat& format, Ebnf* ebnf, JsonRules* json) {
  switch (format.kind) {
    case OutputFormat::Kind::kText:
      break;
    case OutputFormat::Kind::kJsonObject:
      return AnyArguments(ebnf, json);
    case OutputFormat::Kind::kJsonSchema: {
      const StatusOr<nlohmann::ordered_json> schema = ReadSchema(format.schema);
      return schema.ok() ? ValueEbnf(*schema, ebnf, json) : schema.status();
    }
    case OutputFormat::Kind::kChoice:
      return ChoiceText(format.choices, ebnf);
    case OutputFormat::Kind::kRegex:
      return PatternText(format.regex, ebnf);
  }
  return NoForm();
}

}  // namespace

StatusOr<std::string> OutputEbnf(const OutputFormat& format) try {
  switch (format.kind) {
    case OutputFormat::Kind::kText:
      break;
    case OutputFormat::Kind::kJsonObject:
      return AnyObjectEbnf();
    case OutputFormat::Kind::kJsonSchema: {
      const StatusOr<nlohmann::ordered_json> schema = ReadSchema(format.schema);
      return schema.ok() ? SchemaToEbnf(*schema) : schema.status();
    }
    case OutputFormat::Kind::kChoice:
      return ChoiceEbnf(format.choices);
    case OutputFormat::Kind::kRegex:
      return PatternEbnf(format.regex);
  }
  return NoForm();
} catch (...) {
  return base::CurrentFailure("reading the output's form");
}

StatusOr<Ebnf::Node> OutputText(const OutputFormat& format, Ebnf* ebnf, JsonRules* json) try {
  StatusOr<Ebnf::Node> node = WriteText(format, ebnf, json);
  if (!node.ok()) return node;
  const Ebnf::Rule rule = ebnf->Declare();
  ebnf->Define(rule, *node);
  if (ebnf->Print(rule).size() > kMaxEbnfBytes) {
    return InvalidArgument(
        fmt::format("it is too large: its grammar has more than {} bytes", kMaxEbnfBytes));
  }
  return ebnf->Call(rule);
} catch (...) {
  return base::CurrentFailure("reading the output's form");
}

StatusOr<std::string> ChoiceEbnf(const std::vector<std::string>& choices) {
  Ebnf ebnf;
  const StatusOr<Ebnf::Node> node = ChoiceText(choices, &ebnf);
  if (!node.ok()) return node.status();
  const Ebnf::Rule root = ebnf.Declare();
  ebnf.Define(root, *node);
  return ebnf.Print(root);
}

Status OfField(const OutputFormat& format, const Status& error) {
  const std::string field = format.field.empty() ? "format" : format.field;
  return {error.code(), field + ": " + error.message(), field};
}

}  // namespace ropeway::grammar
