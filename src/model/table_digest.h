// A digest of a model's tables, for which none of its weights is read.
#ifndef ROPEWAY_MODEL_TABLE_DIGEST_H_
#define ROPEWAY_MODEL_TABLE_DIGEST_H_

#include <string>

#include "model/gguf.h"

namespace ropeway::model {

// The SHA-256, in hex, of all metadata but the model's name, and of each tensor's name, shape, type
// and place. It is the same on every machine, wherever the model lies, and another one for a model
// of another vocabulary, configuration, type or layout; two sets of weights with equal tables have
// the same.
std::string TableDigest(const GgufFile& file);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_TABLE_DIGEST_H_
