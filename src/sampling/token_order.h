// The order of tokens by a key, sorted no further than the outcome needs.
#ifndef ROPEWAY_SAMPLING_TOKEN_ORDER_H_
#define ROPEWAY_SAMPLING_TOKEN_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::sampling {

// Token ids by descending key, sorted only as far as needed: of a vocabulary of tens of thousands,
// sampling looks at a handful.
//
// Keys descending, ties by id ascending; NaN counts as minus infinity.
// Thread rule: one thread at a time; keeps its memory from one order to the next.
class TokenOrder {
 public:
  struct Entry {
    float key;
    TokenId id;
  };

  // For at most `capacity` keys.
  explicit TokenOrder(size_t capacity);

  // Begins a new order, of `keys` (one per id), which must not change until the last call of
  // Ensure. `max`: about the largest key. It affects how the work is divided, never the order.
  void Begin(std::span<const float> keys, float max);

  // Makes at least the first `count` entries valid. REQUIRES: count <= keys.size().
  void Ensure(size_t count);

  // Sets the weights (by id) of all but the first `kept` entries to 0. `scratch` holds at least
  // `kept` floats; it may be the keys, if this order is not used afterwards.
  // REQUIRES: kept <= sorted().
  void KeepWeights(size_t kept, std::span<float> scratch, std::span<float> weights) const;

  // How many entries are valid.
  size_t sorted() const { return sorted_.size(); }
  // REQUIRES: rank < sorted().
  const Entry& operator[](size_t rank) const { return sorted_[rank]; }

 private:
  // Adds to waiting_ the keys >= `low` that were not added before; never minus infinity.
  void AddDownTo(float low);
  void AddRest();
  // Keys of minus infinity stand behind all others by id: they need no sorting. Most keys of a
  // masked row are such ones.
  void AppendLowest(size_t count);

  std::span<const float> keys_;
  float max_ = 0.0F;
  int windows_ = 0;               // Windows below max_ that were added.
  float floor_ = 0.0F;            // All keys >= floor_ were added; NaN: none.
  bool rest_added_ = false;       // All other keys above minus infinity were added too.
  size_t next_lowest_ = 0;        // Smaller ids of minus infinity are in sorted_.
  std::vector<Entry> sorted_;     // A prefix of the order; only grows until Begin.
  std::vector<Entry> waiting_;    // A heap of keys added and not yet sorted, the best on top.
  std::vector<float> block_max_;  // Largest key of each block of ids: most blocks are skipped.
};

// Sums of weights along the same order (keys descending, ties by id ascending; NaN as minus
// infinity), for prefixes so long that to sort them costs more than all else. Keys go into kBuckets
// buckets of equal width, and all keys of a bucket stand before the next bucket's keys, so only the
// bucket in which a sum reaches what is looked for has to be sorted.
//
// The definition of a sum: the sorted weights are added one after the other, in double. Here the
// weights are added in another order, and both sums are within error() of each other. Reach answers
// only where that cannot change its answer; for the rest, about one draw in 10^8, the caller sorts.
//
// Thread rule: one thread at a time; keeps its memory from one use to the next.
class RankBuckets {
 public:
  static constexpr size_t kBuckets = 2048;

  // A prefix of the order: all entries of the buckets before `bucket`, and `within` of its own.
  struct Cut {
    size_t bucket = 0;
    size_t within = 0;
  };

  // For at most `capacity` keys.
  explicit RankBuckets(size_t capacity);

  // Takes `keys` (one per id), which must not change until the last use. `max`: finite; keys above
  // it share the first bucket, and those further below it than `width` the last one. Neither
  // affects an answer.
  void Begin(std::span<const float> keys, float max, float width);

  static Cut All() { return {kBuckets, 0}; }
  // The first `count` entries. REQUIRES: count <= keys.size().
  Cut First(size_t count);

  // Sums, up to `end`, the weights (by id) that are at least `least`. `weights` must not change
  // until the last call of Reach.
  void Sum(std::span<const float> weights, float least, Cut end);
  // The whole sum.
  double total() const { return total_; }
  // How far the sum of any prefix may be from its definition, as a part of it.
  double error() const;

  // The shortest prefix whose sum reaches `enough`, which is known except for `slack`; it is not
  // empty, and its last entry counts in the sum. nullopt: none does, or rounding could decide.
  // REQUIRES: enough >= 0; Sum was called.
  std::optional<Cut> Reach(double enough, double slack);

  // The largest weight of the prefix, at least 0.
  float Largest(std::span<const float> weights, Cut end);
  // The id of the prefix's last entry. REQUIRES: end.within > 0.
  TokenId LastOf(Cut end);
  // Sets the weights of all entries outside the prefix to 0.
  void KeepWeights(Cut end, std::span<float> weights);

 private:
  // Makes sorted_ hold this bucket's entries in order.
  void SortBucket(size_t bucket);

  std::span<const float> keys_;
  std::vector<uint16_t> bucket_of_;  // By id.
  std::vector<uint32_t> counts_;     // By bucket.
  std::vector<TokenOrder::Entry> sorted_;
  size_t sorted_bucket_ = kBuckets;  // kBuckets: none.
  std::span<const float> weights_;
  float least_ = 0.0F;
  Cut end_;
  std::vector<double> sums_;  // By bucket, as far as end_.
  double total_ = 0.0;
};

}  // namespace ropeway::sampling

#endif  // ROPEWAY_SAMPLING_TOKEN_ORDER_H_
