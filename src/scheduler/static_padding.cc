#include "scheduler/static_padding.h"

#include <algorithm>

namespace ropeway {

void StaticPadding::Begin(std::span<const Sequence* const> members) {
  shorter_.clear();
  int32_t longest = 0;
  for (const Sequence* member : members) longest = std::max(longest, member->num_ids());
  for (const Sequence* member : members) {
    if (member->num_ids() < longest) shorter_.push_back({member->num_ids(), longest});
  }
}

void StaticPadding::Add(int32_t tokens, int32_t items, int32_t ended, int32_t longest,
                        Schedule* schedule) {
  const auto add = [&](int32_t start, int32_t count, bool sample) {
    schedule->padding.push_back({start, count, sample});
    schedule->num_padding_tokens += count;
    tokens -= count;
    --items;
  };
  while (!shorter_.empty() && tokens > 0 && items > 0) {
    Shorter& last = shorter_.back();
    const int32_t count = std::min(tokens, last.end - last.next);
    add(last.next, count, false);
    last.next += count;
    if (last.next == last.end) shorter_.pop_back();
  }
  if (longest == 0) return;
  for (int32_t i = 0; i < ended && tokens > 0 && items > 0; ++i) add(longest - 1, 1, true);
}

}  // namespace ropeway
