// Records: values packed into bytes that know whether they are whole.
#ifndef ROPEWAY_STORE_RECORD_H_
#define ROPEWAY_STORE_RECORD_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

// XXH3, 64 bits: finds accidents, not attacks.
uint64_t Checksum(std::string_view bytes);

// Packs numbers little-endian, and texts and lists with their lengths before them.
class RecordWriter {
 public:
  void Number(uint64_t value);
  void Text(std::string_view text);
  void Ids(std::span<const TokenId> ids);

  // What was packed, with its checksum behind.
  std::string Seal() &&;

 private:
  std::string bytes_;
};

// Unpacks in the order of packing. A record that is torn, changed, or shorter or longer than what
// is read from it is not ok(); what was read from it then means nothing.
class RecordReader {
 public:
  // `record` must outlive the reader.
  explicit RecordReader(std::string_view record);

  uint64_t Number();
  std::string Text();
  std::vector<TokenId> Ids();
  // A number of things of which each takes at least `least_bytes`; 0 where so many cannot follow.
  size_t Count(size_t least_bytes);

  // Whether the record is whole and all of it was read.
  bool ok() const { return !broken_ && bytes_.empty(); }

 private:
  std::string_view Take(size_t bytes);

  std::string_view bytes_;  // What is left.
  bool broken_ = false;
};

}  // namespace ropeway

#endif  // ROPEWAY_STORE_RECORD_H_
