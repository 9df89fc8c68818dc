// How the disk tier stores one KV block: a header, then the block's bytes.
//
//   offset  bytes
//        0      4  magic "RKVB"
//        4      4  kDiskFormat
//        8     32  the block's name
//       40      8  number of bytes of the block
//       48      8  XXH3-64 of them
//
// Integers are little-endian. The checksum finds damage, it does not authenticate: who can write to
// the directory can change what is in it.
#ifndef ROPEWAY_KVCACHE_DISK_BLOCK_H_
#define ROPEWAY_KVCACHE_DISK_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/block_name.h"

namespace ropeway {

// Of the header and of the directory's layout. Goes up with any change of either.
inline constexpr uint32_t kDiskFormat = 1;
inline constexpr size_t kDiskHeaderBytes = 56;
// What a block takes on disk beside its bytes, at most: its header, the blob's, two keys with their
// places in the tables.
inline constexpr size_t kDiskBlockOverhead = 320;
// What a flush takes beside its blocks, at most, in whole blocks of the file system.
inline constexpr size_t kDiskFlushOverhead = 64 << 10;

std::array<std::byte, kDiskHeaderBytes> DiskHeader(const BlockName& name,
                                                   std::span<const std::byte> bytes);

// The block's bytes within what is `stored` under its name; nullopt if that is torn, damaged or
// another block.
std::optional<std::span<const std::byte>> CheckDiskBlock(const BlockName& name,
                                                         std::span<const std::byte> stored);

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_DISK_BLOCK_H_
