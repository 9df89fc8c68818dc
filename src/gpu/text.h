// The sources of the kernels (device/), which are part of the program.
#ifndef ROPEWAY_GPU_TEXT_H_
#define ROPEWAY_GPU_TEXT_H_

namespace ropeway::gpu {

extern const char kLanguageText[];       // device/language.cl
extern const char kMathConstantsText[];  // kernels/math_constants.h
extern const char kFloatsText[];     // device/floats.cl: exp and sums, as the reference has them.
extern const char kProbeText[];      // device/probe.cl: what a device must compute to be used.
extern const char kRowsText[];       // device/rows.cl: operations on rows of floats.
extern const char kAttentionText[];  // device/attention.cl: the KV cache.
extern const char kLogitsText[];     // device/logits.cl: the end of a forward pass.
extern const char kMatMulText[];     // device/matmul.cl: of one type of weights.

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_TEXT_H_
