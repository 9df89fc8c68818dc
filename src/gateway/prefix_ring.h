// Which replica holds the cache of a prompt's beginning: names for pieces of prompts, a bounded
// table of the pieces that each replica was sent, and a hash ring for pieces that none was sent.
#ifndef ROPEWAY_GATEWAY_PREFIX_RING_H_
#define ROPEWAY_GATEWAY_PREFIX_RING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropeway::gateway {

// A set of replicas, by bit.
using ReplicaMask = uint64_t;

// Bytes of a piece: about a block of 16 tokens.
inline constexpr size_t kPrefixBlockBytes = 64;
// Pieces of a prompt that are named, at most: its first 64 KiB tell conversations apart.
inline constexpr size_t kMaxPrefixBlocks = 1024;
// Bytes of text that make a token, about.
inline constexpr double kBytesPerToken = 4.0;
// Tokens of a piece, about.
inline constexpr int32_t kTokensPerPrefixBlock = 16;

// Names of the full pieces of a prompt as rendered, each over all that comes before it: prompts
// with equal names have equal beginnings. `scope`: what else must be equal for a cache to be
// shared, such as the model, the tenant's cache scope and its salt. The same on every machine. Not
// for secrets: a client that finds a collision changes where requests go, and nothing else.
std::vector<uint64_t> PrefixBlocks(std::string_view scope, std::string_view prompt);
// The same names for a prompt of token ids, 16 to a piece.
std::vector<uint64_t> PrefixBlocks(std::string_view scope, std::span<const int32_t> prompt);

// Consistent hashing (Karger et al., STOC 1997): each replica has kPoints points on a ring, by
// weight against the largest one; a key belongs to the first one after it. When a replica comes or
// goes, only its own keys move.
//
// Thread rule: const methods from any thread.
class HashRing {
 public:
  static constexpr int kPoints = 64;

  struct Node {
    std::string name;
    double weight = 1.0;
  };
  explicit HashRing(std::span<const Node> nodes);

  // The first one of `replicas` after the key for which `accept` is true; -1: none.
  template <typename Accept>
  int Find(uint64_t key, ReplicaMask replicas, Accept accept) const {
    const size_t first = FirstAfter(key);
    for (size_t i = 0; i < points_.size() && replicas != 0; ++i) {
      const int replica = points_[(first + i) % points_.size()].second;
      const ReplicaMask mask = ReplicaMask{1} << replica;
      if ((replicas & mask) == 0) continue;
      if (accept(replica)) return replica;
      replicas &= ~mask;
    }
    return -1;
  }

 private:
  size_t FirstAfter(uint64_t key) const;

  std::vector<std::pair<uint64_t, int>> points_;  // Sorted.
};

// Knows of each piece to which replicas it was sent. It is a table of sets of kWays entries: in a
// full set the least recently used entry makes room. It begins with kFirstEntries and doubles, up
// to its bound, when a set is full while a part of all entries (kFull) is in use.
//
// Thread rule: the dispatcher's.
class PrefixTable {
 public:
  static constexpr size_t kFirstEntries = 1024;

  // Room for so many pieces in the end, about; at least kWays.
  explicit PrefixTable(size_t entries);

  // The longest known beginning of a prompt.
  struct Match {
    int32_t known = 0;         // Pieces that were sent to some replica.
    int32_t depth = 0;         // The most pieces that were sent to one of the asked replicas.
    ReplicaMask replicas = 0;  // The asked replicas with that many.
  };
  Match Find(std::span<const uint64_t> blocks, ReplicaMask replicas) const;
  // The pieces of the prompt that this replica was sent, from the first on.
  int32_t Depth(std::span<const uint64_t> blocks, int replica) const;

  // Never throws: where memory is short it does not grow.
  void Note(std::span<const uint64_t> blocks, int replica);
  // The replica has none of them any more. O(entries).
  void Forget(int replica);

  size_t bytes() const { return entries_.size() * sizeof(Entry); }

 private:
  static constexpr size_t kWays = 4;
  static constexpr double kFull = 0.125;
  struct Entry {
    uint64_t block = 0;
    ReplicaMask replicas = 0;  // 0: the entry is free.
    uint64_t used = 0;
  };

  size_t SetOf(uint64_t block) const { return (block % sets_) * kWays; }
  const Entry* Get(uint64_t block) const;
  // The entry of the block, or the one that makes room for it.
  Entry* Place(uint64_t block);
  // Doubles the sets. False: it has all that it may have, or memory is short.
  bool Grow();

  const size_t most_sets_;
  size_t sets_;
  size_t used_ = 0;  // Entries that are not free.
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_PREFIX_RING_H_
