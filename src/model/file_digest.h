// The digest of a model file: what KV blocks that outlive the process are bound to.
#ifndef ROPEWAY_MODEL_FILE_DIGEST_H_
#define ROPEWAY_MODEL_FILE_DIGEST_H_

#include <string>

#include "model/gguf.h"

namespace ropeway {

// SHA-256, in hexadecimal, over the SHA-256 of each 4 MiB of the file in order (the last may be
// shorter) and the file's length: so that many threads can share the work. Reads the whole file on
// `threads` threads and releases its pages again.
std::string FileDigest(const GgufFile& file, int threads);

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_FILE_DIGEST_H_
