// Operations on rows of floats: device/rows.cl.
#include "gpu/constants.h"
#include "gpu/ops.h"

namespace ropeway::gpu {
namespace {

// Groups for the columns [0, n) of each row.
Groups ByChunks(int rows, int n) { return {rows, (n + kRowChunk - 1) / kRowChunk}; }

}  // namespace

void Ops::Pack(Rows x, int rows, int k, const PackedRows& to) {
  gpu_->Launch(Get("pack"), ByChunks(rows, k), kRowLanes,
               {x.at, x.stride, k, to.levels, to.scales, to.sums});
}

void Ops::RmsNorm(Rows x, View weight, int rows, int n, float eps, Rows y) {
  gpu_->Launch(Get("rms_norm"), {rows, 1}, kRowLanes,
               {x.at, x.stride, weight, n, eps, y.at, y.stride});
}

void Ops::LayerNorm(Rows x, View weight, View bias, int rows, int n, float eps, Rows y) {
  gpu_->Launch(Get("layer_norm"), {rows, 1}, kRowLanes,
               {x.at, x.stride, weight, bias, n, eps, y.at, y.stride});
}

void Ops::Rope(Rows x, int rows, int heads, int head_dim, int rope_dim, bool halves, Rows cos_sin) {
  gpu_->Launch(
      Get("rope"), ByChunks(rows, heads * (rope_dim / 2)), kRowLanes,
      {x.at, x.stride, heads, head_dim, rope_dim, halves ? 1 : 0, cos_sin.at, cos_sin.stride});
}

void Ops::Activate(Activation activation, Rows gate, Rows up, int rows, int n) {
  gpu_->Launch(Get("activate"), ByChunks(rows, n), kRowLanes,
               {static_cast<int32_t>(activation), gate.at, gate.stride, up.at, up.stride, n});
}

void Ops::Add(Rows x, Rows y, int rows, int n) {
  gpu_->Launch(Get("add"), ByChunks(rows, n), kRowLanes, {x.at, x.stride, y.at, y.stride, n});
}

void Ops::Scale(Rows x, float factor, int rows, int n) {
  gpu_->Launch(Get("scale"), ByChunks(rows, n), kRowLanes, {x.at, x.stride, factor, n});
}

void Ops::Gather(Rows x, View ids, int rows, int n, Rows y) {
  gpu_->Launch(Get("gather"), ByChunks(rows, n), kRowLanes,
               {x.at, x.stride, ids, n, y.at, y.stride});
}

void Ops::SumScaled(Rows x, View weights, int used, Rows last, View last_weights, int rows, int n,
                    Rows y) {
  gpu_->Launch(Get("sum_scaled"), ByChunks(rows, n), kRowLanes,
               {x.at, x.stride, weights, used, last.at ? 1 : 0, last.at, last.stride, last_weights,
                n, y.at, y.stride});
}

void Ops::ChooseExperts(Rows logits, int rows, int count, int used, bool normalized, View ids,
                        View weights) {
  gpu_->Launch(Get("choose_experts"), {rows, 1}, kRowLanes,
               {logits.at, logits.stride, count, used, normalized ? 1 : 0, ids, weights});
}

void Ops::Sigmoid(Rows x, int rows) {
  gpu_->Launch(Get("sigmoid"), {(rows + kRowLanes - 1) / kRowLanes, 1}, kRowLanes,
               {x.at, x.stride, rows});
}

}  // namespace ropeway::gpu
