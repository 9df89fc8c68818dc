// Parses expressions, for the parser of templates.
#ifndef ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_
#define ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/token_stream.h"

namespace ropeway::jinja {

// Each method parses what stands at the stream's place and throws Error.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExpressionPtr Parse();
  ExpressionPtr ParseWithoutConditional();  // As in "for x in EXPRESSION if ...".
  // Also a tuple that stands without parentheses.
  ExpressionPtr ParseTuple(bool with_conditional);
  // The filters that follow, the first with its "|" or without, over the
  // variable kBlockName.
  ExpressionPtr ParseBlockFilters(bool with_bar);

  // Whether the name `caller` was met since the last call.
  bool TakeCallerUse() { return std::exchange(uses_caller_, false); }
  void NoteCallerUse() { uses_caller_ = true; }
  // The names that are called as functions and where: those that the language
  // does not know.
  const std::vector<std::pair<std::string, int>>& called() const { return called_; }

 private:
  // By binding, loosest first, as in Jinja.
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseName();
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();

  ExpressionPtr ParsePostfix(ExpressionPtr object);
  ExpressionPtr ParseMember(ExpressionPtr object);
  ExpressionPtr ParseSubscript(ExpressionPtr object);
  ExpressionPtr ParseCall(ExpressionPtr callee);
  ExpressionPtr ParseFilters(ExpressionPtr operand);
  ExpressionPtr ParseFilter(ExpressionPtr operand);  // After its "|".
  ExpressionPtr ParseTest(ExpressionPtr operand);
  bool TestArgumentFollows() const;

  // What stands in parentheses, after the opening one.
  ArgumentList ParseArguments();
  ExpressionPtr MakeApply(int line, const Builtin* builtin, const std::string& what,
                          ExpressionPtr operand, ArgumentList arguments);

  TokenStream& stream_;
  int recursion_ = 0;
  bool uses_caller_ = false;
  std::vector<std::pair<std::string, int>> called_;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_
