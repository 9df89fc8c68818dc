// The end of a forward pass: device/logits.cl.
#include "gpu/constants.h"
#include "gpu/ops.h"

namespace ropeway::gpu {

void Ops::FinishLogits(Rows logits, int rows, int n, float cap, View absent, int absent_count) {
  if (cap <= 0.0F && absent_count == 0) return;
  gpu_->Launch(Get("finish_logits"), {rows, 1}, kLogitLanes,
               {logits.at, logits.stride, n, cap, absent, absent_count});
}

void Ops::FindLargest(Rows logits, int rows, int n, View values, View ids) {
  gpu_->Launch(Get("largest"), {rows, 1}, kLogitLanes, {logits.at, logits.stride, n, values, ids});
}

}  // namespace ropeway::gpu
