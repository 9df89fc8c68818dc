#include "gateway/replay.h"

#include <algorithm>

#include "base/random.h"

namespace ropeway::gateway {

void GivenOutput::Add(std::string_view text, uint64_t more_tokens) {
  for (const char c : text) hash = base::Mix64(hash, static_cast<unsigned char>(c));
  bytes += text.size();
  tokens += more_tokens;
}

bool Replay::done() const {
  return again_.bytes == given_.bytes && (!shows_tokens_ || again_.tokens == given_.tokens);
}

bool Replay::Skip(Delta* delta) {
  if (done()) return true;
  const size_t size = std::min<uint64_t>(given_.bytes - again_.bytes, delta->text.size());
  again_.Add(std::string_view(delta->text).substr(0, size), delta->tokens.size());
  if (again_.bytes == given_.bytes && again_.hash != given_.hash) return false;
  delta->text.erase(0, size);
  delta->tokens.clear();
  // A token whose text the client has in part is another one.
  return !shows_tokens_ || (delta->text.empty() && again_.tokens <= given_.tokens);
}

}  // namespace ropeway::gateway
