#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/describe.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_largest_allocation.h"

namespace ropeway::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Raw little-endian bytes, for values that the writer would not write.
template <typename... T>
std::string Raw(T... values) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  return out;
}

constexpr auto Number(GgufType type) { return static_cast<uint32_t>(type); }

GgufWriter SmallFile(uint32_t version = 3) {
  GgufWriter writer(version);
  writer.SetString("general.architecture", "llama");
  writer.SetUint32("a.uint32", 7);
  writer.SetUint64("a.uint64", uint64_t{1} << 40);
  writer.SetInt32("a.int32", -3);
  writer.SetFloat32("a.float", 0.5F);
  writer.SetBool("a.bool", true);
  writer.SetStrings("a.strings", {"x", "", "yz"});
  writer.SetInt32s("a.ints", {1, -2, 3});
  writer.AddRaw("a.int8", Number(GgufType::kInt8), Raw(int8_t{-1}));
  writer.AddRaw("a.double", Number(GgufType::kFloat64), Raw(2.5));
  writer.SetTensor("t.f32", {3}, kernels::WeightType::kF32, std::vector<float>{1, 2, 3});
  writer.SetTensor("t.q80", {32, 2}, kernels::WeightType::kQ8_0, std::vector<float>(64, 1.0F));
  return writer;
}

// The message of a file that must not open.
std::string ErrorOf(const std::string& bytes) {
  const TempFile temp(bytes);
  const auto file = OpenModel(temp.path());
  if (file.ok()) return "opened";
  EXPECT_EQ(file.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(file.status().message(), HasSubstr(temp.path()));
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
  return file.status().message();
}

std::string ErrorOf(const GgufWriter& writer) { return ErrorOf(writer.Bytes()); }

// `bytes` with `value` written at `at`.
template <typename T>
std::string With(std::string bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

TEST(GgufTest, ReadsVersionsTwoAndThree) {
  for (const uint32_t version : {2U, 3U}) {
    const TempFile temp(SmallFile(version).Bytes());
    const auto opened = OpenModel(temp.path());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const GgufFile& file = **opened;
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.metadata().size(), 10U);
    EXPECT_EQ(file.metadata()[1].key, "a.uint32");
    EXPECT_EQ(file.GetUint("a.uint32", 0, 100).value(), 7U);
    EXPECT_EQ(file.GetUint("a.uint64", 0, UINT64_MAX).value(), uint64_t{1} << 40);
    EXPECT_EQ(file.GetFloat("a.float").value(), 0.5);
    EXPECT_EQ(file.GetFloat("a.double").value(), 2.5);
    EXPECT_EQ(file.GetBool("a.bool").value(), true);
    EXPECT_EQ(file.GetString("general.architecture").value(), "llama");
    EXPECT_EQ(std::get<int64_t>(file.Find("a.int32")->value), -3);
    EXPECT_EQ(std::get<int64_t>(file.Find("a.int8")->value), -1);
    const GgufArray* strings = file.GetArray("a.strings", GgufType::kString).value();
    EXPECT_THAT(strings->strings, ElementsAre("x", "", "yz"));
    const GgufArray* ints = file.GetArray("a.ints", GgufType::kInt32).value();
    EXPECT_EQ(ints->count, 3U);
    EXPECT_EQ(ints->data.size(), 12U);
    const GgufTensor* tensor = file.FindTensor("t.f32");
    ASSERT_NE(tensor, nullptr);
    EXPECT_THAT(tensor->shape, ElementsAre(3U));
    float last = 0.0F;
    ASSERT_TRUE(file.Read(tensor->begin + 8, std::as_writable_bytes(std::span(&last, 1))).ok());
    EXPECT_EQ(last, 3.0F);
    EXPECT_EQ(file.FindTensor("t.q80")->bytes, 68U);
    EXPECT_EQ(file.data_offset() % 32, 0U);
    EXPECT_EQ(file.FindTensor("t.none"), nullptr);
  }
}

TEST(GgufTest, LookUpsSayWhatIsWrong) {
  const TempFile temp(SmallFile().Bytes());
  const auto opened = OpenModel(temp.path());
  ASSERT_TRUE(opened.ok());
  const GgufFile& file = **opened;
  EXPECT_EQ(file.GetUint("none", 0, 1).value(), std::nullopt);
  EXPECT_EQ(file.GetArray("none", GgufType::kString).value(), nullptr);
  EXPECT_THAT(file.GetUint("a.uint32", 8, 9).status().message(),
              HasSubstr("metadata \"a.uint32\": 7 is out of range; it must be from 8 to 9"));
  EXPECT_THAT(file.GetUint("a.int32", 0, 9).status().message(), HasSubstr("-3 is out of range"));
  EXPECT_THAT(file.GetUint("a.float", 0, 9).status().message(),
              HasSubstr("expected an integer, got float32"));
  EXPECT_FALSE(file.GetFloat("a.uint32").ok());
  EXPECT_FALSE(file.GetBool("a.uint32").ok());
  EXPECT_FALSE(file.GetString("a.uint32").ok());
  EXPECT_FALSE(file.GetArray("a.uint32", GgufType::kString).ok());
  EXPECT_THAT(file.GetArray("a.ints", GgufType::kString).status().message(),
              HasSubstr("\"a.ints\": expected an array of string, got int32"));
}

TEST(GgufTest, ReadsPartsOfTensors) {
  GgufWriter writer;
  std::vector<float> values(10000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  writer.SetTensor("t", {10000}, kernels::WeightType::kF32, values);
  const TempFile temp(writer.Bytes());
  const auto file = OpenModel(temp.path());
  ASSERT_TRUE(file.ok());
  const GgufTensor& tensor = *(*file)->FindTensor("t");
  ASSERT_EQ(tensor.bytes, 40000U);
  std::vector<float> read(100);
  EXPECT_TRUE((*file)->Read(tensor.begin + 4000, std::as_writable_bytes(std::span(read))).ok());
  EXPECT_EQ(read, std::vector<float>(values.begin() + 1000, values.begin() + 1100));
  EXPECT_TRUE((*file)->Read(tensor.begin, {}).ok());
  const Status beyond =
      (*file)->Read((*file)->file_bytes() - 100, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(beyond.code(), StatusCode::kDataLoss);
  EXPECT_THAT(beyond.message(), HasSubstr(temp.path() + ": byte "));
}

// More metadata than are read at first.
TEST(GgufTest, ALongHeaderIsReadToItsEnd) {
  for (const size_t bytes : {size_t{3} << 20, size_t{5} << 20, size_t{17} << 20}) {
    GgufWriter writer = SmallFile();
    writer.SetString("long", std::string(bytes, 'x'));
    writer.SetStrings("many", std::vector<std::string>(bytes / 16, "12345678"));
    writer.SetUint32("last", 9);
    const TempFile temp(writer.Bytes());
    const auto file = OpenModel(temp.path());
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ((*file)->GetString("long").value()->size(), bytes);
    EXPECT_EQ((*file)->GetArray("many", GgufType::kString).value()->strings.back(), "12345678");
    EXPECT_EQ((*file)->GetUint("last", 0, 10).value(), 9U);
    EXPECT_EQ((*file)->metadata().size(), 13U);
    EXPECT_EQ((*file)->tensors().size(), 2U);
    const std::string whole = writer.Bytes();
    EXPECT_NE(ErrorOf(whole.substr(0, whole.size() / 2)), "opened");
  }
}

TEST(GgufTest, RejectsWhatIsNoRegularFile) {
  EXPECT_EQ(OpenModel("/nonexistent/x.gguf").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(OpenModel("/").status().message(), HasSubstr("is a directory"));
  EXPECT_THAT(OpenModel("/dev/null").status().message(), HasSubstr("not a regular file"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("the file is empty"));
  EXPECT_THAT(ErrorOf("PK\x03\x04 no model"), HasSubstr("magic"));
  const std::string fifo = TempFile("").path();  // Free again: the object is gone.
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(OpenModel(fifo).status().message(), HasSubstr("not a regular file"));
  unlink(fifo.c_str());
  if (geteuid() != 0) {  // Root may read everything.
    const TempFile secret(SmallFile().Bytes());
    chmod(secret.path().c_str(), 0);
    EXPECT_THAT(OpenModel(secret.path()).status().message(), HasSubstr("Permission denied"));
  }
}

TEST(GgufTest, EveryTruncationIsAnError) {
  const std::string whole = SmallFile().Bytes();
  ASSERT_LT(whole.size(), 1000U);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_NE(ErrorOf(whole.substr(0, bytes)), "opened") << bytes;
  }
  EXPECT_EQ(ErrorOf(whole), "opened");
  EXPECT_THAT(ErrorOf(whole.substr(0, whole.size() - 1)),
              HasSubstr("tensor \"t.q80\": data ends at byte " + std::to_string(whole.size()) +
                        ", but the file has " + std::to_string(whole.size() - 1) + " bytes"));
}

// Changes each byte of the header in several ways; whatever still opens must be fit to be used.
TEST(GgufTest, NoCorruptByteCrashes) {
  const std::string whole = SmallFile().Bytes();
  const TempFile temp(whole);
  std::FILE* file = std::fopen(temp.path().c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  const auto put = [&](size_t at, int byte) {
    std::fseek(file, static_cast<long>(at), SEEK_SET);
    std::fputc(byte, file);
    std::fflush(file);
  };
  int rejected = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    const int byte = static_cast<uint8_t>(whole[at]);
    for (const int other : {0, 0xFF, byte ^ 1, byte ^ 0x80, (byte + 1) & 0xFF, 0x7F}) {
      put(at, other);
      const auto opened = OpenModel(temp.path());
      if (!opened.ok()) {
        ++rejected;
        EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss);
        continue;
      }
      EXPECT_FALSE(DescribeGguf(**opened).empty());
      uint64_t sum = 0;  // Every byte of every tensor can be read.
      for (const GgufTensor& tensor : (*opened)->tensors()) {
        std::vector<std::byte> data(tensor.bytes);
        ASSERT_TRUE((*opened)->Read(tensor.begin, data).ok());
        for (const std::byte b : data) sum += static_cast<uint64_t>(b);
      }
      EXPECT_LT(sum, 1000000U);
    }
    put(at, byte);
  }
  std::fclose(file);
  EXPECT_GT(rejected, 500);
}

TEST(GgufTest, HostileHeadersNameTheField) {
  const std::string whole = SmallFile().Bytes();
  EXPECT_THAT(ErrorOf(With(whole, 4, uint32_t{1})),
              HasSubstr("version: version 1 is not supported"));
  EXPECT_THAT(ErrorOf(With(whole, 4, uint32_t{0x03000000})), HasSubstr("big-endian"));
  EXPECT_THAT(ErrorOf(With(whole, 8, UINT64_MAX)),
              HasSubstr("tensor count: 18446744073709551615 is"));
  EXPECT_THAT(ErrorOf(With(whole, 8, uint64_t{1} << 32)), HasSubstr("tensor count"));
  EXPECT_THAT(ErrorOf(With(whole, 16, uint64_t{1} << 62)), HasSubstr("metadata count"));
  EXPECT_NE(ErrorOf(With(whole, 16, uint64_t{11})), "opened");
  // The first key's length.
  EXPECT_THAT(ErrorOf(With(whole, 24, UINT64_MAX)), HasSubstr("metadata key 0"));
  EXPECT_THAT(ErrorOf(With(whole, 24, uint64_t{0})),
              HasSubstr("metadata key 0: the name is empty"));
  EXPECT_THAT(ErrorOf(With(whole, 32, '\n')), HasSubstr("metadata key 0: the name has a byte"));
}

TEST(GgufTest, HostileMetadataNamesTheKey) {
  const auto error = [](GgufType type, std::string bytes) {
    GgufWriter writer = SmallFile();
    writer.AddRaw("bad", Number(type), std::move(bytes));
    return ErrorOf(writer);
  };
  EXPECT_THAT(error(static_cast<GgufType>(13), ""), HasSubstr("\"bad\": value type 13 is unknown"));
  EXPECT_THAT(error(GgufType::kBool, Raw(uint8_t{2})),
              HasSubstr("\"bad\": a bool must be 0 or 1, not 2"));
  EXPECT_THAT(error(GgufType::kString, Raw(UINT64_MAX)),
              HasSubstr("metadata \"bad\": 1844674407370"));
  EXPECT_THAT(error(GgufType::kArray, Raw(Number(GgufType::kArray), uint64_t{1})),
              HasSubstr("\"bad\": arrays within arrays"));
  EXPECT_THAT(error(GgufType::kArray, Raw(uint32_t{99}, uint64_t{1})),
              HasSubstr("\"bad\": value type 99"));
  // 2^61 elements of 8 bytes are 0 bytes modulo 2^64.
  EXPECT_THAT(error(GgufType::kArray, Raw(Number(GgufType::kUint64), uint64_t{1} << 61)),
              HasSubstr("\"bad\": 2305843009213693952 elements"));
  EXPECT_THAT(error(GgufType::kArray, Raw(Number(GgufType::kString), uint64_t{1} << 60)),
              HasSubstr("\"bad\": 1152921504606846976 elements"));
  GgufWriter twice = SmallFile();
  twice.AddRaw("a.bool", Number(GgufType::kBool), Raw(uint8_t{1}));
  EXPECT_THAT(ErrorOf(twice), HasSubstr("metadata \"a.bool\": the key occurs twice"));
}

TEST(GgufTest, HostileTensorsAreNamed) {
  const auto error = [](const std::vector<uint64_t>& shape, uint32_t type, size_t bytes,
                        uint64_t offset_shift = 0) {
    GgufWriter writer = SmallFile();
    writer.AddRawTensor("bad", shape, type, std::string(bytes, '\0'), offset_shift);
    return ErrorOf(writer);
  };
  EXPECT_EQ(error({8}, 0, 32), "opened");
  EXPECT_EQ(error({8}, 99, 32), "opened");  // Unknown types are named where they are used.
  EXPECT_THAT(error({}, 0, 4), HasSubstr("tensor \"bad\": 0 dimensions"));
  EXPECT_THAT(error({1, 1, 1, 1, 1}, 0, 4), HasSubstr("tensor \"bad\": 5 dimensions"));
  EXPECT_THAT(error({8, 0}, 0, 4), HasSubstr("tensor \"bad\": dimension 1 is 0"));
  EXPECT_THAT(error({uint64_t{1} << 33, uint64_t{1} << 33}, 0, 4),
              HasSubstr("tensor \"bad\": dimension 1 is 8589934592"));
  EXPECT_THAT(error({UINT64_MAX}, 0, 4), HasSubstr("tensor \"bad\": dimension 0"));
  EXPECT_THAT(error({uint64_t{1} << 62}, 0, 4), HasSubstr("tensor \"bad\": the data's size"));
  EXPECT_THAT(error({33}, 8, 64),
              HasSubstr("tensor \"bad\": dimension 0 is 33, which is not a multiple of Q8_0"));
  EXPECT_THAT(error({8}, 0, 28), HasSubstr("tensor \"bad\": data ends at byte"));
  EXPECT_THAT(error({8}, 0, 32, 16), HasSubstr("tensor \"bad\": offset 144 is not a multiple of"));
  EXPECT_THAT(error({8}, 0, 32, uint64_t{1} << 63), HasSubstr("tensor \"bad\": offset"));
  EXPECT_THAT(error({8}, 0, 32, uint64_t{0} - 192), HasSubstr("tensor \"bad\": offset 184467"));
  // Points back at t.q80's data.
  EXPECT_THAT(error({8}, 0, 32, uint64_t{0} - 96), HasSubstr("overlaps"));
  GgufWriter twice = SmallFile();
  twice.AddRawTensor("t.f32", {1}, 0, std::string(4, '\0'));
  EXPECT_THAT(ErrorOf(twice), HasSubstr("tensor \"t.f32\": the name occurs twice"));
}

TEST(GgufTest, TypesOfWeightsAreTheKernels) {
  int found = 0;
  for (uint32_t number = 0; number < 100; ++number) {
    const auto type = WeightTypeOf(number);
    if (!type.has_value()) continue;
    ++found;
    const GgmlTypeInfo* info = FindGgmlType(number);
    EXPECT_STREQ(info->name, kernels::WeightTypeName(*type));
    const auto elements = static_cast<int>(info->block_elements);
    EXPECT_EQ(elements, kernels::WeightBlockElements(*type)) << info->name;
    EXPECT_EQ(info->block_bytes, kernels::WeightRowBytes(*type, elements)) << info->name;
    EXPECT_EQ(UnsupportedType(number, TensorUse::kMatrix), std::nullopt) << info->name;
    EXPECT_EQ(UnsupportedType(number, TensorUse::kVector).has_value(), elements > 1) << info->name;
  }
  EXPECT_EQ(found, static_cast<int>(std::size(kernels::kWeightTypes)));
  EXPECT_THAT(UnsupportedType(17, TensorUse::kMatrix).value(),
              HasSubstr("type IQ2_XS is not supported; F32, "));
  EXPECT_EQ(UnsupportedType(99, TensorUse::kVector),
            "type 99 is not supported here; F32, F16 and BF16 are");
}

TEST(GgufTest, AlignmentIsAPowerOfTwoAndHeeded) {
  GgufWriter wide = SmallFile();
  wide.SetAlignment(256);
  const TempFile temp(wide.Bytes());
  const auto file = OpenModel(temp.path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->data_offset() % 256, 0U);
  for (const uint32_t bad : {0U, 24U, uint32_t{1} << 30}) {
    GgufWriter writer = SmallFile();
    writer.SetUint32("general.alignment", bad);
    EXPECT_THAT(ErrorOf(writer), HasSubstr("general.alignment"));
  }
  GgufWriter text = SmallFile();
  text.SetString("general.alignment", "32");
  EXPECT_THAT(ErrorOf(text), HasSubstr("general.alignment"));
}

// A model in parts, each with its tensors, in a folder of its own.
class SplitTest : public testing::Test {
 protected:
  SplitTest() { std::filesystem::create_directory(folder_); }
  ~SplitTest() override { std::filesystem::remove_all(folder_); }

  static GgufWriter Part(uint16_t number, uint16_t count, int32_t tensors) {
    GgufWriter writer;
    if (number == 0) writer.SetString("general.architecture", "llama");
    writer.AddRaw("split.no", Number(GgufType::kUint16), Raw(number));
    writer.AddRaw("split.count", Number(GgufType::kUint16), Raw(count));
    writer.SetInt32("split.tensors.count", tensors);
    for (int i = 0; i < number + 1; ++i) {
      const auto value = static_cast<float>(10 * number + i);
      writer.SetTensor("t" + std::to_string(number) + std::to_string(i), {2},
                       kernels::WeightType::kF32, std::vector<float>(2, value));
    }
    return writer;
  }
  std::string PathOf(int number) const {
    return folder_ + "/m-0000" + std::to_string(number) + "-of-00003.gguf";
  }
  void Write(const std::string& path, const GgufWriter& writer) {
    std::ofstream(path, std::ios::binary) << writer.Bytes();
  }
  void WriteAll() {
    for (uint16_t i = 0; i < 3; ++i) Write(PathOf(i + 1), Part(i, 3, 6));
  }
  std::string Error(const std::string& path) {
    const auto file = OpenModel(path);
    return file.ok() ? "opened" : file.status().message();
  }

  const std::string folder_ = testing::TempDir() + "gguf_split_test_" + std::to_string(getpid());
};

TEST_F(SplitTest, PartsAreOneModel) {
  WriteAll();
  for (const std::string& path : {PathOf(1), folder_}) {
    const auto opened = OpenModel(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const GgufFile& file = **opened;
    EXPECT_EQ(file.GetString("general.architecture").value(), "llama");
    EXPECT_EQ(file.files().size(), 3U);
    ASSERT_EQ(file.tensors().size(), 6U);
    for (const auto& [name, value] :
         {std::pair{"t00", 0.0F}, std::pair{"t11", 11.0F}, std::pair{"t22", 22.0F}}) {
      const GgufTensor* tensor = file.FindTensor(name);
      ASSERT_NE(tensor, nullptr) << name;
      std::vector<float> read(2);
      ASSERT_TRUE(file.Read(tensor->begin, std::as_writable_bytes(std::span(read))).ok());
      EXPECT_THAT(read, ElementsAre(value, value));
    }
    EXPECT_TRUE(file.CheckUnchanged().ok());
    const auto time = std::filesystem::last_write_time(PathOf(3));
    std::filesystem::last_write_time(PathOf(3), time + std::chrono::seconds(5));
    EXPECT_THAT(file.CheckUnchanged().message(), HasSubstr(PathOf(3)));
  }
}

TEST_F(SplitTest, WhatDoesNotBelongTogetherIsNamed) {
  WriteAll();
  EXPECT_THAT(Error(PathOf(2)),
              HasSubstr("is part 2 of 3 of a model; name the first part, " + PathOf(1)));
  Write(folder_ + "/other.gguf", Part(0, 3, 6));
  EXPECT_THAT(Error(folder_ + "/other.gguf"),
              HasSubstr("metadata \"split.count\": the model is split into 3 files"));
  EXPECT_THAT(Error(folder_), HasSubstr("is a directory with 2 models; name one of them: "
                                        "m-00001-of-00003.gguf, other.gguf"));
  Write(PathOf(3), Part(1, 3, 6));
  EXPECT_THAT(Error(PathOf(1)),
              HasSubstr(PathOf(3) + ": metadata \"split.no\": 1 is out of range"));
  GgufWriter twice = Part(2, 3, 6);
  twice.RemoveTensor("t21");
  twice.AddRawTensor("t00", {1}, 0, std::string(4, '\0'));
  Write(PathOf(3), twice);
  EXPECT_THAT(Error(PathOf(1)), HasSubstr("tensor \"t00\": the name occurs twice"));
  GgufWriter fewer = Part(2, 3, 6);
  fewer.RemoveTensor("t21");
  Write(PathOf(3), fewer);
  EXPECT_THAT(Error(PathOf(1)), HasSubstr("expected 6 tensors, but the parts have 5"));
  Write(PathOf(3), SmallFile());
  EXPECT_THAT(Error(PathOf(1)), HasSubstr("metadata \"split.no\": the key is missing"));
  std::filesystem::remove(PathOf(3));
  EXPECT_THAT(Error(PathOf(1)), HasSubstr(PathOf(3) + ": cannot be opened"));
}

TEST(GgufTest, QuantisesWhenItIsAsked) {
  GgufWriter writer = SmallFile();
  writer.SetTensor("blk.0.x.weight", {32, 3}, kernels::WeightType::kF16,
                   std::vector<float>(96, 127.0F));
  const TempFile temp(writer.Bytes());
  const auto file = OpenModel(temp.path(), "q8_0");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufTensor& tensor = *(*file)->FindTensor("blk.0.x.weight");
  EXPECT_EQ(GgmlTypeName(tensor.type), "Q8_0");
  ASSERT_EQ(tensor.bytes, 102U);
  std::vector<uint8_t> read(34);
  ASSERT_TRUE((*file)->Read(tensor.begin + 34, std::as_writable_bytes(std::span(read))).ok());
  EXPECT_EQ(read[2], 127);
  EXPECT_EQ(GgmlTypeName((*file)->FindTensor("t.f32")->type), "F32");
  EXPECT_THAT(OpenModel(temp.path(), "q3_k").status().message(),
              HasSubstr("must be q8_0 or q4_0, not 'q3_k'"));
  const TempFile none(SmallFile().Bytes());
  EXPECT_THAT(OpenModel(none.path(), "q8_0").status().message(),
              HasSubstr("has no weights in F32, F16 or BF16"));
}

TEST(GgufTest, ASmallHostileFileAllocatesLittle) {
  const std::string whole = SmallFile().Bytes();
  std::vector<std::string> files;
  for (size_t at = 8; at + 8 <= whole.size(); ++at) {
    files.push_back(With(whole, at, uint64_t{1} << 28));
    files.push_back(With(whole, at, uint64_t{1} << 40));
  }
  TakeLargestAllocation();
  for (const std::string& bytes : files) {
    const TempFile temp(bytes);
    const auto file = OpenModel(temp.path());
    if (file.ok()) DescribeGguf(**file);
  }
  EXPECT_LT(TakeLargestAllocation(), size_t{64} << 10);
}

}  // namespace
}  // namespace ropeway::model
