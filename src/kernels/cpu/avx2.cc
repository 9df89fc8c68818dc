// The table for AVX2 with FMA and F16C. Includes no C++ library header (CMakeLists.txt says why).

// Each header uses what the ones before it define.
// clang-format off
#include "kernels/cpu/vec-avx2-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/pack-inl.h"
#include "kernels/cpu/matmul-avx2-inl.h"
#include "kernels/cpu/matmul-inl.h"
// clang-format on

namespace ropeway::kernels {

const Kernels kAvx2Kernels = {
    .name = "avx2",
    .pack_rows = PackRows,
    .matmul = MatMul,
    .rms_norm = RmsNorm,
    .layer_norm = LayerNorm,
    .rope = Rope,
    .rope_halves = RopeHalves,
    .swiglu = SwiGlu,
    .geglu = GeGlu,
    .swiglu_clamped = SwiGluClamped,
    .gelu = Gelu,
    .exact_gelu = ExactGelu,
    .add = AddTo,
    .add_scaled = AddScaled,
    .scale = ScaleBy,
    .soft_cap = SoftCapAll,
    .store_kv = StoreKv,
    .attention = Attention,
    .attention_merge = AttentionMerge,
    .argmax = ArgMax,
    .log_sum_exp = LogSumExp,
    .exp_weights = ExpWeights,
};

}  // namespace ropeway::kernels
