#include "model/table_digest.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/sha256.h"

namespace ropeway::model {
namespace {

// Each part says its length first, so that no two lists of parts are the same bytes.
class TableHash {
 public:
  void Add(uint64_t number) {
    std::array<uint8_t, 8> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(number >> (8 * i));
    sha_.Add(bytes.data(), bytes.size());
  }
  void Add(std::string_view text) {
    Add(uint64_t{text.size()});
    sha_.Add(text.data(), text.size());
  }
  void Add(const GgufArray& array) {
    Add(static_cast<uint64_t>(array.type));
    Add(array.count);
    Add(uint64_t{array.data.size()});
    sha_.Add(array.data.data(), array.data.size());
    for (const std::string_view text : array.strings) Add(text);
  }
  void Add(const GgufValue& value) {
    std::visit(
        [this](const auto& it) {
          using T = std::decay_t<decltype(it)>;
          if constexpr (std::is_same_v<T, double>) {
            Add(std::bit_cast<uint64_t>(it));
          } else if constexpr (std::is_arithmetic_v<T>) {
            Add(static_cast<uint64_t>(it));
          } else {
            Add(it);
          }
        },
        value);
  }
  std::string Take() { return base::HexText(sha_.End()); }

 private:
  base::Sha256Stream sha_;
};

}  // namespace

std::string TableDigest(const GgufFile& file) {
  TableHash hash;
  hash.Add(uint64_t{file.metadata().size()});
  for (const GgufFile::Entry& entry : file.metadata()) {
    if (entry.key == "general.name") continue;  // Of a folder, its own.
    hash.Add(entry.key);
    hash.Add(static_cast<uint64_t>(entry.type));
    hash.Add(entry.value);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    hash.Add(tensor.name);
    hash.Add(uint64_t{tensor.shape.size()});
    for (const uint64_t size : tensor.shape) hash.Add(size);
    hash.Add(uint64_t{tensor.type});
    hash.Add(tensor.begin);
  }
  return hash.Take();
}

}  // namespace ropeway::model
