#include "tokenizer/test_char_map.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ropeway::tokenizer {
namespace {

void AppendLittleEndian(uint32_t value, std::string* bytes) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    bytes->push_back(static_cast<char>(value >> shift));
  }
}

// Lays a trie into a double array, one node after the other, each child where there is room.
class CharMapWriter {
 public:
  explicit CharMapWriter(const std::map<std::string, std::string>& mappings) : units_(1 << 16) {
    for (const auto& [from, to] : mappings) {
      size_t node = 0;
      for (const char byte : from) node = Child(node, static_cast<uint8_t>(byte));
      nodes_[node].value = static_cast<int64_t>(texts_.size());
      texts_ += to + '\0';
    }
    used_.assign(units_.size(), false);
    is_base_.assign(units_.size(), false);
    used_[0] = true;
    Lay(0, 0);
  }

  std::string Bytes() const {
    std::string bytes;
    AppendLittleEndian(static_cast<uint32_t>(units_.size() * 4), &bytes);
    for (const uint32_t unit : units_) AppendLittleEndian(unit, &bytes);
    return bytes + texts_;
  }

 private:
  struct Node {
    std::map<uint8_t, size_t> children;
    int64_t value = -1;
  };

  size_t Child(size_t node, uint8_t byte) {
    const auto [at, is_new] = nodes_[node].children.try_emplace(byte, nodes_.size());
    const size_t child = at->second;
    if (is_new) nodes_.emplace_back();
    return child;
  }

  bool IsFree(const Node& node, size_t base) const {
    // Two nodes with one base would have each other's children.
    if (is_base_[base] || (node.value >= 0 && used_[base])) return false;
    for (const auto& [byte, child] : node.children) {
      if (used_[base ^ byte]) return false;
    }
    return true;
  }

  void Lay(size_t index, size_t at) {
    const Node node = nodes_[index];
    size_t base = 1;
    while (!IsFree(node, base)) ++base;
    is_base_[base] = true;
    units_[at] |= static_cast<uint32_t>(at ^ base) << 10U;
    if (node.value >= 0) {
      units_[at] |= 1U << 8U;
      units_[base] = 1U << 31U | static_cast<uint32_t>(node.value);
      used_[base] = true;
    }
    for (const auto& [byte, child] : node.children) {
      units_[base ^ byte] = byte;
      used_[base ^ byte] = true;
    }
    for (const auto& [byte, child] : node.children) Lay(child, base ^ byte);
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<uint32_t> units_;
  std::vector<bool> used_;
  std::vector<bool> is_base_;
  std::string texts_;
};

}  // namespace

std::string WriteCharMap(const std::map<std::string, std::string>& mappings) {
  return CharMapWriter(mappings).Bytes();
}

}  // namespace ropeway::tokenizer
