#include "server/delta_merge.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/chat_size.h"
#include "base/tool_calls.h"

namespace ropeway::server {

size_t MemoryOf(const std::vector<OutputToken>& tokens) {
  size_t bytes = 0;
  for (const OutputToken& token : tokens) {
    bytes +=
        sizeof(OutputToken) + token.bytes.size() + token.top_logprobs.size() * sizeof(TokenLogprob);
    for (const std::string& top : token.top_bytes) bytes += sizeof(top) + top.size();
  }
  return bytes;
}

size_t MemoryOfSaid(const Delta& delta) {
  return base::TextBytes(delta) + delta.tool_calls.size() * sizeof(ToolCallDelta) +
         delta.embedding.size() * sizeof(float);
}

size_t MemoryOf(const Delta& delta) {
  return sizeof(Delta) + MemoryOfSaid(delta) + MemoryOf(delta.tokens) +
         MemoryOf(delta.prompt_tokens);
}

namespace {

void AppendTokens(std::vector<OutputToken> tokens, std::vector<OutputToken>* to) {
  if (to->empty()) {
    *to = std::move(tokens);
  } else {
    to->insert(to->end(), std::make_move_iterator(tokens.begin()),
               std::make_move_iterator(tokens.end()));
  }
}

}  // namespace

void Append(Delta more, bool keep_tokens, Delta* all) {
  all->text += more.text;
  all->reasoning += more.reasoning;
  for (ToolCallDelta& call : more.tool_calls) {
    if (!all->tool_calls.empty() && all->tool_calls.back().index == call.index) {
      all->tool_calls.back().arguments += call.arguments;
    } else {
      all->tool_calls.push_back(std::move(call));
    }
  }
  AppendTokens(std::move(more.prompt_tokens), &all->prompt_tokens);
  if (!more.embedding.empty()) all->embedding = std::move(more.embedding);
  if (keep_tokens) AppendTokens(std::move(more.tokens), &all->tokens);
}

api::ChoiceOutput OutputOf(Delta all, const Finish& finish) {
  api::ChoiceOutput output;
  output.text = std::move(all.text);
  output.reasoning = std::move(all.reasoning);
  base::AddCalls(all.tool_calls, &output.tool_calls);
  output.tokens = std::move(all.tokens);
  output.prompt_tokens = std::move(all.prompt_tokens);
  output.embedding = std::move(all.embedding);
  output.finish = finish;
  return output;
}

api::ChoiceOutput OutputOf(const std::vector<Delta>& pieces, const Finish& finish) {
  api::ChoiceOutput output;
  for (const Delta& piece : pieces) api::AddTo(piece, &output);
  output.finish = finish;
  return output;
}

}  // namespace ropeway::server
