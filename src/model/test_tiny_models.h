// For tests: a tiny random model of each architecture. Weights follow from the names of their
// tensors alone, so that tests/architectures/make_goldens.py gives the same ones to transformers'
// models.
#ifndef ROPEWAY_MODEL_TEST_TINY_MODELS_H_
#define ROPEWAY_MODEL_TEST_TINY_MODELS_H_

#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/test_gguf_writer.h"

namespace ropeway::model {

// "llama", "llama3" (with RoPE scaling), "mistral", "mixtral", "qwen2", ...
const std::vector<std::string>& TinyModelNames();
// With the encoder, "bert", which generates nothing.
const std::vector<std::string>& AllTinyModelNames();

// The model of that name; `weights`: the type of its matrices but the routers', which are F32.
GgufWriter TinyModel(const std::string& name,
                     kernels::WeightType weights = kernels::WeightType::kF32);

// A mixture of experts ("qwen3moe") whose matrices all have 256 inputs, so that every type fits.
// `down`: the type of the down matrices and of the output; `weights`: of the others but the
// routers.
GgufWriter WideTinyExperts(kernels::WeightType weights, kernels::WeightType down);

inline constexpr int kTinyModelContext = 1024;

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_TEST_TINY_MODELS_H_
