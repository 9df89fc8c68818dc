#include "model/test_hf_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "kernels/kernels.h"

namespace ropeway::model {
namespace {

uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
void AppendRaw(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void SafetensorsWriter::Add(std::string_view name, const std::vector<uint64_t>& shape,
                            std::string_view dtype, const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    if (dtype == "F32") {
      AppendRaw(value, &bytes);
    } else {
      AppendRaw(dtype == "F16" ? kernels::FloatToHalf(value) : ToBf16(value), &bytes);
    }
  }
  AddBytes(name, shape, dtype, bytes);
}

void SafetensorsWriter::AddBytes(std::string_view name, const std::vector<uint64_t>& shape,
                                 std::string_view dtype, const std::string& bytes) {
  header_ += fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}},)", name,
                         dtype, fmt::join(shape, ","), data_.size(), data_.size() + bytes.size());
  data_ += bytes;
}

std::string SafetensorsWriter::Bytes() const {
  std::string header = "{" + header_;
  if (header.back() == ',') header.pop_back();
  return WithHeader(header + "}", data_);
}

std::string SafetensorsWriter::WithHeader(std::string_view header, std::string_view data) {
  std::string out;
  AppendRaw(uint64_t{header.size()}, &out);
  return out.append(header).append(data);
}

TempFolder::TempFolder() {
  const char* parent = std::getenv("TMPDIR");
  path_ = std::string(parent != nullptr ? parent : "/tmp") + "/ropeway-test-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a folder " + path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TempFolder::Write(std::string_view name, std::string_view bytes) const {
  std::ofstream file(PathOf(name), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + PathOf(name));
}

void TempFolder::Remove(std::string_view name) const { std::filesystem::remove_all(PathOf(name)); }

}  // namespace ropeway::model
