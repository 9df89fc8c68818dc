// Opens a model, in whatever format it is stored.
#ifndef ROPEWAY_MODEL_OPEN_MODEL_H_
#define ROPEWAY_MODEL_OPEN_MODEL_H_

#include <memory>
#include <string>
#include <string_view>

#include "model/failures.h"
#include "model/gguf.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Opens the model at `path` and reads its tables: a GGUF file, the first part of a split one
// (NAME-00001-of-00003.gguf; the others lie beside it), a folder in Hugging Face's format, or a
// folder with one of the former. `quantize`: "", or "q8_0" or "q4_0" for matrices in F32, F16 and
// BF16 to be presented in that type (QuantizedType). Returns kNotFound if there is no such file,
// kDataLoss with one sentence that names the field if it is not valid, kUnimplemented for what a
// folder asks for and Ropeway lacks, kInvalidArgument for an unknown `quantize`. `failures`, if
// given: is added what is wrong, all that could be found; the first of it is returned.
StatusOr<std::unique_ptr<GgufFile>> OpenModel(const std::string& path,
                                              std::string_view quantize = {},
                                              Failures* failures = nullptr);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_OPEN_MODEL_H_
