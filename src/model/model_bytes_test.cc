#include "model/model_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "model/test_gguf_writer.h"

namespace ropeway::model {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

template <typename T>
std::string PackedOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<float> Iota(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

// The array of one file of these bytes, which is file 0.
class ModelBytesTest : public testing::Test {
 protected:
  void Open(const std::string& bytes) {
    temp_ = std::make_unique<TempFile>(bytes, ".bin");
    StatusOr<base::RandomAccessFile> file = base::RandomAccessFile::Open(temp_->path());
    ASSERT_TRUE(file.ok());
    bytes_.AddFile(*std::move(file));
  }

  template <typename T>
  std::vector<T> Read(uint64_t begin, size_t count) {
    std::vector<T> values(count);
    const Status status = bytes_.Read(begin, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }

  std::unique_ptr<TempFile> temp_;
  ModelBytes bytes_;
};

TEST_F(ModelBytesTest, RangesAndMemoryAreOneArray) {
  Open("0123456789");
  EXPECT_EQ(bytes_.AddRange(0, 7, 3), 0U);
  EXPECT_EQ(bytes_.AddMemory("abc"), 3U);
  EXPECT_EQ(bytes_.AddMemory(""), 6U);
  EXPECT_EQ(bytes_.AddRange(0, 0, 2), 6U);
  EXPECT_EQ(bytes_.size(), 8U);
  const std::vector<char> all = Read<char>(0, 8);
  EXPECT_EQ(std::string(all.begin(), all.end()), "789abc01");
  EXPECT_THAT(Read<char>(2, 3), ElementsAre('9', 'a', 'b'));
  EXPECT_THAT(Read<char>(8, 0), ElementsAre());
  std::byte one{};
  EXPECT_THAT(bytes_.Read(8, {&one, 1}).message(),
              HasSubstr("byte 8 is beyond the end of the model"));
  EXPECT_EQ(ModelBytes().Read(0, {&one, 1}).code(), StatusCode::kDataLoss);
}

TEST_F(ModelBytesTest, AppendedBytesKeepTheirFiles) {
  Open("0123");
  bytes_.AddRange(0, 0, 4);
  const TempFile more("abcdefgh", ".bin");
  ModelBytes other;
  const size_t file = other.AddFile(*base::RandomAccessFile::Open(more.path()));
  other.AddRange(file, 4, 2);
  other.AddMatrix({.file = file,
                   .at = 0,
                   .element_bytes = 2,
                   .rows = 2,
                   .columns = 2,
                   .row_stride = 1,
                   .column_stride = 2});
  EXPECT_EQ(bytes_.Append(std::move(other)), 4U);
  const std::vector<char> all = Read<char>(2, 12);
  EXPECT_EQ(std::string(all.begin(), all.end()), "23efabefcdgh");
  EXPECT_EQ(bytes_.file_bytes(), 12U);
}

TEST_F(ModelBytesTest, TransposesAndTakesEverySecondRow) {
  Open(PackedOf(Iota(12)));  // 3 x 4.
  const uint64_t transposed =
      bytes_.AddMatrix({.rows = 4, .columns = 3, .row_stride = 1, .column_stride = 4});
  EXPECT_THAT(Read<float>(transposed, 12), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(Read<float>(transposed + 12, 3), ElementsAre(1, 5, 9));  // One row.
  EXPECT_THAT(Read<float>(transposed + 8, 3), ElementsAre(8, 1, 5));   // Parts of two.
  const uint64_t odd =
      bytes_.AddMatrix({.at = 4, .rows = 2, .columns = 3, .row_stride = 2, .column_stride = 4});
  EXPECT_THAT(Read<float>(odd, 6), ElementsAre(1, 5, 9, 3, 7, 11));
  const uint64_t even =
      bytes_.AddMatrix({.rows = 3, .columns = 2, .row_stride = 4, .column_stride = 2});
  EXPECT_THAT(Read<float>(even, 6), ElementsAre(0, 2, 4, 6, 8, 10));
}

// What llama.cpp's converter does: reshape(heads, 2, rows / 2).swapaxes(1, 2).
TEST_F(ModelBytesTest, InterleavesTheHalvesOfHeads) {
  Open(PackedOf(Iota(16)));  // Two heads of 4 rows of 2.
  const uint64_t begin =
      bytes_.AddMatrix({.rows = 8, .columns = 2, .row_stride = 2, .rope_rows = 4});
  EXPECT_THAT(Read<float>(begin, 16),
              ElementsAre(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  EXPECT_THAT(Read<float>(begin + 8, 2), ElementsAre(4, 5));
}

TEST_F(ModelBytesTest, WidensExactly) {
  const std::vector<uint16_t> bf16 = {0x3F80, 0xC000, 0x0001, 0x7F80};  // 1, -2, tiny, infinity.
  const std::vector<uint16_t> f16 = {0x3C00, 0xC000, 0x0001, 0x7BFF};
  Open(PackedOf(bf16) + PackedOf(f16));
  const uint64_t first = bytes_.AddRange(0, 0, 8);
  const uint64_t second = bytes_.AddRange(0, 8, 8);
  const auto widened = [&](uint64_t from, uint32_t stored) {
    return bytes_.AddConverted(
        {.from = from, .rows = 2, .columns = 2, .stored = stored, .type = ggml_type::kF32});
  };
  EXPECT_THAT(Read<float>(widened(first, ggml_type::kBf16), 4),
              ElementsAre(1.0F, -2.0F, 0x1p-133F, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(Read<float>(widened(second, ggml_type::kF16), 4),
              ElementsAre(1.0F, -2.0F, 0x1p-24F, 65504.0F));
}

// tests/folder_test.py compares whole models with gguf-py's quantiser; these are its values for
// rows that tell roundings apart.
TEST_F(ModelBytesTest, QuantisesAsGgufPyDoes) {
  std::vector<float> row(32, 0.0F);
  row[0] = 127.0F;
  row[1] = 0.5F;   // Half away from zero: 1.
  row[2] = -0.5F;  // -1.
  row[3] = 2.5F;   // 3.
  row[4] = -127.0F;
  Open(PackedOf(row));
  const uint64_t from = bytes_.AddRange(0, 0, 128);
  const auto converted = [&](uint32_t type) {
    return bytes_.AddConverted({.from = from, .rows = 1, .columns = 32, .type = type});
  };
  std::vector<uint8_t> q8(34, 0);
  q8[1] = 0x3C;  // The scale 1.
  q8[2] = 127;
  q8[3] = 1;
  q8[4] = 0xFF;
  q8[5] = 3;
  q8[6] = 0x81;
  EXPECT_THAT(Read<uint8_t>(converted(ggml_type::kQ80), 34), ElementsAreArray(q8));
  // The scale is 127 / -8 = -15.875; of two largest ones the first decides its sign.
  const std::vector<uint8_t> q4 = Read<uint8_t>(converted(ggml_type::kQ40), 18);
  const uint16_t scale = kernels::FloatToHalf(-15.875F);
  EXPECT_EQ(std::memcmp(q4.data(), &scale, 2), 0);
  EXPECT_EQ(q4[2] & 15, 0);   // 127: -8.
  EXPECT_EQ(q4[3] & 15, 8);   // 0.5: 0.
  EXPECT_EQ(q4[6] & 15, 15);  // -127: 8, which becomes 7.
  EXPECT_EQ(q4[2] >> 4, 8);   // Element 16.
}

TEST_F(ModelBytesTest, WhatIsNotFiniteIsNotQuantised) {
  for (const float bad : {NAN, INFINITY, -INFINITY, 1e30F}) {
    std::vector<float> rows(96, 1.0F);
    rows[70] = bad;
    bytes_ = ModelBytes();
    Open(PackedOf(rows));
    const uint64_t from = bytes_.AddRange(0, 0, 384);
    for (const uint32_t type : {ggml_type::kQ80, ggml_type::kQ40}) {
      const uint64_t begin =
          bytes_.AddConverted({.from = from, .rows = 3, .columns = 32, .type = type});
      std::vector<std::byte> out(3 * (type == ggml_type::kQ80 ? 34 : 18));
      const Status status = bytes_.Read(begin, out);
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << bad;
      EXPECT_THAT(status.message(),
                  HasSubstr("a weight in row 2 of a matrix of 3 times 32 cannot be"));
    }
  }
}

TEST_F(ModelBytesTest, ReordersTheNibblesOfMxfp4) {
  // Two rows of one block each; nibble i of the file is element i.
  std::string blocks;
  for (int row = 0; row < 2; ++row) {
    for (int i = 0; i < 16; ++i) {
      blocks += static_cast<char>((2 * i) % 16 | ((2 * i + 1) % 16) << 4);
    }
  }
  Open(blocks + "\x7F\x80");
  const uint64_t begin = bytes_.AddMxfp4({.blocks_file = 0,
                                          .blocks_at = 0,
                                          .scales_file = 0,
                                          .scales_at = 32,
                                          .rows = 2,
                                          .columns = 32});
  const std::vector<uint8_t> read = Read<uint8_t>(begin, 34);
  EXPECT_EQ(read[0], 0x7F);
  EXPECT_EQ(read[17], 0x80);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(size_t{read[1 + i]} & 15, i % 16);         // Element i.
    EXPECT_EQ(size_t{read[1 + i]} >> 4, (i + 16) % 16);  // Element i + 16.
  }
}

TEST(QuantizedTypeTest, KeepsWhatIsSmallOrDecidesMuch) {
  const auto type = [](std::string_view quantize, std::string_view name, uint32_t from,
                       const std::vector<uint64_t>& shape) {
    return QuantizedType(quantize, name, from, shape);
  };
  constexpr uint32_t kBf16 = ggml_type::kBf16;
  EXPECT_EQ(type("q8_0", "blk.0.attn_q.weight", kBf16, {64, 64}), ggml_type::kQ80);
  EXPECT_EQ(type("q4_0", "blk.0.attn_q.weight", kBf16, {64, 64}), ggml_type::kQ40);
  EXPECT_EQ(type("q4_0", "blk.0.ffn_gate_exps.weight", kBf16, {64, 64, 4}), ggml_type::kQ40);
  EXPECT_EQ(type("q4_0", "token_embd.weight", kBf16, {64, 64}), ggml_type::kQ80);
  EXPECT_EQ(type("q4_0", "output.weight", kBf16, {64, 64}), ggml_type::kQ80);
  EXPECT_EQ(type("", "blk.0.attn_q.weight", kBf16, {64, 64}), kBf16);
  EXPECT_EQ(type("q8_0", "blk.0.attn_q.weight", 12, {256, 64}), 12U);  // Q4_K.
  EXPECT_EQ(type("q8_0", "blk.0.attn_q.weight", kBf16, {48, 64}), kBf16);
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "position_embd.weight",
                           "blk.0.ffn_gate_exps.bias", "blk.0.attn_q_norm.weight"}) {
    EXPECT_EQ(type("q8_0", name, kBf16, {64, 64}), kBf16) << name;
  }
  EXPECT_EQ(type("q8_0", "output_norm.weight", kBf16, {64}), kBf16);
}

}  // namespace
}  // namespace ropeway::model
