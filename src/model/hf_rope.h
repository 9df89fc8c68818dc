// RoPE in a config.json of Hugging Face's format, in GGUF's terms.
#ifndef ROPEWAY_MODEL_HF_ROPE_H_
#define ROPEWAY_MODEL_HF_ROPE_H_

#include <cstdint>

#include "model/gguf_builder.h"
#include "model/hf_json.h"
#include "model/hf_model.h"

namespace ropeway::model {

// Sets the metadata of RoPE from the fields of `config`, and the divisors of its frequencies in
// *model, whose architecture and head_dim are set. `context`: positions of the model. Failures as
// for ReadHfConfig.
void ReadHfRope(HfFields* config, uint32_t context, GgufFile::Builder* builder, HfModel* model);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_HF_ROPE_H_
