#include "server/collector_sink.h"

#include <iterator>
#include <utility>

namespace ropeway {

CollectorSink::CollectorSink(bool keep_tokens, WakeFn wake)
    : ServerSink(std::move(wake)), keep_tokens_(keep_tokens) {}

namespace {

void AppendOutput(std::vector<OutputToken> tokens, std::vector<OutputToken>* to) {
  if (to->empty()) {
    *to = std::move(tokens);
  } else {
    to->insert(to->end(), std::make_move_iterator(tokens.begin()),
               std::make_move_iterator(tokens.end()));
  }
}

}  // namespace

bool CollectorSink::Keep(Delta delta, std::vector<Delta>* pending) {
  if (pending->empty()) pending->emplace_back();
  Delta& all = pending->back();
  all.text += delta.text;
  AppendOutput(std::move(delta.prompt_tokens), &all.prompt_tokens);
  if (keep_tokens_) AppendOutput(std::move(delta.tokens), &all.tokens);
  return true;
}

}  // namespace ropeway
