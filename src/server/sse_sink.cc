#include "server/sse_sink.h"

#include <string>
#include <utility>

namespace ropeway {
namespace {

// About what a delta takes in memory.
size_t Cost(const Delta& delta) {
  size_t bytes = sizeof(Delta) + delta.text.size();
  for (const OutputToken& token : delta.tokens) {
    bytes +=
        sizeof(OutputToken) + token.bytes.size() + token.top_logprobs.size() * sizeof(TokenLogprob);
    for (const std::string& top : token.top_bytes) bytes += sizeof(top) + top.size();
  }
  return bytes;
}

}  // namespace

SseSink::SseSink(size_t max_bytes, size_t max_events, WakeFn wake)
    : ServerSink(std::move(wake)), max_bytes_(max_bytes), max_events_(max_events) {}

bool SseSink::Keep(Delta delta, std::vector<Delta>* pending) {
  // The prompt's tokens come all at once, however fast the reader is; max_model_len bounds them.
  if (!delta.prompt_tokens.empty()) {
    pending->push_back(std::move(delta));
    return true;
  }
  bytes_ += Cost(delta);
  // One delta alone is always taken, however large: its reader may be fast.
  if (!pending->empty() && (bytes_ > max_bytes_ || pending->size() >= max_events_)) return false;
  pending->push_back(std::move(delta));
  return true;
}

}  // namespace ropeway
