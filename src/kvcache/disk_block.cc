#include "kvcache/disk_block.h"

#include <xxhash.h>

#include <bit>
#include <cstring>

namespace ropeway {
namespace {

static_assert(std::endian::native == std::endian::little, "the header is written as it lies");

struct Header {
  char magic[4] = {'R', 'K', 'V', 'B'};
  uint32_t format = kDiskFormat;
  BlockName name;
  uint64_t size = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(Header) == kDiskHeaderBytes);

}  // namespace

std::array<std::byte, kDiskHeaderBytes> DiskHeader(const BlockName& name,
                                                   std::span<const std::byte> bytes) {
  const Header header{
      .name = name, .size = bytes.size(), .checksum = XXH3_64bits(bytes.data(), bytes.size())};
  return std::bit_cast<std::array<std::byte, kDiskHeaderBytes>>(header);
}

std::optional<std::span<const std::byte>> CheckDiskBlock(const BlockName& name,
                                                         std::span<const std::byte> stored) {
  if (stored.size() < kDiskHeaderBytes) return std::nullopt;
  const std::span<const std::byte> bytes = stored.subspan(kDiskHeaderBytes);
  const std::array<std::byte, kDiskHeaderBytes> expected = DiskHeader(name, bytes);
  if (std::memcmp(stored.data(), expected.data(), kDiskHeaderBytes) != 0) return std::nullopt;
  return bytes;
}

}  // namespace ropeway
