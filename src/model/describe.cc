#include "model/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <type_traits>
#include <variant>

#include "base/sha256.h"
#include "base/utf8.h"
#include "base/words.h"

namespace ropeway::model {
namespace {

constexpr size_t kMaxTextBytes = 72;     // Of one string.
constexpr size_t kMaxElementBytes = 24;  // Of one string in an array.
constexpr uint64_t kMaxElements = 6;     // Of one array.

using Buffer = std::back_insert_iterator<std::string>;

// Bytes of the character at text[at] if it is valid UTF-8 and safe for a terminal, that is no
// control character (C0, DEL, C1); else 0.
size_t PrintableBytes(std::string_view text, size_t at) {
  const base::Utf8Step step = base::StepUtf8(text, at);
  const bool control =
      step.code_point < 0x20 || (step.code_point >= 0x7F && step.code_point < 0xA0);
  return step.kind == base::Utf8Kind::kValid && !control ? step.length : 0;
}

// Element `index` of an array of numbers or bools.
std::string NumberAt(const GgufArray& array, uint64_t index) {
  const std::byte* at = array.data.data() + index * GgufTypeBytes(array.type);
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return fmt::format("{}", value);
  };
  switch (array.type) {
    case GgufType::kUint8:
      return as(uint8_t{});
    case GgufType::kInt8:
      return as(int8_t{});
    case GgufType::kUint16:
      return as(uint16_t{});
    case GgufType::kInt16:
      return as(int16_t{});
    case GgufType::kUint32:
      return as(uint32_t{});
    case GgufType::kInt32:
      return as(int32_t{});
    case GgufType::kUint64:
      return as(uint64_t{});
    case GgufType::kInt64:
      return as(int64_t{});
    case GgufType::kFloat32:
      return as(float{});
    case GgufType::kFloat64:
      return as(double{});
    case GgufType::kBool:
      return *at != std::byte{0} ? "true" : "false";
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return "?";
}

std::string ArrayText(const GgufArray& array) {
  std::string out = "[";
  for (uint64_t i = 0; i < std::min(array.count, kMaxElements); ++i) {
    if (i > 0) out += ", ";
    out += array.type == GgufType::kString ? QuoteForTerminal(array.strings[i], kMaxElementBytes)
                                           : NumberAt(array, i);
  }
  return out + (array.count > kMaxElements ? ", ...]" : "]");
}

std::string TypeText(const GgufFile::Entry& entry) {
  const auto* array = std::get_if<GgufArray>(&entry.value);
  if (array == nullptr) return GgufTypeName(entry.type);
  return fmt::format("{}[{}]", GgufTypeName(array->type), array->count);
}

std::string ValueText(const GgufFile::Entry& entry) {
  return std::visit(
      [&]<typename T>(const T& value) -> std::string {
        if constexpr (std::is_same_v<T, std::string_view>) {
          return QuoteForTerminal(value, kMaxTextBytes);
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          return ArrayText(value);
        } else if constexpr (std::is_same_v<T, double>) {
          // A float32 in as few digits as a float32 needs.
          return entry.type == GgufType::kFloat32 ? fmt::format("{}", static_cast<float>(value))
                                                  : fmt::format("{}", value);
        } else {
          return fmt::format("{}", value);
        }
      },
      entry.value);
}

void AppendMetadata(const GgufFile& file, Buffer out) {
  size_t width = 0;
  for (const auto& entry : file.metadata()) width = std::max(width, entry.key.size());
  width = std::min<size_t>(width, 48);
  fmt::format_to(out, "\nMetadata\n");
  for (const auto& entry : file.metadata()) {
    fmt::format_to(out, "  {:<{}}  {:<14}  {}\n", entry.key, width, TypeText(entry),
                   ValueText(entry));
  }
}

void AppendTensors(const GgufFile& file, Buffer out) {
  if (file.tensors().empty()) return;  // A vocabulary: the first line says so.
  struct Total {
    uint64_t tensors = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string, Total> totals;
  size_t width = 0;
  for (const GgufTensor& tensor : file.tensors()) width = std::max(width, tensor.name.size());
  width = std::min<size_t>(width, 48);
  fmt::format_to(out, "\nTensors (name, type, shape with the contiguous dimension first, bytes)\n");
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string type = GgmlTypeName(tensor.type);
    const bool known = FindGgmlType(tensor.type) != nullptr;
    fmt::format_to(out, "  {:<{}}  {:<7}  {:<16}  {}\n", tensor.name, width, type,
                   fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                   known ? fmt::format("{}", tensor.bytes) : "unknown");
    Total& total = totals[type];
    ++total.tensors;
    total.bytes += tensor.bytes;
  }
  fmt::format_to(out, "\nTotals\n");
  for (const auto& [type, total] : totals) {
    fmt::format_to(out, "  {:<7}  {}, {} bytes\n", type, base::Counted(total.tensors, "tensor"),
                   total.bytes);
  }
}

}  // namespace

std::string QuoteForTerminal(std::string_view text, size_t max_bytes) {
  std::string out = "\"";
  size_t i = 0;
  while (i < text.size() && i < max_bytes) {
    const char c = text[i];
    if (const size_t length = PrintableBytes(text, i); length > 0) {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(i, length);
      i += length;
      continue;
    }
    if (c == '\n') {
      out += "\\n";
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02X}", static_cast<uint8_t>(c));
    }
    ++i;
  }
  out += '"';
  if (i < text.size()) fmt::format_to(std::back_inserter(out), "... ({} bytes)", text.size());
  return out;
}

std::string DescribeGguf(const GgufFile& file) {
  std::string text;
  const Buffer out(text);
  const std::string format = file.version() == 0 ? std::string("Hugging Face folder")
                                                 : fmt::format("GGUF version {}", file.version());
  const size_t files = file.files().size();
  fmt::format_to(out, "{}: {}, {} bytes{}, {} metadata entries, {} tensors\n", file.path(), format,
                 file.file_bytes(), files == 1 ? "" : fmt::format(" in {} files", files),
                 file.metadata().size(), file.tensors().size());
  AppendMetadata(file, out);
  AppendTensors(file, out);
  return text;
}

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
    if (entry.key == "general.name") continue;  // In a folder it is the folder's name.
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
