#include "tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace ropeway {
namespace {

// Up to here, looking through all pairs for each merge is faster than a heap.
constexpr size_t kShort = 24;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

uint64_t PairOf(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32U | static_cast<uint32_t>(right);
}

// A pair of neighbours that may merge. It is out of date once one of them has merged otherwise.
struct Candidate {
  uint32_t rank;
  uint32_t at;  // Where the left one begins.
  TokenId left;
  TokenId right;
  TokenId merged;

  // For a heap whose top is the lowest rank, the leftmost of equals.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

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
  std::vector<Candidate> heap;
  const auto candidate = [&](uint32_t at, TokenId left, TokenId right) {
    const Slot* slot = Find(left, right);
    if (slot == nullptr) return false;
    heap.push_back({slot->rank, at, left, right, slot->merged});
    return true;
  };

  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {ids[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    if (i + 1 < count) candidate(i, ids[i], ids[i + 1]);
  }
  std::make_heap(heap.begin(), heap.end());

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Node& left = nodes[best.at];
    if (left.id != best.left || left.next == kNone) continue;
    Node& right = nodes[left.next];
    if (right.id != best.right) continue;

    left.id = best.merged;
    right.id = kUnlinked;
    left.next = right.next;
    if (right.next != kNone) nodes[right.next].previous = best.at;

    const auto offer = [&](uint32_t at) {
      if (at == kNone || nodes[at].next == kNone) return;
      if (candidate(at, nodes[at].id, nodes[nodes[at].next].id)) {
        std::push_heap(heap.begin(), heap.end());
      }
    };
    offer(left.previous);
    offer(best.at);
  }

  ids.clear();
  for (uint32_t i = 0; i != kNone; i = nodes[i].next) ids.push_back(nodes[i].id);
}

}  // namespace ropeway
