// The operations of a forward pass on a device. Each has the meaning of the function of
// kernels::Kernels that it is named after, to the bit (docs/numerics.md).
//
// Rows are [rows][stride] f32; a stride counts floats. What an operation does has not happened when
// it returns: see Gpu, whose thread rule holds here, too. A lost device is said by Gpu::Finish.
#ifndef ROPEWAY_GPU_OPS_H_
#define ROPEWAY_GPU_OPS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "gpu/gpu.h"
#include "kernels/kernels.h"
#include "ropeway/status.h"

namespace ropeway::gpu {

// Rows of floats.
struct Rows {
  View at;
  int32_t stride = 0;
};

// A weight matrix on the device, in the panels of kernels::Matrix; or several of one shape, one
// after the other (the experts of a layer).
struct DeviceMatrix {
  kernels::WeightType type = kernels::WeightType::kF32;
  int32_t n = 0;
  int32_t k = 0;
  View panels;  // None: the model has no such matrix.
  View bias;    // [n] f32 of each matrix; none: no bias.

  explicit operator bool() const { return static_cast<bool>(panels); }
};

// Rows of k elements, quantised in blocks of 32 for any quantised type of weights.
struct PackedRows {
  View levels;  // [rows][k] int8; its offset is a multiple of 16.
  View scales;  // [rows][k / 32] f32
  View sums;    // [rows][k / 32][2] int32: of the levels of each half of a block.

  // Bytes of each for so many elements in all.
  static size_t LevelBytes(int64_t elements) { return static_cast<size_t>(elements); }
  static size_t ScaleBytes(int64_t elements) { return static_cast<size_t>(elements) / 32 * 4; }
  static size_t SumBytes(int64_t elements) { return static_cast<size_t>(elements) / 32 * 8; }
};

// What a matrix is multiplied with: its type decides which of the two is read.
struct Input {
  Rows rows;          // For types that are not quantised.
  PackedRows packed;  // For the others.
};

// Row r of the result is row r / shared_by of the input times matrix ids[r] (0 without ids).
struct RowMatrices {
  View ids;  // [rows] int32
  int32_t shared_by = 1;
};

enum class Activation : int32_t { kSwiGlu, kGeGlu, kSwiGluClamped, kGelu, kExactGelu };

// Where K and V of one layer lie.
struct KvView {
  kernels::KvType type = kernels::KvType::kF16;
  int32_t head_dim = 0;
  int32_t kv_heads = 0;
  View pool;  // The layer's first KV head in block 0; the next heads follow.
  // A block table's blocks are so many bytes apart in the pool. A multiple of 64.
  uint64_t block_bytes = 0;
  View tables;          // [..] int32: block ids
  View row_tables;      // [rows] int32: where in `tables` the row's sequence begins
  int32_t table_step;   // Entries from a block of the layer's group to its next one.
  int32_t table_first;  // The group's entry among the `table_step`.
};

struct AttentionCall {
  Rows q;    // [rows][heads][head_dim], rotated
  Rows out;  // as q
  int32_t rows = 0;
  int32_t heads = 0;  // A multiple of kv_heads.
  float scale = 1.0F;
  float soft_cap = 0.0F;  // 0: none.
  int32_t window = 0;     // 0: all positions.
  View ends;              // [rows] int32: a row sees the positions before this one ...
                          // ... and with a window only the last `window` of them.
  View sinks;             // [heads] f32; none: no sinks.
  int32_t splits = 1;     // At least MostSplits of the rows.
  // From here to its buffer's end is room for partials: see PartialBytes. None, or too little: each
  // context is computed by one group of lanes.
  View partials;
};

// The most splits (kernels::kSplitTokens) that one of the rows sees.
int MostSplits(std::span<const int32_t> ends, int window);
// Room with which splits are computed apart wherever that pays, unless it would be more than 64
// MiB: then only as long as the rows times the splits of the longest context fit.
size_t PartialBytes(int head_dim, int heads, int kv_heads, int max_rows, int max_positions);

class Ops {
 public:
  // Builds what does not depend on weights. `gpu` must outlive it. Errors as for Gpu::Build.
  static StatusOr<std::unique_ptr<Ops>> Make(Gpu* gpu);
  // With none of that: for tests of what AddType builds.
  static std::unique_ptr<Ops> MakeForTypes(Gpu* gpu);
  ~Ops();

  // Builds what multiplies weights of this type; needed once before MatMul and Unpack of it.
  Status AddType(kernels::WeightType type);

  // ops_matmul.cc

  // y[r][0 .. n) = the product of row r, plus the bias if there is one.
  void MatMul(const DeviceMatrix& matrix, const Input& input, int rows, Rows y,
              const RowMatrices& which = {});
  // y[r][0 .. k) = row ids[r] of the matrix. ids: [rows] int32.
  void Unpack(const DeviceMatrix& matrix, View ids, int rows, Rows y);

  // ops_rows.cc

  // Quantises k elements of each row. k % 32 == 0.
  void Pack(Rows x, int rows, int k, const PackedRows& to);
  // y may be x.
  void RmsNorm(Rows x, View weight, int rows, int n, float eps, Rows y);
  void LayerNorm(Rows x, View weight, View bias, int rows, int n, float eps, Rows y);
  // Each row has `heads` heads; `cos_sin` has a row of rope_dim / 2 cosines, then as many sines,
  // for each of them. `halves`: as Kernels::rope_halves.
  void Rope(Rows x, int rows, int heads, int head_dim, int rope_dim, bool halves, Rows cos_sin);
  // gate = activation(gate, up); kGelu and kExactGelu read only `up`.
  void Activate(Activation activation, Rows gate, Rows up, int rows, int n);
  // x += y.
  void Add(Rows x, Rows y, int rows, int n);
  void Scale(Rows x, float factor, int rows, int n);
  // y[r] = x[ids[r]]. ids: [rows] int32.
  void Gather(Rows x, View ids, int rows, int n, Rows y);
  // y[r] = the sum over the `used` rows x[r * used + i], in this order, each times weights[r * used
  // + i]; then, if `last` is given, last[r] times last_weights[r]. Begins with +0, each step an FMA
  // as Kernels::add_scaled.
  void SumScaled(Rows x, View weights, int used, Rows last, View last_weights, int rows, int n,
                 Rows y);
  // Of each row's `count` logits the `used` largest, as executor::ChooseExperts has it: ids
  // [rows][used] int32, ascending, and their weights [rows][used] f32.
  void ChooseExperts(Rows logits, int rows, int count, int used, bool normalized, View ids,
                     View weights);
  // x[r][0] = 1 / (1 + e^-x).
  void Sigmoid(Rows x, int rows);

  // ops_attention.cc

  // Writes K and V of each row's heads to its place. `slots`: [rows] int32, the row's position; -1:
  // nothing is written.
  void StoreKv(const KvView& kv, Rows k, Rows v, View slots, int rows);
  // Over all splits, merged and normalised. Where there are few rows and several splits, these are
  // computed by groups of lanes of their own.
  void Attend(const KvView& kv, const AttentionCall& call);

  // ops_logits.cc

  // Caps each row's n logits where `cap` is above 0, and makes those of the `absent_count` ids
  // minus infinity. absent: int32.
  void FinishLogits(Rows logits, int rows, int n, float cap, View absent, int absent_count);
  // The first of each row's largest logits above minus infinity; minus infinity and 0 where there
  // is none. values: [rows] f32; ids: [rows] int32.
  void FindLargest(Rows logits, int rows, int n, View values, View ids);

 private:
  struct Programs;  // ops.cc

  explicit Ops(Gpu* gpu);
  const Kernel& Get(const char* name) const;
  const Kernel& Get(kernels::WeightType type, const char* name) const;

  Gpu* const gpu_;
  std::unique_ptr<Programs> programs_;
};

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_OPS_H_
