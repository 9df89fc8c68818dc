// The Kernels seam: every floating-point operation of a forward pass, as one table of functions per
// instruction set. reference.cc defines each function to the bit; every other table must give the
// same bits for the same inputs (docs/numerics.md). No result depends on how many rows are computed
// together, nor on how the work is divided among threads.
//
// Thread rule: pure functions of their arguments; distinct output ranges may be computed at once.
#ifndef ROPEWAY_KERNELS_KERNELS_H_
#define ROPEWAY_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "base/kv_block.h"
#include "kernels/number_types.h"

namespace ropeway::kernels {

// Raised with every change that may change a bit of any KV byte or log-probability.
inline constexpr int kNumericsVersion = 1;

// Constants of kNumericsVersion, as kBlockTokens (base/kv_block.h) is.
inline constexpr int kSoftmaxTokens = 64;  // Softmax rescales at multiples of it.
inline constexpr int kSplitTokens =
    1024;  // A context is split at multiples of it, merged in order.

// Layout constants; they do not affect results.
inline constexpr int kPanelCols = 16;  // Output features of a weight panel.
inline constexpr int kRowGroup = 4;    // Rows that are packed together.

// Offsets in a stored block of the f16 scale and of the f16 minimum (or what it is a multiple of);
// -1: the type has none.
struct StoredScales {
  int scale = -1;
  int min = -1;
};
StoredScales StoredScalesOf(WeightType type);
// The index of the first of `count` stored blocks with a scale or minimum that is not a finite
// number (of MXFP4: the exponent 255, which stands for NaN; of types that are not quantised: of the
// first such element); -1 if there is none.
int64_t FindBadScale(WeightType type, const std::byte* blocks, int64_t count);

// A weight matrix [n, k] repacked into panels of 16 output features each, in about the file's bit
// width (docs/numerics.md says by how much more).
struct Matrix {
  WeightType type = WeightType::kF32;
  int32_t n = 0;  // Output features; the last panel is padded with zero weights.
  int32_t k = 0;  // Input features.
  const std::byte* panels = nullptr;  // 64-byte aligned, MatrixBytes(type, n, k) bytes, not owned.

  int num_panels() const { return (n + kPanelCols - 1) / kPanelCols; }
  // The matrix of the output features of panels [begin, end).
  Matrix PanelRange(int begin, int end) const;
};

size_t PanelBytes(WeightType type, int k);  // Bytes of one panel; a multiple of 64.
size_t MatrixBytes(WeightType type, int n, int k);

// Repacks panels [panel_begin, panel_end) of GGUF rows (`rows`: [n][WeightRowBytes(type, k)]) into
// `panels` (the start of the whole matrix). Allocates nothing.
void PackPanels(WeightType type, int n, int k, const std::byte* rows, int panel_begin,
                int panel_end, std::byte* panels);

// Dequantises row `row` of the matrix: out[k]. The embedding look-up.
void UnpackRow(const Matrix& matrix, int row, float* out);

// How activations are packed (docs/numerics.md): not at all, or in blocks of 32 as int8 with a
// scale and, for the block or for each half of it ("parts"), its sum times the scale or times minus
// an offset. Rows that are packed for one type of weights serve every type of the same packing.
enum class RowPacking : uint8_t {
  kFloats,
  kScaledSum,
  kOffset8,
  kOffset16,
  kOffset128,
  kPartsScaledSum,
  kPartsOffset4,
  kPartsOffset32,
};
RowPacking RowPackingOf(WeightType type);

// Bytes that pack_rows needs for `rows` rows of k elements to be multiplied with weights of `type`.
size_t PackedRowsBytes(WeightType type, int rows, int k);

// One attention problem: `rows` consecutive query positions of one sequence, against one KV head.
struct AttentionArgs {
  // Query row r, head h of the group: q + r * q_stride + h * head_dim (not yet scaled).
  const float* q = nullptr;
  int64_t q_stride = 0;
  float scale = 1.0F;     // Multiplies each element of q first (one rounding).
  float soft_cap = 0.0F;  // Above 0, a score s counts as soft_cap * tanh(s / soft_cap) (Gemma 2).
  int32_t rows = 0;
  int32_t start = 0;   // Absolute position of row 0; row r sees positions 0 .. start + r, ...
  int32_t window = 0;  // ... or, above 0, only the last `window` of these.
  // Above 0: every row sees the positions before this one, also those behind its own. REQUIRES
  // then: window == 0.
  int32_t end = 0;
  int32_t group = 1;     // Query heads that share this KV head.
  int32_t head_dim = 0;  // A multiple of 16, at most 256.

  // Block b of the sequence, as KvHeadBlockBytes describes it, is at
  // kv + blocks[b * block_step] * block_stride; `kv` belongs to the layer and KV head. Entries of
  // blocks that no row sees are not read.
  KvType kv_type = KvType::kF16;
  const std::byte* kv = nullptr;  // 64-byte aligned.
  size_t block_stride = 0;        // A multiple of 64.
  const int32_t* blocks = nullptr;
  int32_t block_step = 1;

  // A hint that does not affect results: the `next_count` blocks, of the same type, head_dim and
  // stride, that the caller will most likely ask for next. The kernel prefetches the first of them.
  // Block i is next_blocks[i * block_step].
  const std::byte* next_kv = nullptr;
  const int32_t* next_blocks = nullptr;
  int32_t next_count = 0;
};

// Floats of one (row, head) in a partial attention result: o[head_dim], then m, l, then padding.
inline constexpr int PartialFloats(int head_dim) { return head_dim + 16; }

struct Kernels {
  const char* name;  // "reference", "avx2", "avx512vnni"

  // Packs rows [row_begin, row_end) of x ([rows][x_stride] f32, k used) for multiplication with
  // weights of `type`, as RowPackingOf says. k may be any multiple of 32 for quantised types.
  // REQUIRES: row_begin % kRowGroup == 0; row_end % kRowGroup == 0 or row_end is the last row.
  void (*pack_rows)(WeightType type, const float* x, int64_t x_stride, int row_begin, int row_end,
                    int k, std::byte* packed);

  // y[r][c] = sum over k of w[c][k] * x[r][k], for all `rows` rows and the columns of panels
  // [panel_begin, panel_end) that are < w.n. y: [rows][y_stride] f32.
  void (*matmul)(const Matrix& w, const std::byte* packed, int rows, int panel_begin, int panel_end,
                 float* y, int64_t y_stride);

  // y = x / sqrt(mean(x^2) + eps) * weight, n elements (RMSNorm, Zhang & Sennrich 2019, eq. 4).
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* y);

  // y = (x - mean) / sqrt(variance + eps) * weight + bias, n elements (LayerNorm, Ba et al. 2016).
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int n, float eps,
                     float* y);

  // Rotates pairs (2i, 2i+1), i < rope_dim / 2, of each of `heads` heads in place (RoFormer, Su et
  // al. 2021, eq. 34). cos_sin: cos[rope_dim / 2], then sin[rope_dim / 2], of the row's position.
  void (*rope)(float* x, int heads, int head_dim, int rope_dim, const float* cos_sin);
  // The same for the pairs (i, i + rope_dim / 2), as GPT-NeoX has them.
  void (*rope_halves)(float* x, int heads, int head_dim, int rope_dim, const float* cos_sin);

  // y = silu(gate) * up (SwiGLU, Shazeer 2020, eq. 6). y may be gate or up, here and below.
  void (*swiglu)(const float* gate, const float* up, int n, float* y);
  // y = gelu(gate) * up, with GELU's approximation by tanh (Hendrycks and Gimpel 2016).
  void (*geglu)(const float* gate, const float* up, int n, float* y);
  // y = (u + 1) * g * sigmoid(1.702 * g), g = gate but at most 7, u = up but within -7 .. 7
  // (gpt-oss).
  void (*swiglu_clamped)(const float* gate, const float* up, int n, float* y);
  // y = gelu(x). y may be x.
  void (*gelu)(const float* x, int n, float* y);
  // The same with the exact GELU, x * (1 + erf(x / sqrt(2))) / 2 (BERT).
  void (*exact_gelu)(const float* x, int n, float* y);

  // x += y.
  void (*add)(float* x, const float* y, int n);
  // x += factor * y, rounded once.
  void (*add_scaled)(float* x, const float* y, float factor, int n);
  // x *= factor.
  void (*scale)(float* x, float factor, int n);
  // x = cap * tanh(x / cap). REQUIRES: cap > 0 and finite.
  void (*soft_cap)(float* x, float cap, int n);

  // Writes one token's K and V of one head into slot 0..15 of a block, rounded to nearest even, and
  // leaves the other slots alone.
  void (*store_kv)(KvType type, const float* k, const float* v, int head_dim, int slot,
                   std::byte* block);

  // Attention of all rows and heads over the positions of split `split` ([split * kSplitTokens,
  // (split + 1) * kSplitTokens)) that each row sees, not normalised. Entry (r, h) begins at partial
  // + (r * group + h) * PartialFloats(head_dim). A row that sees none of the split gets l = 0.
  // Positions that a row does not see are never read into its result.
  void (*attention)(const AttentionArgs& args, int split, float* partial);

  // Merges `splits` partials of one (row, head) in order, and normalises: out[head_dim]. Partial s
  // begins at partials + s * split_stride. `sink`, unless nullptr: the score of one more position,
  // whose V is zero (Xiao et al. 2023).
  void (*attention_merge)(const float* partials, int splits, int64_t split_stride, int head_dim,
                          const float* sink, float* out);

  // The index of the largest element; ties go to the lowest index. NaN is never the largest; 0 if
  // all are NaN. REQUIRES: n >= 1.
  int32_t (*argmax)(const float* x, int n);

  // log(sum(exp(x))), stable, in the fixed order of docs/numerics.md. REQUIRES: n >= 1.
  float (*log_sum_exp)(const float* x, int n);

  // With e = (x[i] - shift) / divisor: y[i] = exp(e) where e >= least, else (NaN too) +0.
  void (*exp_weights)(const float* x, int n, float shift, float divisor, float least, float* y);
};

// The best table that this CPU can run, or the one that the environment variable ROPEWAY_ISA names
// (reference, avx2, avx512vnni). nullptr if it names none, or one that this CPU cannot run; *error
// (unless nullptr) is then set to a sentence with the reason.
const Kernels* ChooseKernels(const char** error);

// A table by name; nullptr if unknown, or if this CPU cannot run it.
const Kernels* KernelsByName(const char* name);

extern const Kernels kReferenceKernels;
extern const Kernels kAvx2Kernels;        // Call only where cpuid has AVX2, FMA and F16C.
extern const Kernels kAvx512VnniKernels;  // ... and AVX-512 F, BW, DQ, VL and VNNI.

}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_KERNELS_H_
