#include "tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace ropeway {
namespace {

// Up to here, looking through all pairs for each merge is faster than a heap.
constexpr size_t kShort = 24;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

uint64_t PairOf(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32U | static_cast<uint32_t>(right);
}

// A pair of neighbours that may merge, as one number: its rank, then where the left one begins. The
// lowest goes first. Out of date once one of the two has merged otherwise; what stands there now
// has another rank then, as a rank is one pair's.
uint64_t CandidateOf(uint32_t rank, uint32_t at) { return uint64_t{rank} << 32U | at; }

// A token in a list linked both ways; a merge keeps the left one and unlinks the right one.
struct Node {
  TokenId id;
  uint32_t previous;
  uint32_t next;
};

constexpr TokenId kUnlinked = -1;

}  // namespace

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  const size_t size = std::bit_ceil(std::max<size_t>(2, merges.size() * 2));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  slots_.resize(size);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = PairOf(merges[rank].left, merges[rank].right);
    slots_[SlotOf(pair)] = {pair, static_cast<uint32_t>(rank), merges[rank].merged};
  }
}

size_t MergeTable::SlotOf(uint64_t pair) const {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  size_t slot = ((pair ^ (pair >> 29U)) * kGolden) >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].pair != kEmpty) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

const MergeTable::Slot* MergeTable::Find(TokenId left, TokenId right) const {
  const Slot& slot = slots_[SlotOf(PairOf(left, right))];
  return slot.pair == kEmpty ? nullptr : &slot;
}

void MergeTable::Apply(std::vector<TokenId>& ids) const {
  if (ids.size() <= kShort) {
    ApplyShort(ids);
  } else {
    ApplyLong(ids);
  }
}

void MergeTable::ApplyShort(std::vector<TokenId>& ids) const {
  while (ids.size() > 1) {
    const Slot* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Slot* slot = Find(ids[i], ids[i + 1]);
      if (slot != nullptr && (best == nullptr || slot->rank < best->rank)) {
        best = slot;
        at = i;
      }
    }
    if (best == nullptr) return;
    ids[at] = best->merged;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

void MergeTable::ApplyLong(std::vector<TokenId>& ids) const {
  const auto count = static_cast<uint32_t>(ids.size());
  std::vector<Node> nodes(count);
  std::vector<uint64_t> heap;  // The lowest candidate on top.
  const auto add = [&](uint32_t at, TokenId left, TokenId right) {
    const Slot* slot = Find(left, right);
    if (slot != nullptr) heap.push_back(CandidateOf(slot->rank, at));
    return slot != nullptr;
  };
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {ids[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    if (i + 1 < count) add(i, ids[i], ids[i + 1]);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32U);
    const auto at = static_cast<uint32_t>(heap.back());
    heap.pop_back();
    Node& left = nodes[at];
    if (left.id == kUnlinked || left.next == kNone) continue;
    Node& right = nodes[left.next];
    const Slot* slot = Find(left.id, right.id);
    if (slot == nullptr || slot->rank != rank) continue;

    left.id = slot->merged;
    right.id = kUnlinked;
    left.next = right.next;
    if (right.next != kNone) nodes[right.next].previous = at;

    const auto offer = [&](uint32_t place) {
      if (place == kNone || nodes[place].next == kNone) return;
      if (add(place, nodes[place].id, nodes[nodes[place].next].id)) {
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
      }
    };
    offer(left.previous);
    offer(at);
  }

  ids.clear();
  for (uint32_t i = 0; i != kNone; i = nodes[i].next) ids.push_back(nodes[i].id);
}

}  // namespace ropeway
