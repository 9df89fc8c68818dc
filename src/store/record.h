// Records: values packed into bytes, with a checksum.
#ifndef ROPEWAY_STORE_RECORD_H_
#define ROPEWAY_STORE_RECORD_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::store {

// XXH3, 64 bits: detects accidents, not attacks.
uint64_t Checksum(std::string_view bytes);

// Packs numbers little-endian, and texts and lists after their lengths.
class RecordWriter {
 public:
  void Number(uint64_t value);
  void Text(std::string_view text);
  void Ids(std::span<const TokenId> ids);

  // The packed bytes, followed by their checksum.
  std::string Seal() &&;

 private:
  std::string bytes_;
};

// Unpacks in the order of packing. A record that is torn, changed, or shorter or longer than the
// values read from it is not ok(); values read from it are then meaningless.
class RecordReader {
 public:
  // `record` must outlive the reader.
  explicit RecordReader(std::string_view record);

  uint64_t Number();
  std::string Text();
  std::vector<TokenId> Ids();
  // A number of elements of at least `least_bytes` each; 0 if so many cannot follow.
  size_t Count(size_t least_bytes);

  // Whether the record is valid and was read completely.
  bool ok() const { return !broken_ && bytes_.empty(); }

 private:
  std::string_view Take(size_t bytes);

  std::string_view bytes_;  // The unread rest.
  bool broken_ = false;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_RECORD_H_
