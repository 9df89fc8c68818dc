#include "server/collector_sink.h"

#include <iterator>
#include <utility>

namespace ropeway {

CollectorSink::CollectorSink(bool keep_tokens, WakeFn wake)
    : ServerSink(std::move(wake)), keep_tokens_(keep_tokens) {}

void CollectorSink::Merge(Delta delta, Delta* all) {
  all->text += delta.text;
  all->tokens.insert(all->tokens.end(), std::make_move_iterator(delta.tokens.begin()),
                     std::make_move_iterator(delta.tokens.end()));
}

bool CollectorSink::Keep(Delta delta, std::vector<Delta>* pending) {
  if (pending->empty()) pending->emplace_back();
  if (!keep_tokens_) delta.tokens.clear();
  Merge(std::move(delta), &pending->back());
  return true;
}

}  // namespace ropeway
