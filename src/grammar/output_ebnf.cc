#include "grammar/output_ebnf.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/json.h"
#include "grammar/pattern_ebnf.h"
#include "grammar/schema_ebnf.h"
#include "grammar/schema_limits.h"

namespace ropeway::grammar {

namespace {

constexpr base::JsonBounds kSchemaBounds = {.max_depth = 64, .max_values = 20'000};

}  // namespace

StatusOr<std::string> OutputEbnf(const OutputFormat& format) try {
  switch (format.kind) {
    case OutputFormat::Kind::kText:
      break;
    case OutputFormat::Kind::kJsonObject:
      return AnyObjectEbnf();
    case OutputFormat::Kind::kJsonSchema: {
      if (format.schema.size() > kMaxSchemaBytes) {
        return InvalidArgument(fmt::format("the schema has {} bytes; at most {} are supported",
                                           format.schema.size(), kMaxSchemaBytes));
      }
      StatusOr<nlohmann::ordered_json> schema =
          base::ReadOrderedJson(format.schema, kSchemaBounds, "the schema");
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

}  // namespace ropeway::grammar
