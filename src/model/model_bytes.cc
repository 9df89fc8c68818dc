#include "model/model_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace ropeway::model {
namespace {

// Rows are converted in steps of so many bytes of the file.
constexpr uint64_t kStepBytes = uint64_t{1} << 20;

constexpr uint64_t kMxfp4Block = 32;
constexpr uint64_t kMxfp4Nibbles = kMxfp4Block / 2;  // Bytes of a block's.

// Bytes of one element of a float type.
uint64_t ElementBytes(uint32_t type) { return type == ggml_type::kF32 ? 4 : 2; }

// Bytes of a row as it is read.
uint64_t RowBytesOf(const StoredMatrix& m) { return m.columns * m.element_bytes; }
uint64_t RowBytesOf(const StoredMxfp4& m) { return m.columns / kMxfp4Block * (1 + kMxfp4Nibbles); }
uint64_t RowBytesOf(const ConvertedMatrix& m) {
  if (m.type == ggml_type::kQ80) return m.columns / 32 * 34;
  if (m.type == ggml_type::kQ40) return m.columns / 32 * 18;
  return m.columns * ElementBytes(m.type);
}

// The row of the file that row `row` of what is read is.
uint64_t FileRow(const StoredMatrix& m, uint64_t row) {
  if (m.rope_rows == 0) return row;
  const uint64_t in_head = row % m.rope_rows;
  return row - in_head + in_head % 2 * (m.rope_rows / 2) + in_head / 2;
}

// One block of 32: the file has element 2i in the low half of byte i and 2i + 1 in its high half;
// GGUF has element i low and i + 16 high.
void ReorderNibbles(const std::byte* from, std::byte* to) {
  const auto element = [from](uint64_t i) {
    const auto byte = static_cast<uint8_t>(from[i / 2]);
    return i % 2 == 0 ? byte & 15 : byte >> 4;
  };
  for (uint64_t i = 0; i < kMxfp4Nibbles; ++i) {
    to[i] = static_cast<std::byte>(element(i) | element(i + kMxfp4Nibbles) << 4);
  }
}

}  // namespace

size_t ModelBytes::AddFile(base::RandomAccessFile file) {
  files_.push_back(std::move(file));
  return files_.size() - 1;
}

uint64_t ModelBytes::Add(uint64_t bytes, decltype(Extent::source) source) {
  const uint64_t begin = size_;
  if (bytes > 0) extents_.push_back({begin, bytes, std::move(source)});
  size_ += bytes;
  return begin;
}

uint64_t ModelBytes::AddRange(size_t file, uint64_t at, uint64_t bytes) {
  return Add(bytes, Range{file, at});
}

uint64_t ModelBytes::AddMatrix(const StoredMatrix& matrix) {
  const uint64_t bytes = matrix.rows * RowBytesOf(matrix);
  const bool plain = matrix.column_stride == 1 && matrix.row_stride == matrix.columns;
  if (plain && matrix.rope_rows == 0) return AddRange(matrix.file, matrix.at, bytes);
  return Add(bytes, matrix);
}

uint64_t ModelBytes::AddMxfp4(const StoredMxfp4& matrix) {
  return Add(matrix.rows * RowBytesOf(matrix), matrix);
}

uint64_t ModelBytes::AddConverted(const ConvertedMatrix& matrix) {
  return Add(matrix.rows * RowBytesOf(matrix), matrix);
}

uint64_t ModelBytes::AddMemory(std::string bytes) {
  const uint64_t size = bytes.size();
  return Add(size, std::move(bytes));
}

uint64_t ModelBytes::Append(ModelBytes other) {
  const uint64_t begin = size_;
  const size_t first = files_.size();
  for (base::RandomAccessFile& file : other.files_) files_.push_back(std::move(file));
  for (Extent& extent : other.extents_) {
    std::visit(
        [&]<typename T>(T& source) {
          if constexpr (std::is_same_v<T, StoredMxfp4>) {
            source.blocks_file += first;
            source.scales_file += first;
          } else if constexpr (std::is_same_v<T, ConvertedMatrix>) {
            source.from += begin;
          } else if constexpr (!std::is_same_v<T, std::string>) {
            source.file += first;
          }
        },
        extent.source);
    Add(extent.bytes, std::move(extent.source));
  }
  return begin;
}

uint64_t ModelBytes::file_bytes() const {
  uint64_t bytes = 0;
  for (const base::RandomAccessFile& file : files_) bytes += file.bytes();
  return bytes;
}

Status ModelBytes::CheckUnchanged() const {
  for (const base::RandomAccessFile& file : files_) {
    if (Status status = file.CheckUnchanged(); !status.ok()) return status;
  }
  return {};
}

Status ModelBytes::Read(uint64_t begin, std::span<std::byte> to) const {
  if (to.empty()) return {};
  auto extent = std::ranges::upper_bound(extents_, begin, {}, &Extent::begin);
  if (extent != extents_.begin()) --extent;
  for (; !to.empty(); ++extent) {
    if (extent == extents_.end() || begin - extent->begin >= extent->bytes) {
      return {StatusCode::kDataLoss,
              fmt::format("{}: byte {} is beyond the end of the model, which has {} bytes",
                          files_.empty() ? "" : files_.front().path(), begin, size_)};
    }
    const uint64_t offset = begin - extent->begin;
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(to.size(), extent->bytes - offset));
    if (Status status = ReadExtent(*extent, offset, to.first(bytes)); !status.ok()) return status;
    begin += bytes;
    to = to.subspan(bytes);
  }
  return {};
}

// Reads whole rows, also where only a part of one is asked for.
template <typename Matrix>
Status ModelBytes::ReadAnyBytes(const Matrix& matrix, uint64_t row_bytes, uint64_t offset,
                                std::span<std::byte> to) const {
  const uint64_t row = offset / row_bytes;
  if (offset % row_bytes == 0 && to.size() % row_bytes == 0) return ReadRows(matrix, row, to);
  const uint64_t end = (offset + to.size() + row_bytes - 1) / row_bytes;
  std::vector<std::byte> rows(static_cast<size_t>((end - row) * row_bytes));
  if (Status status = ReadRows(matrix, row, rows); !status.ok()) return status;
  std::memcpy(to.data(), rows.data() + (offset - row * row_bytes), to.size());
  return {};
}

Status ModelBytes::ReadExtent(const Extent& extent, uint64_t offset,
                              std::span<std::byte> to) const {
  return std::visit(
      [&]<typename T>(const T& source) -> Status {
        if constexpr (std::is_same_v<T, Range>) {
          return files_[source.file].Read(source.at + offset, to);
        } else if constexpr (std::is_same_v<T, std::string>) {
          std::memcpy(to.data(), source.data() + offset, to.size());
          return {};
        } else {
          return ReadAnyBytes(source, RowBytesOf(source), offset, to);
        }
      },
      extent.source);
}

Status ModelBytes::ReadRows(const ConvertedMatrix& matrix, uint64_t row,
                            std::span<std::byte> to) const {
  const uint64_t row_bytes = RowBytesOf(matrix);
  const uint64_t stored_bytes = matrix.columns * ElementBytes(matrix.stored);
  const uint64_t rows = to.size() / row_bytes;
  const uint64_t step = std::max<uint64_t>(1, kStepBytes / stored_bytes);
  std::vector<std::byte> stored(static_cast<size_t>(std::min(step, rows) * stored_bytes));
  std::vector<float> floats(static_cast<size_t>(matrix.columns));
  for (uint64_t done = 0; done < rows; done += step) {
    const uint64_t now = std::min(step, rows - done);
    const std::span<std::byte> part =
        std::span(stored).first(static_cast<size_t>(now * stored_bytes));
    Status status = Read(matrix.from + (row + done) * stored_bytes, part);
    if (!status.ok()) return status;
    for (uint64_t i = 0; i < now; ++i) {
      std::byte* const out = to.data() + (done + i) * row_bytes;
      WidenRow(matrix.stored, part.data() + i * stored_bytes, floats);
      if (matrix.type == ggml_type::kF32) {
        std::memcpy(out, floats.data(), static_cast<size_t>(row_bytes));
      } else if (!QuantizeRow(matrix.type, floats, out)) {
        return {StatusCode::kDataLoss,
                fmt::format("a weight in row {} of a matrix of {} times {} cannot be quantised: it "
                            "is not finite or too large",
                            row + done + i, matrix.rows, matrix.columns),
                kWeightsField};
      }
    }
  }
  return {};
}

Status ModelBytes::ReadRows(const StoredMxfp4& matrix, uint64_t row,
                            std::span<std::byte> to) const {
  const uint64_t blocks = matrix.columns / kMxfp4Block;
  const uint64_t row_bytes = RowBytesOf(matrix);
  std::vector<std::byte> nibbles(static_cast<size_t>(blocks * kMxfp4Nibbles));
  std::vector<std::byte> scales(static_cast<size_t>(blocks));
  for (uint64_t done = 0; done < to.size(); done += row_bytes, ++row) {
    const uint64_t first = row * matrix.row_stride * blocks;  // Its first block.
    Status status =
        files_[matrix.blocks_file].Read(matrix.blocks_at + first * kMxfp4Nibbles, nibbles);
    if (status.ok()) status = files_[matrix.scales_file].Read(matrix.scales_at + first, scales);
    if (!status.ok()) return status;
    std::byte* out = to.data() + done;
    for (uint64_t b = 0; b < blocks; ++b) {
      *out++ = scales[static_cast<size_t>(b)];
      ReorderNibbles(nibbles.data() + b * kMxfp4Nibbles, out);
      out += kMxfp4Nibbles;
    }
  }
  return {};
}

Status ModelBytes::ReadRows(const StoredMatrix& matrix, uint64_t row,
                            std::span<std::byte> to) const {
  return matrix.column_stride <= matrix.row_stride ? GatherByRows(matrix, row, to)
                                                   : GatherByColumns(matrix, row, to);
}

Status ModelBytes::GatherByRows(const StoredMatrix& matrix, uint64_t row,
                                std::span<std::byte> to) const {
  const auto element = static_cast<size_t>(matrix.element_bytes);
  const auto row_bytes = static_cast<size_t>(RowBytesOf(matrix));
  const auto step = static_cast<size_t>(matrix.column_stride) * element;
  const base::RandomAccessFile& file = files_[matrix.file];
  const size_t span = (static_cast<size_t>(matrix.columns) - 1) * step + element;
  std::vector<std::byte> line(step == element ? 0 : span);
  for (; !to.empty(); ++row, to = to.subspan(row_bytes)) {
    const uint64_t at = matrix.at + FileRow(matrix, row) * matrix.row_stride * element;
    if (step == element) {
      if (Status status = file.Read(at, to.first(row_bytes)); !status.ok()) return status;
      continue;
    }
    if (Status status = file.Read(at, line); !status.ok()) return status;
    for (size_t j = 0; j < matrix.columns; ++j) {
      std::memcpy(to.data() + j * element, line.data() + j * step, element);
    }
  }
  return {};
}

Status ModelBytes::GatherByColumns(const StoredMatrix& matrix, uint64_t row,
                                   std::span<std::byte> to) const {
  const auto element = static_cast<size_t>(matrix.element_bytes);
  const auto row_bytes = static_cast<size_t>(RowBytesOf(matrix));
  const auto step = static_cast<size_t>(matrix.row_stride) * element;
  const size_t rows = to.size() / row_bytes;
  std::vector<std::byte> line((rows - 1) * step + element);
  for (size_t j = 0; j < matrix.columns; ++j) {
    const uint64_t first = row * matrix.row_stride + j * matrix.column_stride;
    Status status = files_[matrix.file].Read(matrix.at + first * element, line);
    if (!status.ok()) return status;
    for (size_t i = 0; i < rows; ++i) {
      std::memcpy(to.data() + i * row_bytes + j * element, line.data() + i * step, element);
    }
  }
  return {};
}

}  // namespace ropeway::model
