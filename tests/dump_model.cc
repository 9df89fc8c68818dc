// Prints what a model presents to the loader, for tests that compare it with what others make of
// the same model (folder_test.py, folders/check_folders.py):
//
//   dump_model MODEL [q8_0 | q4_0]
//
// One JSON object a line: first {"metadata": {KEY: VALUE, ...}} (without arrays of texts), then for
// each tensor {"name", "type", "shape", "sha256"}, the shape in GGUF's order.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/sha256.h"
#include "model/gguf.h"
#include "model/open_model.h"

namespace ropeway::test {
namespace {

using nlohmann::json;

template <typename T>
json NumbersOf(const model::GgufArray& array) {
  json list = json::array();
  for (uint64_t i = 0; i < array.count; ++i) {
    T number;
    std::memcpy(&number, array.data.data() + i * sizeof number, sizeof number);
    list.push_back(number);
  }
  return list;
}

json ArrayOf(const model::GgufArray& array) {
  switch (array.type) {
    case model::GgufType::kBool: {
      json list = json::array();
      for (const std::byte flag : array.data) list.push_back(flag != std::byte{0});
      return list;
    }
    case model::GgufType::kInt32:
      return NumbersOf<int32_t>(array);
    case model::GgufType::kUint32:
      return NumbersOf<uint32_t>(array);
    case model::GgufType::kFloat32:
      return NumbersOf<float>(array);
    default:
      return nullptr;
  }
}

json ValueOf(const model::GgufValue& value) {
  return std::visit(
      [](const auto& held) -> json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, model::GgufArray>) {
          return ArrayOf(held);
        } else if constexpr (std::is_same_v<Held, std::string_view>) {
          return std::string(held);
        } else {
          return held;
        }
      },
      value);
}

int Dump(const std::string& path, const std::string& quantize) {
  const auto opened = model::OpenModel(path, quantize);
  if (!opened.ok()) {
    std::cerr << "dump_model: " << opened.status().message() << "\n";
    return 1;
  }
  const model::GgufFile& file = **opened;
  json metadata = json::object();
  for (const auto& entry : file.metadata()) {
    const json value = ValueOf(entry.value);
    if (!value.is_null()) metadata[std::string(entry.key)] = value;
  }
  const auto print = [](const json& line) {
    std::cout << line.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
  };
  json first = json::object();
  first["metadata"] = metadata;
  print(first);
  for (const model::GgufTensor& tensor : file.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    if (const Status status = file.Read(tensor.begin, bytes); !status.ok()) {
      std::cerr << "dump_model: " << status.message() << "\n";
      return 1;
    }
    print({{"name", std::string(tensor.name)},
           {"type", model::GgmlTypeName(tensor.type)},
           {"shape", tensor.shape},
           {"sha256", base::HexText(base::Sha256(bytes.data(), bytes.size()))}});
  }
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace ropeway::test

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: dump_model MODEL [q8_0 | q4_0]\n");
    return 2;
  }
  return ropeway::test::Dump(argv[1], argc == 3 ? argv[2] : "");
}
