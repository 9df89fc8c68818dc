// What one step was made of, for traces: plain numbers that outlive the sequences.
#ifndef ROPEWAY_CORE_STEP_CONTENT_H_
#define ROPEWAY_CORE_STEP_CONTENT_H_

#include <cstdint>
#include <vector>

namespace ropeway {

struct StepContent {
  enum class Kind : uint8_t { kPrefill, kDecode };

  // What one sequence computed.
  struct Item {
    uint64_t sequence = 0;
    Kind kind = Kind::kDecode;
    int32_t start = 0;   // The position of its first token: so many were in the KV cache already.
    int32_t tokens = 0;  // Rows of the forward pass.
  };

  std::vector<Item> items;
  std::vector<uint64_t> preempted;
  std::vector<uint64_t> fetching;  // They began to wait for KV blocks of a tier.
  int32_t fetched_blocks = 0;      // Came from a tier since the step before.

  bool empty() const { return items.empty() && preempted.empty() && fetching.empty(); }
};

}  // namespace ropeway

#endif  // ROPEWAY_CORE_STEP_CONTENT_H_
