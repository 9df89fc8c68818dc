#include "server/collector_sink.h"

#include <iterator>
#include <utility>

namespace ropeway {

CollectorSink::CollectorSink(bool keep_tokens, WakeFn wake)
    : ServerSink(std::move(wake)), keep_tokens_(keep_tokens) {}

bool CollectorSink::Keep(Delta delta, std::vector<Delta>* pending) {
  if (pending->empty()) pending->emplace_back();
  Delta& all = pending->back();
  all.text += delta.text;
  if (!keep_tokens_) return true;
  all.tokens.insert(all.tokens.end(), std::make_move_iterator(delta.tokens.begin()),
                    std::make_move_iterator(delta.tokens.end()));
  return true;
}

}  // namespace ropeway
