// Parses expressions, for the parser of templates.
#ifndef ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_
#define ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_

#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"

namespace ropeway::tokenizer::jinja {

// Each method parses from the stream's next token on, and throws Error.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExpressionPtr Parse();
  // An expression, or a tuple without parentheses. Without `with_conditional`, an "if" ends it, as
  // in "for x in EXPRESSION if ...".
  ExpressionPtr ParseTuple(bool with_conditional);
  // A chain of filters of the variable kBlockName; `with_bar`: the first one has its "|".
  ExpressionPtr ParseBlockFilters(bool with_bar);

  // Whether the name `caller` was used since the last call.
  bool TakeCallerUse() { return std::exchange(uses_caller_, false); }
  void NoteCallerUse() { uses_caller_ = true; }
  // The called names that are no functions of the language, each with its line.
  const std::vector<std::pair<std::string, int>>& called() const { return called_; }

 private:
  // Operators by precedence, loosest first, as in Jinja.
  ExpressionPtr ParseLogical(bool is_and);
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseArithmetic(int level);
  ExpressionPtr ParseConcatenation();
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
  ArgumentList ParseArguments();  // After the opening parenthesis.

  TokenStream& stream_;
  int recursion_ = 0;
  bool uses_caller_ = false;
  std::vector<std::pair<std::string, int>> called_;
};

}  // namespace ropeway::tokenizer::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_
