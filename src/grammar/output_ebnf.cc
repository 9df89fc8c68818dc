#include "grammar/output_ebnf.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/json.h"
#include "core/output_bounds.h"
#include "grammar/pattern_ebnf.h"
#include "grammar/schema_ebnf.h"

namespace ropeway::grammar {

StatusOr<std::string> OutputEbnf(const OutputFormat& format) try {
  switch (format.kind) {
    case OutputFormat::Kind::kText:
      break;
    case OutputFormat::Kind::kJsonObject:
      return AnyObjectEbnf();
    case OutputFormat::Kind::kJsonSchema: {
      if (format.schema.size() > core::kMaxSchemaBytes) {
        return InvalidArgument(fmt::format("the schema has {} bytes; at most {} are supported",
                                           format.schema.size(), core::kMaxSchemaBytes));
      }
      StatusOr<nlohmann::ordered_json> schema =
          base::ReadOrderedJson(format.schema, core::kSchemaBounds, "the schema");
      return schema.ok() ? SchemaToEbnf(*schema) : schema.status();
    }
    case OutputFormat::Kind::kChoice:
      return ChoiceEbnf(format.choices);
    case OutputFormat::Kind::kRegex:
      return PatternEbnf(format.regex);
  }
  return InvalidArgument("the output's form is not one of those that OutputFormat has");
} catch (...) {
  return base::CurrentFailure("reading the output's form");
}

Status OfField(const OutputFormat& format, const Status& error) {
  const std::string field = format.field.empty() ? "format" : format.field;
  return {error.code(), field + ": " + error.message(), field};
}

}  // namespace ropeway::grammar
