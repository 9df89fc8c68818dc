#include "tokenizer/jinja_parser.h"

#include <algorithm>

#include "tokenizer/jinja_error.h"
#include "tokenizer/jinja_expression_parser.h"
#include "tokenizer/jinja_lexer.h"

namespace ropeway::jinja {
namespace {

constexpr int kMaxNesting = 50;  // Of statements.

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  Body ParseAll() { return ParseBody({}); }

 private:
  // The name of the tag that begins at the stream's place.
  std::string TagName() const { return stream_.Peek(1).text; }

  bool AtTag(const std::vector<std::string_view>& names) const {
    return stream_.Is(TokenKind::kBlockBegin) &&
           std::find(names.begin(), names.end(), TagName()) != names.end();
  }

  // Statements until one of the tags `ends`, which is left, or the end.
  Body ParseBody(const std::vector<std::string_view>& ends) {
    if (++nesting_ > kMaxNesting) stream_.Fail("statements lie too deep within each other");
    Body body;
    while (!stream_.Is(TokenKind::kEnd) && !AtTag(ends)) body.push_back(ParseStatement());
    if (stream_.Is(TokenKind::kEnd) && !ends.empty()) {
      stream_.Fail("the template ends where '" + std::string(ends.back()) + "' is missing");
    }
    --nesting_;
    return body;
  }

  Statement ParseStatement() {
    const int line = stream_.Peek().line;
    if (stream_.Is(TokenKind::kText)) return {Text{stream_.Take().text}, line};
    if (stream_.Is(TokenKind::kOutputBegin)) {
      stream_.Take();
      Output output{expressions_.Parse()};
      stream_.Expect(TokenKind::kOutputEnd, "}}");
      return {std::move(output), line};
    }
    stream_.Expect(TokenKind::kBlockBegin, "{%");
    const std::string tag = stream_.Expect(TokenKind::kName, "the name of a tag").text;
    if (tag == "if") return {ParseIf(), line};
    if (tag == "for") return {ParseFor(), line};
    if (tag == "set") return {ParseSet(), line};
    throw Error(line, "the tag '" + tag + "' is not supported here");
  }

  void EndTag() { stream_.Expect(TokenKind::kBlockEnd, "%}"); }

  // Takes a tag of no more than its name, or with what follows it still to parse.
  std::string TakeTag() {
    stream_.Take();
    return stream_.Take().text;
  }

  If ParseIf() {
    If result;
    std::string tag = "if";
    while (tag != "endif") {
      ExpressionPtr condition = tag == "else" ? nullptr : expressions_.Parse();
      EndTag();
      Body body = tag == "else" ? ParseBody({"endif"}) : ParseBody({"elif", "else", "endif"});
      result.branches.push_back({std::move(condition), std::move(body)});
      tag = TakeTag();
    }
    EndTag();
    return result;
  }

  std::string TakeTarget() {
    const Token& token = stream_.Expect(TokenKind::kName, "the name of a variable");
    if (IsReserved(token.text)) throw Error(token.line, "'" + token.text + "' is not a variable");
    return token.text;
  }

  For ParseFor() {
    For result;
    do {
      result.targets.push_back(TakeTarget());
    } while (stream_.TakeOperator(","));
    if (!stream_.TakeName("in")) stream_.Fail("expected 'in'");
    result.items = expressions_.ParseWithoutConditional();
    if (stream_.TakeName("if")) result.condition = expressions_.Parse();
    EndTag();
    result.body = ParseBody({"else", "endfor"});
    if (TakeTag() == "else") {
      EndTag();
      result.otherwise = ParseBody({"endfor"});
      TakeTag();
    }
    EndTag();
    return result;
  }

  Set ParseSet() {
    Set result;
    result.target = TakeTarget();
    if (!stream_.TakeOperator("="))
      stream_.Fail("expected '='; other forms of set are not supported");
    result.value = expressions_.Parse();
    EndTag();
    return result;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int nesting_ = 0;
};

}  // namespace

Body Parse(std::string_view source) { return Parser(Lex(source)).ParseAll(); }

}  // namespace ropeway::jinja
