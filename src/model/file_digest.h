// What names a model file.
#ifndef ROPEWAY_MODEL_FILE_DIGEST_H_
#define ROPEWAY_MODEL_FILE_DIGEST_H_

#include <string>

#include "model/gguf.h"
#include "ropeway/status.h"

namespace ropeway::model {

// A model's identity, to which KV blocks that outlive the process are bound: SHA-256, in
// hexadecimal, over the SHA-256 of each 4 MiB of its files in order (the last of a file may be
// shorter), the files' lengths, and the type in which its weights are quantised when they are
// loaded.
// Reads all files with `threads` threads; errors as for GgufFile::Read.
StatusOr<std::string> FileDigest(const GgufFile& file, int threads);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_FILE_DIGEST_H_
