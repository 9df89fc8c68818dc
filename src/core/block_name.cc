#include "core/block_name.h"

#include <algorithm>
#include <vector>

#include "base/sha256.h"

namespace ropeway::core {
namespace {

// So that no root reads like a block.
constexpr std::string_view kRootTag = "ropeway kv root";
constexpr std::string_view kBlockTag = "ropeway kv block";
constexpr std::string_view kLongRopeTag = "ropeway kv root, long rope";

void AppendNumber(uint64_t number, std::vector<uint8_t>* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<uint8_t>(number >> shift));
}

void AppendText(std::string_view text, std::vector<uint8_t>* out) {
  AppendNumber(text.size(), out);
  out->insert(out->end(), text.begin(), text.end());
}

BlockName Hash(std::span<const uint8_t> message) {
  return {base::Sha256(message.data(), message.size())};
}

}  // namespace

BlockName RootName(const CacheRoot& root) {
  std::vector<uint8_t> message;
  AppendText(kRootTag, &message);
  AppendText(root.model_digest, &message);
  AppendNumber(static_cast<uint64_t>(root.numerics_version), &message);
  AppendText(root.kv_dtype, &message);
  AppendText(root.rope_scaling, &message);
  AppendText(root.scope, &message);
  AppendText(root.salt, &message);
  return Hash(message);
}

BlockName LongRopeRoot(const BlockName& root) {
  // On the stack: a sequence that crosses the length must not fail half-way for want of memory.
  std::array<uint8_t, kLongRopeTag.size() + sizeof(BlockName)> message;
  std::memcpy(message.data(), kLongRopeTag.data(), kLongRopeTag.size());
  std::memcpy(message.data() + kLongRopeTag.size(), root.bytes.data(), root.bytes.size());
  return Hash(message);
}

BlockName ChildName(const BlockName& parent, std::span<const TokenId> ids) {
  // On the stack: a name is made for each block of each prompt.
  constexpr size_t kMostIds = base::kBlockTokens;
  std::array<uint8_t, kBlockTag.size() + sizeof(BlockName) + 4 + 4 * kMostIds> message;
  size_t size = 0;
  const auto append = [&](const void* data, size_t bytes) {
    std::memcpy(message.data() + size, data, bytes);
    size += bytes;
  };
  const auto append_number = [&](uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8) {
      message[size++] = static_cast<uint8_t>(number >> shift);
    }
  };
  append(kBlockTag.data(), kBlockTag.size());
  append(parent.bytes.data(), parent.bytes.size());
  append_number(static_cast<uint32_t>(ids.size()));
  for (const TokenId id : ids.first(std::min(ids.size(), kMostIds))) {
    append_number(static_cast<uint32_t>(id));
  }
  return Hash({message.data(), size});
}

std::vector<BlockName> ChainNames(const BlockName& root, std::span<const TokenId> ids) {
  std::vector<BlockName> names;
  names.reserve(ids.size() / base::kBlockTokens);
  for (size_t i = 0; i + base::kBlockTokens <= ids.size(); i += base::kBlockTokens) {
    names.push_back(
        ChildName(names.empty() ? root : names.back(), ids.subspan(i, base::kBlockTokens)));
  }
  return names;
}

std::string ShortName(const BlockName& name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < 6; ++i) {
    text += kDigits[name.bytes[i] >> 4];
    text += kDigits[name.bytes[i] & 15];
  }
  return text;
}

}  // namespace ropeway::core
