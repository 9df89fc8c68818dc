#include "gateway/prefix_ring.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "base/random.h"

namespace ropeway::gateway {
namespace {

constexpr auto kIdsPerPrefixBlock = static_cast<size_t>(kTokensPerPrefixBlock);

// Mixes the bytes into `hash`, eight at a time; the last ones with their number.
uint64_t MixBytes(uint64_t hash, std::string_view bytes) {
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    // Little-endian whatever the machine is: several gateways are to agree.
    for (size_t i = 0; i < 8; ++i) {
      word |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    }
    hash = base::Mix64(hash, word);
  }
  uint64_t rest = bytes.size();
  for (const char c : bytes) rest = rest << 8 | static_cast<uint8_t>(c);
  return base::Mix64(hash, rest);
}

}  // namespace

std::vector<uint64_t> PrefixBlocks(std::string_view scope, std::string_view prompt) {
  const size_t count = std::min(kMaxPrefixBlocks, prompt.size() / kPrefixBlockBytes);
  std::vector<uint64_t> blocks;
  blocks.reserve(count);
  uint64_t hash = MixBytes(0, scope);
  for (size_t i = 0; i < count; ++i) {
    hash = MixBytes(hash, prompt.substr(i * kPrefixBlockBytes, kPrefixBlockBytes));
    blocks.push_back(hash);
  }
  return blocks;
}

std::vector<uint64_t> PrefixBlocks(std::string_view scope, std::span<const int32_t> prompt) {
  const size_t count = std::min(kMaxPrefixBlocks, prompt.size() / kIdsPerPrefixBlock);
  std::vector<uint64_t> blocks;
  blocks.reserve(count);
  uint64_t hash = MixBytes(1, scope);
  for (size_t i = 0; i < count; ++i) {
    for (const int32_t id : prompt.subspan(i * kIdsPerPrefixBlock, kIdsPerPrefixBlock)) {
      hash = base::Mix64(hash, static_cast<uint32_t>(id));
    }
    blocks.push_back(hash);
  }
  return blocks;
}

HashRing::HashRing(std::span<const Node> nodes) {
  double largest = 0.0;
  for (const Node& node : nodes) largest = std::max(largest, node.weight);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const double part = largest > 0.0 ? nodes[n].weight / largest : 1.0;
    const auto points = std::clamp<int64_t>(std::llround(kPoints * part), 1, kPoints);
    const uint64_t hash = MixBytes(2, nodes[n].name);
    for (int64_t i = 0; i < points; ++i) {
      points_.emplace_back(base::Mix64(hash, static_cast<uint64_t>(i)), static_cast<int>(n));
    }
  }
  std::sort(points_.begin(), points_.end());
}

size_t HashRing::FirstAfter(uint64_t key) const {
  // Names of pieces are mixed well already, but a ring of few points wants more than their high
  // bits.
  const std::pair<uint64_t, int> at(base::Mix64(3, key), -1);
  return static_cast<size_t>(std::lower_bound(points_.begin(), points_.end(), at) -
                             points_.begin());
}

PrefixTable::PrefixTable(size_t entries)
    : most_sets_(std::max<size_t>(1, entries / kWays)),
      sets_(std::min(most_sets_, kFirstEntries / kWays)),
      entries_(sets_ * kWays) {}

const PrefixTable::Entry* PrefixTable::Get(uint64_t block) const {
  const size_t set = SetOf(block);
  for (size_t i = set; i < set + kWays; ++i) {
    if (entries_[i].replicas != 0 && entries_[i].block == block) return &entries_[i];
  }
  return nullptr;
}

PrefixTable::Match PrefixTable::Find(std::span<const uint64_t> blocks, ReplicaMask replicas) const {
  Match match;
  for (const uint64_t block : blocks) {
    const Entry* const entry = Get(block);
    if (entry == nullptr) break;
    ++match.known;
    if ((entry->replicas & replicas) == 0) continue;
    match.depth = match.known;
    match.replicas = entry->replicas & replicas;
  }
  return match;
}

int32_t PrefixTable::Depth(std::span<const uint64_t> blocks, int replica) const {
  int32_t depth = 0;
  for (const uint64_t block : blocks) {
    const Entry* const entry = Get(block);
    if (entry == nullptr || (entry->replicas >> replica & 1) == 0) break;
    ++depth;
  }
  return depth;
}

PrefixTable::Entry* PrefixTable::Place(uint64_t block) {
  Entry* const set = &entries_[SetOf(block)];
  Entry* place = set;
  for (Entry* entry = set; entry < set + kWays; ++entry) {
    if (entry->replicas != 0 && entry->block == block) return entry;
    // A free one counts as used never.
    if (entry->used < place->used) place = entry;
  }
  return place;
}

bool PrefixTable::Grow() {
  if (2 * sets_ > most_sets_) return false;
  std::vector<Entry> before;
  try {
    before.resize(2 * entries_.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  before.swap(entries_);
  sets_ *= 2;
  // What was in one set is in one of two now, so there is room for all of it.
  for (const Entry& entry : before) {
    if (entry.replicas != 0) *Place(entry.block) = entry;
  }
  return true;
}

void PrefixTable::Note(std::span<const uint64_t> blocks, int replica) {
  ++uses_;
  const ReplicaMask mask = ReplicaMask{1} << replica;
  for (const uint64_t block : blocks) {
    Entry* entry = Place(block);
    const auto is_taken = [&] { return entry->replicas != 0 && entry->block != block; };
    while (is_taken() &&
           static_cast<double>(used_) >= kFull * static_cast<double>(entries_.size()) && Grow()) {
      entry = Place(block);
    }
    if (entry->replicas == 0) ++used_;
    if (entry->replicas == 0 || entry->block != block) *entry = {block, 0, 0};
    entry->replicas |= mask;
    entry->used = uses_;
  }
}

void PrefixTable::Forget(int replica) {
  const ReplicaMask keep = ~(ReplicaMask{1} << replica);
  for (Entry& entry : entries_) {
    if (entry.replicas == 0) continue;
    entry.replicas &= keep;
    if (entry.replicas != 0) continue;
    entry.used = 0;
    --used_;
  }
}

}  // namespace ropeway::gateway
