#include "engine/model_answers.h"

#include <algorithm>
#include <utility>

#include "core/mask_bits.h"

namespace ropeway::engine {

ModelAnswers::ModelAnswers(answer::AnswerFormat format, const tokenizer::Tokenizer& tokenizer)
    : format_(std::move(format)), open_(format_.reasoning.open) {
  const auto control = [&](std::string_view text) -> std::optional<TokenId> {
    const std::optional<TokenId> id = tokenizer.Find(text);
    return id && tokenizer.IsSpecial(*id) ? id : std::nullopt;
  };
  answer::Resolve([&](std::string_view text) { return control(text).has_value(); }, &format_);
  for (const std::string& text : format_.controls) {
    const std::optional<TokenId> id = control(text);
    if (!id) continue;
    marks_[*id] = answer::kControl + text;
    if (!tokenizer.IsEnd(*id)) controls_[text] = *id;
  }
  FindThoughts(tokenizer);
}

void ModelAnswers::FindThoughts(const tokenizer::Tokenizer& tokenizer) {
  const answer::ReasoningForm& form = format_.reasoning;
  const auto find = [&](std::string_view mark) {
    if (!mark.empty() && mark.front() == answer::kControl) mark.remove_prefix(1);
    return tokenizer.Find(mark);
  };
  if (answer::HasChannels(format_)) {
    // The answer is the channel "final".
    const std::optional<TokenId> channel = find("<|channel|>");
    const std::optional<TokenId> final = find("final");
    const std::optional<TokenId> message = find("<|message|>");
    if (!channel || !final || !message) return;
    thoughts_.close = {*channel, *final, *message};
  } else if (!form.close.empty()) {
    const std::optional<TokenId> close = find(form.close);
    if (!close) return;
    thoughts_.close = {*close};
    thoughts_.open = find(form.open);
  } else {
    return;
  }
  thoughts_.free.assign(core::MaskWords(tokenizer.vocab_size()), 0);
  thoughts_.space = thoughts_.free;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsEnd(id) || tokenizer.IsUnused(id)) continue;
    const std::string_view text = tokenizer.Bytes(id);
    if (text.empty() && MarkOf(id).empty()) continue;
    core::Allow(id, thoughts_.free);
    if (!text.empty() && text.find_first_not_of(" \n\r\t") == std::string_view::npos) {
      core::Allow(id, thoughts_.space);
    }
  }
  for (const TokenId id : thoughts_.close) core::Allow(id, thoughts_.free);
}

std::string ModelAnswers::WithoutMarks(std::string_view marked) const {
  std::string text;
  while (!marked.empty()) {
    const size_t plain = std::min(marked.find(answer::kControl), marked.size());
    text += marked.substr(0, plain);
    marked.remove_prefix(plain);
    if (marked.empty()) break;
    marked.remove_prefix(1);
    for (const std::string& control : format_.controls) {  // Longer ones come first.
      if (!marked.starts_with(control)) continue;
      marked.remove_prefix(control.size());
      break;
    }
  }
  return text;
}

bool ModelAnswers::EndsInThought(const tokenizer::RenderedChat& prompt) const {
  if (open_.empty()) return false;
  const size_t last = prompt.text.find_last_not_of(" \n\r\t");
  if (last == std::string::npos || last + 1 < open_.size()) return false;
  const size_t begin = last + 1 - open_.size();
  return std::string_view(prompt.text).substr(begin, open_.size()) == open_ &&
         tokenizer::SpansWithin(prompt.quoted, begin, last + 1).empty();
}

}  // namespace ropeway::engine
