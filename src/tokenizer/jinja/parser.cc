#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "tokenizer/jinja/expression_parser.h"

namespace ropeway::tokenizer::jinja {
namespace {

constexpr int kMaxNesting = 50;  // For statements, and for targets.

class Parser {
 public:
  explicit Parser(std::string_view source) : stream_(source), expressions_(stream_) {}

  Body ParseAll() {
    Body body = ParseBody({});
    for (const auto& [name, line] : expressions_.called()) {
      if (!bound_.contains(name)) {
        throw Error(line, "the function '" + name + "' is not supported");
      }
    }
    return body;
  }

 private:
  // The name of the tag that begins at the next token.
  std::string TagName() const { return stream_.Peek(1).text; }

  bool AtTag(const std::vector<std::string_view>& names) const {
    return stream_.Is(TokenKind::kBlockBegin) &&
           std::find(names.begin(), names.end(), TagName()) != names.end();
  }

  // Statements until one of the tags `ends`, which is not taken, or the end.
  Body ParseBody(const std::vector<std::string_view>& ends) {
    if (++nesting_ > kMaxNesting) stream_.Fail("statements are nested too deeply");
    Body body;
    while (!stream_.Is(TokenKind::kEnd) && !AtTag(ends)) body.push_back(ParseStatement());
    if (stream_.Is(TokenKind::kEnd) && !ends.empty()) {
      stream_.Fail("expected '" + std::string(ends.back()) + "', got the end of the template");
    }
    --nesting_;
    return body;
  }

  // A body and the tag that ends it.
  Body ParseBlock(std::string_view end) {
    EndTag();
    Body body = ParseBody({end});
    TakeTag();
    EndTag();
    return body;
  }

  Statement ParseStatement() {
    const int line = stream_.Peek().line;
    if (stream_.Is(TokenKind::kText)) return {Text{stream_.Take().text}, line};
    if (stream_.Is(TokenKind::kOutputBegin)) {
      stream_.Take();
      Output output{expressions_.ParseTuple(true)};
      stream_.Expect(TokenKind::kOutputEnd, "}}");
      return {std::move(output), line};
    }
    stream_.Expect(TokenKind::kBlockBegin, "{%");
    const std::string tag = stream_.Expect(TokenKind::kName, "the name of a tag").text;
    if (tag == "if") return {ParseIf(), line};
    if (tag == "for") return {ParseFor(), line};
    if (tag == "set") return ParseSet(line);
    if (tag == "macro") return {ParseMacro(), line};
    if (tag == "call") return {ParseCallBlock(line), line};
    if (tag == "filter") {
      ExpressionPtr filtered = expressions_.ParseBlockFilters(false);
      return {CaptureBlock{{}, std::move(filtered), ParseBlock("endfilter")}, line};
    }
    if (tag == "with") return {ParseWith(), line};
    // Marks an assistant's text for training; it renders its body.
    if (tag == "generation") return {ScopeBlock{{}, ParseOutsideLoop("endgeneration")}, line};
    if (tag == "break" || tag == "continue") return ParseLoopControl(tag, line);
    throw Error(line, "the tag '" + tag + "' is not supported here");
  }

  void EndTag() { stream_.Expect(TokenKind::kBlockEnd, "%}"); }

  // Takes the beginning of a tag and its name, and returns the name.
  std::string TakeTag() {
    stream_.Take();
    return stream_.Take().text;
  }

  Statement ParseLoopControl(const std::string& tag, int line) {
    if (loops_ == 0) throw Error(line, "'" + tag + "' is outside of a loop");
    EndTag();
    if (tag == "break") return {Break{}, line};
    return {Continue{}, line};
  }

  // A block that is a function of its own in Jinja, so that no break leaves it.
  Body ParseOutsideLoop(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Body body = ParseBlock(end);
    loops_ = loops;
    return body;
  }

  If ParseIf() {
    If result;
    std::string tag = "if";
    while (tag != "endif") {
      ExpressionPtr condition = tag == "else" ? nullptr : expressions_.ParseTuple(true);
      EndTag();
      Body body = tag == "else" ? ParseBody({"endif"}) : ParseBody({"elif", "else", "endif"});
      result.branches.push_back({std::move(condition), std::move(body)});
      tag = TakeTag();
    }
    EndTag();
    return result;
  }

  std::string TakeName() {
    const Token token = stream_.Expect(TokenKind::kName, "the name of a variable");
    if (IsReserved(token.text))
      throw Error(token.line,
                  "'" + token.text + "' is reserved and cannot be the name of a variable");
    bound_.insert(token.text);
    return token.text;
  }

  // One target, or several in parentheses.
  Target ParseOneTarget(bool with_namespace) {
    if (stream_.TakeOperator("(")) {
      if (++nesting_ > kMaxNesting) stream_.Fail("targets are nested too deeply");
      Target target = ParseTargets(with_namespace);
      --nesting_;
      stream_.ExpectOperator(")");
      return target;
    }
    Target target;
    if (with_namespace && stream_.Peek(1).text == "." &&
        stream_.Peek(1).kind == TokenKind::kOperator) {
      target.name = stream_.Expect(TokenKind::kName, "the name of a namespace").text;
      stream_.Take();
      target.attribute = stream_.Expect(TokenKind::kName, "the name of an attribute").text;
    } else {
      target.name = TakeName();
    }
    return target;
  }

  Target ParseTargets(bool with_namespace) {
    Target first = ParseOneTarget(with_namespace);
    if (!stream_.IsOperator(",")) return first;
    Target all;
    all.parts.push_back(std::move(first));
    while (stream_.TakeOperator(",") && !stream_.IsName("in") && !stream_.IsOperator(")") &&
           !stream_.IsOperator("=")) {
      all.parts.push_back(ParseOneTarget(with_namespace));
    }
    return all;
  }

  For ParseFor() {
    For result;
    result.target = ParseTargets(/*with_namespace=*/false);
    if (!stream_.TakeName("in")) stream_.Fail("expected 'in'");
    result.items = expressions_.ParseTuple(false);
    if (stream_.TakeName("if")) result.condition = expressions_.Parse();
    if (stream_.IsName("recursive")) stream_.Fail("'recursive' loops are not supported");
    EndTag();
    ++loops_;
    result.body = ParseBody({"else", "endfor"});
    --loops_;
    if (TakeTag() == "else") {
      EndTag();
      result.otherwise = ParseBody({"endfor"});
      TakeTag();
    }
    EndTag();
    return result;
  }

  Statement ParseSet(int line) {
    Target target = ParseTargets(/*with_namespace=*/true);
    if (stream_.TakeOperator("=")) {
      Set set{std::move(target), expressions_.ParseTuple(true)};
      EndTag();
      return {std::move(set), line};
    }
    ExpressionPtr filtered =
        stream_.IsOperator("|") ? expressions_.ParseBlockFilters(true) : nullptr;
    if (!stream_.Is(TokenKind::kBlockEnd)) stream_.Fail("expected '=' or the end of the tag");
    return {CaptureBlock{std::move(target), std::move(filtered), ParseBlock("endset")}, line};
  }

  // "(a, b=1)", after the opening parenthesis.
  std::vector<Macro::Parameter> ParseParameters() {
    std::vector<Macro::Parameter> parameters;
    while (!stream_.IsOperator(")")) {
      Macro::Parameter parameter{TakeName(), nullptr};
      if (stream_.TakeOperator("=")) {
        parameter.otherwise = expressions_.Parse();
      } else if (!parameters.empty() && parameters.back().otherwise != nullptr) {
        stream_.Fail("a parameter without a default follows one with a default");
      }
      parameters.push_back(std::move(parameter));
      if (!stream_.TakeOperator(",")) break;
    }
    stream_.ExpectOperator(")");
    return parameters;
  }

  MacroBlock ParseMacro() {
    auto macro = std::make_shared<Macro>();
    macro->name = TakeName();
    bound_.insert("caller");
    stream_.ExpectOperator("(");
    macro->parameters = ParseParameters();
    const bool outer_uses_caller = expressions_.TakeCallerUse();
    macro->body = ParseOutsideLoop("endmacro");
    macro->takes_caller = expressions_.TakeCallerUse();
    if (outer_uses_caller) expressions_.NoteCallerUse();
    return {std::move(macro)};
  }

  CallBlock ParseCallBlock(int line) {
    CallBlock result;
    auto caller = std::make_shared<Macro>();
    caller->name = "caller";
    if (stream_.TakeOperator("(")) caller->parameters = ParseParameters();
    result.call = expressions_.Parse();
    if (!std::holds_alternative<Call>(result.call->node)) {
      throw Error(line, "'call' needs a macro call");
    }
    caller->body = ParseOutsideLoop("endcall");
    result.caller = std::move(caller);
    return result;
  }

  ScopeBlock ParseWith() {
    ScopeBlock result;
    while (!stream_.Is(TokenKind::kBlockEnd)) {
      Target target = ParseOneTarget(/*with_namespace=*/false);
      stream_.ExpectOperator("=");
      result.variables.emplace_back(std::move(target), expressions_.Parse());
      if (!stream_.TakeOperator(",")) break;
    }
    result.body = ParseBlock("endwith");
    return result;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loops_ = 0;                // Enclosing loops that a break may leave.
  std::set<std::string> bound_;  // The names that the template itself assigns.
};

}  // namespace

Body Parse(std::string_view source) { return Parser(source).ParseAll(); }

}  // namespace ropeway::tokenizer::jinja
