// Reads the header of a .safetensors file (the format of Hugging Face's safetensors).
#ifndef ROPEWAY_MODEL_SAFETENSORS_H_
#define ROPEWAY_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/random_access_file.h"
#include "ropeway/status.h"

namespace ropeway::model {

struct SafeTensor {
  std::string name;             // Printable ASCII.
  std::string dtype;            // As in the file: "BF16".
  std::vector<uint64_t> shape;  // The contiguous dimension last; empty: a single number.
  uint64_t begin = 0;           // Where its data begins in the file, which has all of it.
  uint64_t bytes = 0;           // As the type and the shape need.
};

// The tensors in the order of their data. kDataLoss with one sentence that names the file and the
// tensor if the header is not valid: every number is checked before it is used, the data must
// follow one another without gaps, and what is allocated is bounded by the file's size.
StatusOr<std::vector<SafeTensor>> ReadSafetensors(const base::RandomAccessFile& file);

// Bytes of an element of a type; 0 for one that is unknown.
uint64_t SafeDtypeBytes(const std::string& dtype);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_SAFETENSORS_H_
