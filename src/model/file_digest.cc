#include "model/file_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/sha256.h"

namespace ropeway {
namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;

}  // namespace

std::string FileDigest(const GgufFile& file, int threads) {
  const std::span<const std::byte> bytes = file.bytes();
  std::vector<Sha256Digest> sums((bytes.size() + kChunkBytes - 1) / kChunkBytes);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < sums.size(); i = next.fetch_add(1)) {
      const size_t first = i * kChunkBytes;
      const auto chunk = bytes.subspan(first, std::min(kChunkBytes, bytes.size() - first));
      sums[i] = Sha256(chunk.data(), chunk.size());
      file.Release(chunk);
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < threads && static_cast<size_t>(t) < sums.size(); ++t) {
      others.emplace_back(work);
    }
    work();
  }
  std::vector<uint8_t> message(sums.size() * sizeof(Sha256Digest));
  std::memcpy(message.data(), sums.data(), message.size());
  for (int shift = 0; shift < 64; shift += 8) {
    message.push_back(static_cast<uint8_t>(uint64_t{bytes.size()} >> shift));
  }
  std::string hex;
  for (const uint8_t byte : Sha256(message.data(), message.size()))
    hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace ropeway
