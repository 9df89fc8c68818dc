#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/hf_folder.h"
#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"
#include "model/test_largest_allocation.h"

namespace ropeway::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StatusOr<std::vector<SafeTensor>> ReadBytes(const std::string& bytes) {
  const TempFile temp(bytes, ".safetensors");
  StatusOr<base::RandomAccessFile> file = base::RandomAccessFile::Open(temp.path());
  if (!file.ok()) return file.status();
  return ReadSafetensors(*file);
}

std::string HeaderError(const std::string& bytes) {
  const auto read = ReadBytes(bytes);
  if (read.ok()) return "opened";
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(read.status().message(), HasSubstr(".safetensors: "));
  EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
  return read.status().message();
}

// The error of one tensor "t" with these members, and `data` bytes.
std::string TensorError(const std::string& members, size_t data) {
  return HeaderError(
      SafetensorsWriter::WithHeader(R"({"t":{)" + members + "}}", std::string(data, '\0')));
}

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheirData) {
  SafetensorsWriter writer;
  writer.Add("b", {2, 3}, "F32", std::vector<float>(6, 1.0F));
  writer.Add("a", {4}, "BF16", std::vector<float>(4, 1.0F));
  writer.AddBytes("empty", {0, 8}, "F16", "");
  writer.AddBytes("one", {}, "I64", std::string(8, '\0'));
  const std::string bytes = writer.Bytes();
  const auto read = ReadBytes(bytes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 4U);
  const uint64_t data = bytes.size() - 40;
  EXPECT_EQ((*read)[0].name, "b");
  EXPECT_THAT((*read)[0].shape, ElementsAre(2U, 3U));
  EXPECT_EQ((*read)[0].begin, data);
  EXPECT_EQ((*read)[0].bytes, 24U);
  EXPECT_EQ((*read)[1].name, "a");
  EXPECT_EQ((*read)[1].dtype, "BF16");
  EXPECT_EQ((*read)[1].begin, data + 24);
  EXPECT_EQ((*read)[2].name, "empty");
  EXPECT_EQ((*read)[3].bytes, 8U);
}

TEST(SafetensorsTest, MetadataAndSpacesAreAllowed) {
  EXPECT_EQ(HeaderError(SafetensorsWriter::WithHeader(
                R"({"__metadata__":{"format":"pt"},"t":{"dtype":"U8","shape":[2],)"
                R"("data_offsets":[0,2]}}      )",
                "ab")),
            "opened");
  EXPECT_EQ(HeaderError(SafetensorsWriter::WithHeader("{}", "")), "opened");
}

TEST(SafetensorsTest, HostileHeadersAreNamed) {
  EXPECT_THAT(HeaderError("short"), HasSubstr("too short"));
  const std::string huge(8, '\x7F');
  EXPECT_THAT(HeaderError(huge + "{}"), HasSubstr("the header's length, 9187201950435737471,"));
  EXPECT_THAT(HeaderError(std::string("\x03\0\0\0\0\0\0\0{}", 10)), HasSubstr("length, 3,"));
  EXPECT_THAT(HeaderError(SafetensorsWriter::WithHeader("[]", "")), HasSubstr("begin with '{'"));
  EXPECT_THAT(HeaderError(SafetensorsWriter::WithHeader("{\"a\n", "")),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError(SafetensorsWriter::WithHeader(R"({"a":[[[[]]]]})", "")),
              HasSubstr("nested deeper than 3"));
  EXPECT_THAT(HeaderError(SafetensorsWriter::WithHeader(R"({"a\u001b":{}})", "")),
              HasSubstr("printable ASCII"));
  EXPECT_THAT(HeaderError(SafetensorsWriter::WithHeader(R"({"a":1,"a":2})", "")),
              HasSubstr("given twice"));
}

TEST(SafetensorsTest, HostileTensorsAreNamed) {
  EXPECT_EQ(TensorError(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 8), "opened");
  for (const char* members : {"", R"("dtype":"F32","shape":[2])",
                              R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"}) {
    EXPECT_THAT(TensorError(members, 8), HasSubstr("tensor \"t\": its entry is not an object of"));
  }
  EXPECT_THAT(TensorError(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])", 8),
              HasSubstr("tensor \"t\": dtype \"F33\" is unknown"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", 8),
              HasSubstr("shape has a dimension that is not a whole number"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])", 8),
              HasSubstr("shape has a dimension that is not a whole number"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[1000000000000000000,1000000000000000000],)"
                          R"("data_offsets":[0,8])",
                          8),
              HasSubstr("tensor \"t\": a dimension of 1000000000000000000 makes too many"));
  // 2^62 elements of 4 bytes are 0 bytes modulo 2^64.
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", 0),
              HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])", 8),
              HasSubstr("not within the file's 8 bytes"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8),
              HasSubstr("not within"));
  EXPECT_THAT(
      TensorError(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])", 8),
      HasSubstr("not within"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", 8),
              HasSubstr("hold 8 bytes, but F32 of shape [3] needs 12"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 9),
              HasSubstr("1 bytes at the file's end belong to no tensor"));
  EXPECT_THAT(TensorError(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", 12),
              HasSubstr("4 bytes before its data belong to no tensor"));
  EXPECT_THAT(HeaderError(SafetensorsWriter::WithHeader(
                  R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                  R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                  "abcdef")),
              HasSubstr("tensor \"b\": its data overlap"));
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  SafetensorsWriter writer;
  writer.Add("b", {2, 3}, "F32", std::vector<float>(6, 1.0F));
  const std::string whole = writer.Bytes();
  TakeLargestAllocation();
  for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
    EXPECT_NE(HeaderError(whole.substr(0, bytes)), "opened") << bytes;
  }
  EXPECT_LT(TakeLargestAllocation(), size_t{64} << 10);
}

}  // namespace
}  // namespace ropeway::model
