#include "model/file_digest.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/sha256.h"
#include "model/read_in_parallel.h"

namespace ropeway::model {
namespace {

constexpr size_t kDigestChunkBytes = size_t{4} << 20;

}  // namespace

StatusOr<std::string> FileDigest(const GgufFile& file, int threads) {
  struct Chunk {
    const base::RandomAccessFile* file;
    uint64_t begin;
    size_t bytes;
  };
  std::vector<Chunk> chunks;
  for (const base::RandomAccessFile& source : file.files()) {
    for (uint64_t begin = 0; begin < source.bytes(); begin += kDigestChunkBytes) {
      const uint64_t bytes = std::min<uint64_t>(kDigestChunkBytes, source.bytes() - begin);
      chunks.push_back({&source, begin, static_cast<size_t>(bytes)});
    }
  }
  std::vector<base::Sha256Digest> sums(chunks.size());
  FirstFailure failure;
  ParallelFor(sums.size(), threads, [&](size_t i) {
    if (failure.failed()) return;
    FilePart chunk;
    const Status status = chunk.Read(*chunks[i].file, chunks[i].begin, chunks[i].bytes);
    failure.Note(status);
    if (status.ok()) sums[i] = base::Sha256(chunk.data(), chunks[i].bytes);
  });
  if (failure.failed()) return failure.status();
  if (Status status = file.CheckUnchanged(); !status.ok()) return status;
  std::vector<uint8_t> message(sums.size() * sizeof(base::Sha256Digest));
  std::memcpy(message.data(), sums.data(), message.size());
  for (const base::RandomAccessFile& source : file.files()) {
    for (int shift = 0; shift < 64; shift += 8) {
      message.push_back(static_cast<uint8_t>(source.bytes() >> shift));
    }
  }
  message.insert(message.end(), file.quantize().begin(), file.quantize().end());
  return base::HexText(base::Sha256(message.data(), message.size()));
}

}  // namespace ropeway::model
