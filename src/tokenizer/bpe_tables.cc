#include "tokenizer/bpe_tables.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "base/utf8.h"

namespace ropeway::tokenizer {
namespace {

// The characters for bytes that are not printable.
constexpr char32_t kFirstStandIn = 0x100;
constexpr size_t kStandIns = 68;

bool IsItself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> letters;
  std::array<uint8_t, kStandIns> stood_for{};

  Alphabet() {
    size_t stand_ins = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (IsItself(byte)) {
        base::AppendUtf8(byte, letters[byte]);
      } else {
        stood_for[stand_ins] = static_cast<uint8_t>(byte);
        base::AppendUtf8(kFirstStandIn + stand_ins++, letters[byte]);
      }
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

// Up to this length, scanning all pairs for each merge is faster than a heap.
constexpr size_t kShort = 24;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

uint64_t PairOf(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32U | static_cast<uint32_t>(right);
}

// An adjacent pair that may merge, as one number: its rank, then the position of the left token.
// The lowest is merged first. It is stale once one of the two has merged with another token: then
// the pair at this position has another rank, since each pair has its own.
uint64_t CandidateOf(uint32_t rank, uint32_t at) { return uint64_t{rank} << 32U | at; }

// A token in a doubly linked list; a merge keeps the left one and unlinks the right one.
struct Node {
  TokenId id;
  uint32_t previous;
  uint32_t next;
};

constexpr TokenId kUnlinked = -1;

}  // namespace

std::string_view ByteToLetter(uint8_t byte) { return TheAlphabet().letters[byte]; }

std::string ToByteLetters(std::string_view bytes) {
  std::string letters;
  letters.reserve(bytes.size() * 2);
  for (const char byte : bytes) letters += ByteToLetter(static_cast<uint8_t>(byte));
  return letters;
}

std::optional<std::string> FromByteLetters(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (size_t at = 0; at < letters.size();) {
    const base::Utf8Step step = base::StepUtf8(letters, at);
    if (step.kind != base::Utf8Kind::kValid) return std::nullopt;
    at += step.length;
    if (step.code_point < 256 && IsItself(step.code_point)) {
      bytes.push_back(static_cast<char>(step.code_point));
    } else if (step.code_point >= kFirstStandIn && step.code_point < kFirstStandIn + kStandIns) {
      bytes.push_back(static_cast<char>(TheAlphabet().stood_for[step.code_point - kFirstStandIn]));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

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

    const auto offer = [&](uint32_t node) {
      if (node == kNone || nodes[node].next == kNone) return;
      if (add(node, nodes[node].id, nodes[nodes[node].next].id)) {
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
      }
    };
    offer(left.previous);
    offer(at);
  }

  ids.clear();
  for (uint32_t i = 0; i != kNone; i = nodes[i].next) ids.push_back(nodes[i].id);
}

SpecialTokens::SpecialTokens() : nodes_(1) {}

uint32_t SpecialTokens::Child(uint32_t node, uint8_t byte) const {
  uint32_t child = nodes_[node].first_child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

void SpecialTokens::Add(std::string_view text, TokenId id) {
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    uint32_t child = i == 0 ? roots_[byte] : Child(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.byte = byte});
      if (i == 0) {
        roots_[byte] = child;
      } else {
        nodes_[child].next_sibling = nodes_[node].first_child;
        nodes_[node].first_child = child;
      }
    }
    node = child;
  }
  if (nodes_[node].id < 0) nodes_[node].id = id;
}

std::optional<SpecialTokens::Found> SpecialTokens::FindFirst(std::string_view text,
                                                             size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    uint32_t node = roots_[static_cast<uint8_t>(text[begin])];
    std::optional<Found> longest;
    for (size_t end = begin + 1; node != 0; ++end) {
      if (nodes_[node].id >= 0) longest = Found{begin, end - begin, nodes_[node].id};
      if (end == text.size()) break;
      node = Child(node, static_cast<uint8_t>(text[end]));
    }
    if (longest.has_value()) return longest;
  }
  return std::nullopt;
}

}  // namespace ropeway::tokenizer
