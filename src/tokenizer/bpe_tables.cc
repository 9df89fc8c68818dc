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

// The id of a node that was merged into the one before it.
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

void MergeTable::MakeRoom(size_t merges) {
  const size_t size = std::bit_ceil(std::max<size_t>(2, merges * 2));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  slots_.resize(size);
}

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  MakeRoom(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) Add(merges[i], static_cast<uint32_t>(i));
}

MergeTable::MergeTable(const std::vector<Merge>& merges, const std::vector<uint32_t>& ranks) {
  MakeRoom(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) Add(merges[i], ranks[i]);
}

void MergeTable::Add(const Merge& merge, uint32_t rank) {
  const uint64_t pair = PairOf(merge.left, merge.right);
  slots_[SlotOf(pair)] = {pair, rank, merge.merged};
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
    return;
  }
  LongMerge merging(this, ids.size());
  for (const TokenId id : ids) merging.Add(id);
  Work all(SIZE_MAX);
  merging.Run(&all);
  ids.clear();
  merging.Take(&all, &ids);
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

MergeTable::LongMerge::LongMerge(const MergeTable* table, size_t most) : table_(table) {
  nodes_.reserve(most);
  heap_.reserve(most);
}

void MergeTable::LongMerge::Offer(uint32_t at) {
  const uint32_t next = nodes_[at].next;
  if (next == kNone) return;
  const Slot* const slot = table_->Find(nodes_[at].id, nodes_[next].id);
  if (slot == nullptr) return;
  heap_.push_back(uint64_t{slot->rank} << 32U | at);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void MergeTable::LongMerge::Add(TokenId id) {
  const auto at = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({id, at == 0 ? kNone : at - 1, kNone});
  if (at == 0) return;
  nodes_[at - 1].next = at;
  Offer(at - 1);
}

bool MergeTable::LongMerge::Run(Work* work) {
  while (!heap_.empty()) {
    if (!work->left()) return false;
    work->Spend(1);
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap_.back() >> 32U);
    const auto at = static_cast<uint32_t>(heap_.back());
    heap_.pop_back();
    Node& left = nodes_[at];
    if (left.id == kUnlinked || left.next == kNone) continue;
    Node& right = nodes_[left.next];
    const Slot* const slot = table_->Find(left.id, right.id);
    if (slot == nullptr || slot->rank != rank) continue;

    left.id = slot->merged;
    right.id = kUnlinked;
    left.next = right.next;
    if (right.next != kNone) nodes_[right.next].previous = at;
    if (left.previous != kNone) Offer(left.previous);
    Offer(at);
  }
  return true;
}

bool MergeTable::LongMerge::Take(Work* work, std::vector<TokenId>* ids) {
  while (taken_ != kNone && !nodes_.empty()) {
    if (!work->left()) return false;
    const size_t most = work->window();
    work->SpendScan(most * sizeof(TokenId));
    for (size_t i = 0; i < most && taken_ != kNone; ++i) {
      ids->push_back(nodes_[taken_].id);
      taken_ = nodes_[taken_].next;
    }
  }
  return true;
}

size_t MergeTable::LongMerge::bytes() const {
  return nodes_.capacity() * sizeof(Node) + heap_.capacity() * sizeof(uint64_t);
}

}  // namespace ropeway::tokenizer
