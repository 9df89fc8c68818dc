// What the configuration of a folder in Hugging Face's format says about its weights.
#ifndef ROPEWAY_MODEL_HF_MODEL_H_
#define ROPEWAY_MODEL_HF_MODEL_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace ropeway::model {

// An architecture of transformers: what it takes where config.json has no such field, and how its
// weights differ from those of GGUF.
struct HfArchitecture {
  const char* name;  // In config.json's "architectures".
  const char* gguf;  // The architecture in GGUF.
  const char* activation;
  double rope_theta = 1e4;
  double norm_eps = 1e-6;
  uint32_t kv_heads = 0;  // 0: as many as heads.
  uint32_t head_dim = 0;  // 0: the heads share the hidden size.
  // Positions of its windows, 0: none. Absent: it has no windows, whatever config.json says.
  std::optional<uint32_t> window = std::nullopt;
  bool rope_pairs = false;     // GGUF keeps the rows of q and k so that RoPE turns neighbours.
  bool norm_plus_one = false;  // GGUF keeps the weights of norms plus 1.
  bool transposed = false;     // Matrices are [inputs, outputs].
};

// What the weights' names and shapes are read by.
struct HfModel {
  const HfArchitecture* architecture = nullptr;
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t experts = 0;      // 0: none.
  std::optional<bool> tied;  // The output matrix is the embedding; absent: the weights decide.
  // Divisors of RoPE's frequencies, as the tensors rope_freqs, rope_factors_long and
  // rope_factors_short; empty: none.
  std::vector<float> rope_freqs;
  std::vector<float> rope_long;
  std::vector<float> rope_short;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_HF_MODEL_H_
