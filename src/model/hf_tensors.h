// The weights of a folder in Hugging Face's format, under GGUF's names and in GGUF's layout.
#ifndef ROPEWAY_MODEL_HF_TENSORS_H_
#define ROPEWAY_MODEL_HF_TENSORS_H_

#include <cstddef>
#include <vector>

#include "model/gguf_builder.h"
#include "model/hf_model.h"
#include "model/safetensors.h"
#include "ropeway/status.h"

namespace ropeway::model {

// A tensor of one of the folder's files.
struct HfTensor {
  SafeTensor tensor;
  size_t file = 0;  // Its index in GgufFile::Builder::bytes().
};

// Adds all tensors. Matrices stay in the files; vectors, which are small, are read now and kept as
// F32. Fails, naming the tensor, for one that the architecture does not have (kUnimplemented), or
// whose type or shape cannot be (kDataLoss); whether shapes fit the configuration is left to
// BindTensors.
Status AddHfTensors(const HfModel& model, const std::vector<HfTensor>& tensors,
                    GgufFile::Builder* builder);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_HF_TENSORS_H_
