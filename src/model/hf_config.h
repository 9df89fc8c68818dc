// config.json and generation_config.json of a folder in Hugging Face's format, in GGUF's terms.
#ifndef ROPEWAY_MODEL_HF_CONFIG_H_
#define ROPEWAY_MODEL_HF_CONFIG_H_

#include <nlohmann/json_fwd.hpp>

#include "model/gguf_builder.h"
#include "model/hf_json.h"
#include "model/hf_model.h"

namespace ropeway::model {

// Reads config.json, whose fields `config` has, and sets the metadata of the model. A failure is in
// config->failures(): kDataLoss for a field that is missing or impossible, kUnimplemented for one
// that Ropeway lacks; what GGUF's recipes check is left to them.
HfModel ReadHfConfig(HfFields* config, GgufFile::Builder* builder);

// Moves the fields of "text_config", where there is one (models that also see images), to the top.
void FlattenTextConfig(nlohmann::json* config);

// Sets general.sampling.* from the fields of generation_config.json. Failures as above.
void ReadHfGeneration(HfFields* generation, GgufFile::Builder* builder);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_HF_CONFIG_H_
