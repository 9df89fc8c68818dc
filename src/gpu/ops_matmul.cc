// Products with weights, and rows of them: device/matmul.cl.
#include "gpu/constants.h"
#include "gpu/ops.h"
#include "kernels/kernels.h"

namespace ropeway::gpu {
namespace {

// A product of fewer groups leaves most of a large GPU idle.
constexpr int64_t kEnoughGroups = 512;

int32_t CeilingOf(int32_t count, int32_t each) { return (count + each - 1) / each; }

}  // namespace

void Ops::MatMul(const DeviceMatrix& matrix, const Input& input, int rows, Rows y,
                 const RowMatrices& which) {
  const int tile = which.ids ? 1 : kTileRows;
  const PackedRows& packed = input.packed;
  const Groups groups = {CeilingOf(rows, tile), CeilingOf(matrix.n, kMatMulLanes)};
  if (kernels::WeightBlockElements(matrix.type) > 1 &&
      int64_t{groups.x} * groups.y < kEnoughGroups) {
    gpu_->Launch(Get(matrix.type, "matmul_few"),
                 {groups.x, CeilingOf(matrix.n, kernels::kPanelCols)}, kFewLanes,
                 {matrix.panels, matrix.n, matrix.k, matrix.bias, packed.levels, packed.scales,
                  packed.sums, which.ids, which.shared_by, rows, tile, y.at, y.stride});
    return;
  }
  gpu_->Launch(Get(matrix.type, "matmul"), groups, kMatMulLanes,
               {matrix.panels, matrix.n, matrix.k, matrix.bias, input.rows.at, input.rows.stride,
                packed.levels, packed.scales, packed.sums, which.ids, which.shared_by, rows, tile,
                y.at, y.stride});
}

void Ops::Unpack(const DeviceMatrix& matrix, View ids, int rows, Rows y) {
  gpu_->Launch(Get(matrix.type, "unpack"), {rows, CeilingOf(matrix.k, kMatMulLanes)}, kMatMulLanes,
               {matrix.panels, matrix.k, ids, y.at, y.stride});
}

}  // namespace ropeway::gpu
