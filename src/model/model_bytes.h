// The bytes of a model as one array, whatever files they lie in and however these keep them.
//
// A GGUF file is one range of it. The parts of a split one follow one another. A folder in Hugging
// Face's format shows its tensors as a GGUF file would: matrices of experts joined, GPT-2's
// matrices transposed, the rows of llama's heads in GGUF's order, weights quantised where that is
// asked for. Some of its bytes are not in the files: they are computed when the folder is opened.
#ifndef ROPEWAY_MODEL_MODEL_BYTES_H_
#define ROPEWAY_MODEL_MODEL_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/random_access_file.h"
#include "model/quantize.h"
#include "ropeway/status.h"

namespace ropeway::model {

// A matrix of a file whose elements are not stored one row after the other. Row i of what is read
// has elements (i, 0), (i, 1), ...
struct StoredMatrix {
  size_t file = 0;  // Its index.
  uint64_t at = 0;  // Where element (0, 0) begins in it.
  uint64_t element_bytes = 4;
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t row_stride = 0;     // Elements in the file from (i, j) to (i + 1, j).
  uint64_t column_stride = 1;  // Elements in the file from (i, j) to (i, j + 1).
  // Above 0: each head has so many rows; its row 2i is the file's i, and its row 2i + 1 is the
  // file's i + rope_rows / 2, because RoPE turns neighbours. Needs column_stride 1.
  uint32_t rope_rows = 0;
};

// A matrix in MXFP4 as Hugging Face keeps it: nibbles in one tensor, a scale of each block of 32 in
// another. It is read as GGUF keeps it.
struct StoredMxfp4 {
  size_t blocks_file = 0;
  uint64_t blocks_at = 0;
  size_t scales_file = 0;
  uint64_t scales_at = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;     // A multiple of 32.
  uint64_t row_stride = 1;  // Rows in the file from one that is read to the next.
};

// Rows of elsewhere in the array, in another type.
struct ConvertedMatrix {
  uint64_t from = 0;  // Where row 0 begins.
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint32_t stored = ggml_type::kF32;  // F32, F16 or BF16.
  uint32_t type = ggml_type::kQ80;    // F32, Q8_0 or Q4_0.
};

// The field of an error that concerns a tensor's weights, whose name the reader knows.
inline constexpr char kWeightsField[] = "weights";

// Thread rule: const after the last Add; may be shared.
class ModelBytes {
 public:
  // The index of the file, which the array has nothing of yet.
  size_t AddFile(base::RandomAccessFile file);

  // Each appends to the array, and returns where its bytes begin.
  uint64_t AddRange(size_t file, uint64_t at, uint64_t bytes);
  uint64_t AddMatrix(const StoredMatrix& matrix);
  uint64_t AddMxfp4(const StoredMxfp4& matrix);
  uint64_t AddConverted(const ConvertedMatrix& matrix);
  uint64_t AddMemory(std::string bytes);
  // All of `other`, with its files.
  uint64_t Append(ModelBytes other);

  uint64_t size() const { return size_; }
  const std::vector<base::RandomAccessFile>& files() const { return files_; }
  uint64_t file_bytes() const;  // Of all files.

  // Reads the bytes from `begin` on into all of `to`. kDataLoss if a file has become shorter, or,
  // of the field kWeightsField, a weight that is quantised is not finite; kUnavailable if a device
  // fails. Costs least for whole rows of a matrix. A range of a file is read without an allocation.
  Status Read(uint64_t begin, std::span<std::byte> to) const;

  // kDataLoss if a file was changed since it was opened.
  Status CheckUnchanged() const;

 private:
  struct Range {
    size_t file;
    uint64_t at;
  };
  struct Extent {
    uint64_t begin;
    uint64_t bytes;
    std::variant<Range, StoredMatrix, StoredMxfp4, ConvertedMatrix, std::string> source;
  };

  uint64_t Add(uint64_t bytes, decltype(Extent::source) source);
  Status ReadExtent(const Extent& extent, uint64_t offset, std::span<std::byte> to) const;
  // Each reads whole rows.
  Status ReadRows(const StoredMatrix& matrix, uint64_t row, std::span<std::byte> to) const;
  Status ReadRows(const StoredMxfp4& matrix, uint64_t row, std::span<std::byte> to) const;
  Status ReadRows(const ConvertedMatrix& matrix, uint64_t row, std::span<std::byte> to) const;
  template <typename Matrix>
  Status ReadAnyBytes(const Matrix& matrix, uint64_t row_bytes, uint64_t offset,
                      std::span<std::byte> to) const;
  // Gather a matrix whose rows, or whose columns, lie closer together in the file.
  Status GatherByRows(const StoredMatrix& matrix, uint64_t row, std::span<std::byte> to) const;
  Status GatherByColumns(const StoredMatrix& matrix, uint64_t row, std::span<std::byte> to) const;

  std::vector<base::RandomAccessFile> files_;
  std::vector<Extent> extents_;  // In order, without gaps.
  uint64_t size_ = 0;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_MODEL_BYTES_H_
