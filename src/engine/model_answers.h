// How the answers of an engine's model are read, and what its tokens have to do with that.
#ifndef ROPEWAY_ENGINE_MODEL_ANSWERS_H_
#define ROPEWAY_ENGINE_MODEL_ANSWERS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "answer/make_parser.h"
#include "engine/thought_constraint.h"
#include "grammar/tool_ebnf.h"
#include "ropeway/request.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// Const and thread-safe.
class ModelAnswers {
 public:
  // `format` as DetectFormat gives it. The tokenizer is used here only.
  ModelAnswers(answer::AnswerFormat format, const tokenizer::Tokenizer& tokenizer);
  ModelAnswers(const ModelAnswers&) = delete;
  ModelAnswers& operator=(const ModelAnswers&) = delete;

  // What a control token is in marked text (answer_format.h): "" for one that the format does not
  // name.
  std::string_view MarkOf(TokenId id) const {
    const auto found = marks_.find(id);
    return found == marks_.end() ? std::string_view() : std::string_view(found->second);
  }

  // The control tokens that the format names.
  const grammar::ControlTokens& controls() const { return controls_; }

  // Marked text as the text of its tokens: control tokens have none.
  std::string WithoutMarks(std::string_view marked) const;

  // Whether the prompt ends within a thought, which the template, not a message, has begun.
  bool EndsInThought(const tokenizer::RenderedChat& prompt) const;

  // Begins to read an answer. This must outlive what it returns.
  std::unique_ptr<answer::AnswerParser> Begin(const answer::AnswerOptions& options) const {
    return answer::MakeAnswerParser(format_, options);
  }

  const answer::AnswerFormat& format() const { return format_; }
  // Null: the model does not think, or its marks are no tokens.
  const ThoughtTokens* thoughts() const { return thoughts_.close.empty() ? nullptr : &thoughts_; }

 private:
  void FindThoughts(const tokenizer::Tokenizer& tokenizer);

  answer::AnswerFormat format_;
  std::string open_;  // The mark at the beginning of thoughts, as the template writes it.
  std::unordered_map<TokenId, std::string> marks_;
  grammar::ControlTokens controls_;
  ThoughtTokens thoughts_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_MODEL_ANSWERS_H_
