#include "store/record.h"

#include <xxhash.h>

#include <cstring>
#include <utility>

namespace ropeway::store {
namespace {

constexpr size_t kNumberBytes = 8;
constexpr size_t kIdBytes = 4;

void Append(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t Parse(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

}  // namespace

uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void RecordWriter::Number(uint64_t value) { Append(value, kNumberBytes, &bytes_); }

void RecordWriter::Text(std::string_view text) {
  Number(text.size());
  bytes_ += text;
}

void RecordWriter::Ids(std::span<const TokenId> ids) {
  Number(ids.size());
  bytes_.reserve(bytes_.size() + ids.size() * kIdBytes + kNumberBytes);
  for (const TokenId id : ids) Append(static_cast<uint32_t>(id), kIdBytes, &bytes_);
}

std::string RecordWriter::Seal() && {
  Append(Checksum(bytes_), kNumberBytes, &bytes_);
  return std::move(bytes_);
}

RecordReader::RecordReader(std::string_view record) {
  broken_ = record.size() < kNumberBytes;
  if (broken_) return;
  bytes_ = record.substr(0, record.size() - kNumberBytes);
  broken_ = Parse(record.substr(bytes_.size())) != Checksum(bytes_);
}

std::string_view RecordReader::Take(size_t bytes) {
  if (broken_ || bytes > bytes_.size()) {
    broken_ = true;
    return {};
  }
  const std::string_view taken = bytes_.substr(0, bytes);
  bytes_.remove_prefix(bytes);
  return taken;
}

uint64_t RecordReader::Number() { return Parse(Take(kNumberBytes)); }

std::string RecordReader::Text() { return std::string(Take(Number())); }

size_t RecordReader::Count(size_t least_bytes) {
  const uint64_t count = Number();
  if (count > bytes_.size() / least_bytes) broken_ = true;
  return broken_ ? 0 : count;
}

std::vector<TokenId> RecordReader::Ids() {
  std::vector<TokenId> ids(Count(kIdBytes));
  for (TokenId& id : ids) id = static_cast<TokenId>(Parse(Take(kIdBytes)));
  return ids;
}

}  // namespace ropeway::store
