#include <algorithm>
#include <iterator>

#include "api/api_format.h"
#include "base/tool_calls.h"

namespace ropeway::api {
namespace {

// The last part, if it is of this kind; else a new one.
SaidPart* PartOf(SaidPart::Kind kind, std::vector<SaidPart>* parts) {
  if (parts->empty() || parts->back().kind != kind) parts->push_back({kind});
  return &parts->back();
}

}  // namespace

AnswerState EndState(std::span<const ChoiceOutput> choices) {
  const bool cut = std::ranges::any_of(choices, [](const ChoiceOutput& choice) {
    return choice.finish.reason == FinishReason::kLength;
  });
  return cut ? AnswerState::kIncomplete : AnswerState::kCompleted;
}

std::vector<SaidPart> PartsOf(const ChoiceOutput& output) {
  if (!output.parts.empty()) return output.parts;
  using Said = SaidPart::Kind;
  std::vector<SaidPart> parts;
  if (!output.reasoning.empty()) parts.push_back({Said::kThought, output.reasoning.size()});
  if (!output.text.empty()) {
    parts.push_back({Said::kText, output.text.size(), output.tokens.size()});
  }
  parts.resize(parts.size() + output.tool_calls.size(), {Said::kCall});
  return parts;
}

void AddTo(Delta delta, ChoiceOutput* output) {
  const size_t before = output->parts.size();
  if (!delta.reasoning.empty()) {
    PartOf(SaidPart::Kind::kThought, &output->parts)->bytes += delta.reasoning.size();
    output->reasoning += delta.reasoning;
  }
  if (!delta.text.empty()) {
    PartOf(SaidPart::Kind::kText, &output->parts)->bytes += delta.text.size();
    output->text += delta.text;
  }
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (base::AddCall(call, &output->tool_calls)) output->parts.push_back({SaidPart::Kind::kCall});
  }
  if (!output->parts.empty()) {
    output->parts.back().tokens += delta.tokens.size();
    // What came before anything was said.
    if (before == 0) output->parts.front().tokens += output->tokens.size();
  }
  output->prompt_tokens.insert(output->prompt_tokens.end(),
                               std::make_move_iterator(delta.prompt_tokens.begin()),
                               std::make_move_iterator(delta.prompt_tokens.end()));
  if (!delta.embedding.empty()) output->embedding = std::move(delta.embedding);
  output->tokens.insert(output->tokens.end(), std::make_move_iterator(delta.tokens.begin()),
                        std::make_move_iterator(delta.tokens.end()));
}

}  // namespace ropeway::api
