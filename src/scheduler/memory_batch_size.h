// A limit by the free part of the KV pool.
#ifndef ROPEWAY_SCHEDULER_MEMORY_BATCH_SIZE_H_
#define ROPEWAY_SCHEDULER_MEMORY_BATCH_SIZE_H_

#include <algorithm>

#include "scheduler/batch_size_control.h"

namespace ropeway {

// More than 90 % of the pool free: kMany; less than 50 %: kFew; between: as before. At most
// max_num_seqs, and kMany to begin with.
class MemoryBatchSize final : public BatchSizeControl {
 public:
  static constexpr int kMany = 16;
  static constexpr int kFew = 4;
  static constexpr double kMuchFree = 0.9;
  static constexpr double kLittleFree = 0.5;

  explicit MemoryBatchSize(int max_num_seqs)
      : max_num_seqs_(max_num_seqs), limit_(std::min(kMany, max_num_seqs)) {}
  int limit() const override { return limit_; }
  void OnStep(Duration /*step*/, double free_share) override {
    if (free_share > kMuchFree) limit_ = std::min(kMany, max_num_seqs_);
    if (free_share < kLittleFree) limit_ = std::min(kFew, max_num_seqs_);
  }

 private:
  const int max_num_seqs_;
  int limit_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_MEMORY_BATCH_SIZE_H_
