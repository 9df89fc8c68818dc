// Token ids by descending key, sorted only as far as somebody looks: of a vocabulary's tens of
// thousands, sampling wants a handful.
#ifndef ROPEWAY_EXECUTOR_TOKEN_ORDER_H_
#define ROPEWAY_EXECUTOR_TOKEN_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

// Key descending, ties by id ascending; a NaN counts as minus infinity. Keeps its memory from one
// order to the next. Thread rule: one thread at a time.
class TokenOrder {
 public:
  struct Entry {
    float key;
    TokenId id;
  };

  // For at most `capacity` keys.
  explicit TokenOrder(size_t capacity);

  // Begins the order of `keys` (one per id; unchanged until the last call of Ensure), of which
  // nothing is sorted yet. `max`: about their largest. It decides how the work is cut, never the
  // order.
  void Begin(std::span<const float> keys, float max);

  // Makes at least the first `count` entries valid. REQUIRES: count <= keys.size().
  void Ensure(size_t count);

  // Sets the weights (by id) of all but the first `kept` entries to 0. `scratch` holds at least
  // `kept` floats; it may be the keys, if this order is not looked at again.
  // REQUIRES: kept <= sorted().
  void KeepWeights(size_t kept, std::span<float> scratch, std::span<float> weights) const;

  // How many entries are valid.
  size_t sorted() const { return sorted_.size(); }
  // REQUIRES: rank < sorted().
  const Entry& operator[](size_t rank) const { return sorted_[rank]; }

 private:
  // Puts those keys in waiting_ that are at least `low` and were not added before.
  void AddDownTo(float low);
  void AddRest();

  std::span<const float> keys_;
  float max_ = 0.0F;
  int windows_ = 0;               // How many windows below max_ were added ...
  float floor_ = 0.0F;            // ... and so all keys from here up; NaN: none.
  bool all_added_ = false;        // All others too.
  std::vector<Entry> sorted_;     // A beginning of the order; only grows until Begin.
  std::vector<Entry> waiting_;    // A heap of what was added and comes next, the best on top.
  std::vector<float> block_max_;  // The largest key of each kBlock ids: most blocks need no look.
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_TOKEN_ORDER_H_
