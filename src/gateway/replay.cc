#include "gateway/replay.h"

#include <algorithm>

namespace ropeway::gateway {

bool Replay::done() const {
  return bytes_ == given_.text.size() && (!shows_tokens_ || tokens_ == given_.tokens);
}

bool Replay::Skip(Delta* delta) {
  if (done()) return true;
  const size_t size = std::min(given_.text.size() - bytes_, delta->text.size());
  if (given_.text.compare(bytes_, size, delta->text, 0, size) != 0) return false;
  bytes_ += size;
  delta->text.erase(0, size);
  tokens_ += delta->tokens.size();
  delta->tokens.clear();
  // A token whose text the client has in part is another one.
  return !shows_tokens_ || (delta->text.empty() && tokens_ <= given_.tokens);
}

}  // namespace ropeway::gateway
