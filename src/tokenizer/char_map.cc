#include "tokenizer/char_map.h"

#include <algorithm>
#include <cstring>

#include "tokenizer/token_table.h"

namespace ropeway::tokenizer {
namespace {

constexpr const char* kCharMapField = "tokenizer.ggml.precompiled_charsmap";

// A wrong array may have a circle. What is mapped in real ones has up to some ten bytes.
constexpr size_t kMostMappedBytes = 64;

// A unit of the array is a node: its label (the byte that leads to it), whether a text ends there,
// and the way to its children; or, behind an end, the position of what the text maps to.
constexpr uint32_t kIsValue = 1U << 31U;

uint32_t LabelOf(uint32_t unit) { return unit & (kIsValue | 0xFFU); }
bool EndsText(uint32_t unit) { return (unit >> 8U & 1U) != 0; }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10U << ((unit >> 9U & 1U) * 8U); }
uint32_t ValueOf(uint32_t unit) { return unit & (kIsValue - 1); }

uint32_t ReadLittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8U * static_cast<unsigned>(i));
  }
  return value;
}

}  // namespace

StatusOr<CharMap> CharMap::Create(std::string_view bytes) {
  CharMap map;
  if (bytes.empty()) return map;
  if (bytes.size() < 4) return VocabularyError(kCharMapField, "it has no header");
  const size_t size = ReadLittleEndian(bytes);
  bytes.remove_prefix(4);
  if (size == 0 || size % 4 != 0 || size >= bytes.size()) {
    return VocabularyError(kCharMapField, "an array of " + std::to_string(size) +
                                              " bytes does not fit into the " +
                                              std::to_string(bytes.size()) + " that it has");
  }
  if (bytes.back() != '\0') return VocabularyError(kCharMapField, "its last text has no end");
  for (size_t at = 0; at < size; at += 4) {
    map.units_.push_back(ReadLittleEndian(bytes.substr(at, 4)));
  }
  map.texts_ = bytes.substr(size);
  return map;
}

CharMap::Mapping CharMap::Find(std::string_view text, size_t at) const {
  Mapping longest;
  if (units_.empty()) return longest;
  size_t node = OffsetOf(units_[0]);
  const size_t most = std::min(text.size() - at, kMostMappedBytes);
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint8_t>(text[at + i]);
    node ^= byte;
    // A zero byte is the way to a value.
    if (byte == 0 || node >= units_.size() || LabelOf(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= OffsetOf(unit);
    if (!EndsText(unit) || node >= units_.size()) continue;
    const size_t begin = ValueOf(units_[node]);
    if (begin < texts_.size()) longest = {i + 1, std::string_view(texts_.c_str() + begin)};
  }
  return longest;
}

}  // namespace ropeway::tokenizer
