// What xgrammar's grammar.cc calls of the parts that are not built: its converters of JSON Schema,
// Lark and structural tags. Ropeway writes its grammars itself (src/grammar/).
#include <stdexcept>

#include "json_schema_converter.h"
#include "lark_converter.h"
#include "structural_tag.h"
#include "support/logging.h"

namespace xgrammar {

namespace {

[[noreturn]] void NotBuilt() { throw std::logic_error("this part of xgrammar is not built"); }

}  // namespace

Grammar JSONSchemaToGrammar(const std::string&, bool, std::optional<int>,
                            std::optional<std::pair<std::string, std::string>>, bool,
                            std::optional<int>, bool, JSONFormat, std::vector<std::string>) {
  NotBuilt();
}

Grammar LarkToGrammar(const std::string&, const std::optional<TokenizerInfo>&,
                      const std::vector<NamedGrammar>&) {
  NotBuilt();
}

Result<Grammar, StructuralTagError> StructuralTagToGrammar(const std::string&,
                                                           const std::optional<TokenizerInfo>&) {
  NotBuilt();
}

// With XGRAMMAR_LOG_CUSTOMIZE its errors come here. Nothing is written to standard error.
void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}
void LogMessageImpl(const std::string&, int, int, const std::string&) {}

}  // namespace xgrammar
