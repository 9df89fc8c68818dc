#include "grammar/output_ebnf.h"

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/json.h"
#include "grammar/pattern_ebnf.h"
#include "grammar/schema_ebnf.h"

namespace ropeway::grammar {

namespace {

// The keys of objects are compared with each other: so many are quick.
constexpr base::JsonBounds kSchemaBounds = {.max_depth = 64, .max_values = 20'000};

}  // namespace

StatusOr<std::string> OutputEbnf(const OutputFormat& format) try {
  switch (format.kind) {
    case OutputFormat::Kind::kText:
      break;
    case OutputFormat::Kind::kJsonObject:
      return AnyObjectEbnf();
    case OutputFormat::Kind::kJsonSchema: {
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
