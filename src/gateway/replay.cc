#include "gateway/replay.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/random.h"

namespace ropeway::gateway {
namespace {

// What a byte belongs to. Those of calls follow: of each its name, then its arguments.
constexpr uint64_t kThought = 0;
constexpr uint64_t kText = 1;
constexpr uint64_t kFirstCall = 2;

// Calls `fn(part, bytes)` for each part of what `delta` says, in their order.
template <typename Fn>
void ForEachPart(const Delta& delta, Fn fn) {
  fn(kThought, std::string_view(delta.reasoning));
  fn(kText, std::string_view(delta.text));
  for (const ToolCallDelta& call : delta.tool_calls) {
    const uint64_t name = kFirstCall + 2 * static_cast<uint64_t>(call.index);
    // With its end.
    if (!call.name.empty()) fn(name, std::string_view(call.name.c_str(), call.name.size() + 1));
    fn(name + 1, std::string_view(call.arguments));
  }
}

}  // namespace

uint64_t SaidLength(const Delta& delta) {
  uint64_t length = 0;
  ForEachPart(delta, [&](uint64_t, std::string_view bytes) { length += bytes.size(); });
  return length;
}

void SkipSaid(uint64_t length, Delta* delta) {
  const auto skip = [&](std::string* text) {
    const size_t size = std::min<uint64_t>(length, text->size());
    text->erase(0, size);
    length -= size;
  };
  skip(&delta->reasoning);
  skip(&delta->text);
  auto call = delta->tool_calls.begin();
  for (; length > 0 && call != delta->tool_calls.end(); ++call) {
    if (!call->name.empty()) {
      length -= std::min<uint64_t>(length, call->name.size() + 1);
      call->id.clear();
      call->name.clear();
    }
    skip(&call->arguments);
    if (!call->arguments.empty()) break;
  }
  delta->tool_calls.erase(delta->tool_calls.begin(), call);
}

void GivenOutput::Add(const Delta& delta, uint64_t most) {
  ForEachPart(delta, [&](uint64_t part, std::string_view bytes) {
    bytes = bytes.substr(0, std::min<uint64_t>(most, bytes.size()));
    most -= bytes.size();
    length += bytes.size();
    for (const char c : bytes) {
      hash = base::Mix64(hash, part << 8U | static_cast<unsigned char>(c));
    }
  });
  tokens += delta.tokens.size();
}

bool Replay::done() const {
  return again_.length == given_.length && (!shows_tokens_ || again_.tokens == given_.tokens);
}

bool Replay::Skip(Delta* delta) {
  if (done()) return true;
  const uint64_t length = std::min(given_.length - again_.length, SaidLength(*delta));
  again_.Add(*delta, length);
  if (again_.length == given_.length && again_.hash != given_.hash) return false;
  SkipSaid(length, delta);
  delta->tokens.clear();
  // A token whose text the client has in part is another one.
  return !shows_tokens_ || (!delta->says() && again_.tokens <= given_.tokens);
}

}  // namespace ropeway::gateway
