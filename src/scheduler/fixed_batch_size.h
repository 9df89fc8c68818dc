// A limit that stays.
#ifndef ROPEWAY_SCHEDULER_FIXED_BATCH_SIZE_H_
#define ROPEWAY_SCHEDULER_FIXED_BATCH_SIZE_H_

#include "scheduler/batch_size_control.h"

namespace ropeway {

class FixedBatchSize final : public BatchSizeControl {
 public:
  explicit FixedBatchSize(int max_num_seqs) : limit_(max_num_seqs) {}
  int limit() const override { return limit_; }
  void OnStep(Duration, double) override {}

 private:
  const int limit_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_FIXED_BATCH_SIZE_H_
