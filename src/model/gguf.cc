#include "model/gguf.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <system_error>

#include "model/gguf_parser.h"

namespace ropeway {
namespace {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string ErrnoMessage() { return std::generic_category().message(errno); }

StatusOr<std::span<const std::byte>> MapFile(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    return Status(StatusCode::kNotFound,
                  fmt::format("{}: cannot be opened: {}", path, ErrnoMessage()));
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0) {
    return Status(StatusCode::kNotFound,
                  fmt::format("{}: cannot be read: {}", path, ErrnoMessage()));
  }
  if (S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kNotFound, fmt::format("{}: is a directory, not a GGUF file", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kNotFound, fmt::format("{}: is not a regular file", path));
  }
  if (info.st_size == 0) {
    return Status(StatusCode::kDataLoss, fmt::format("{}: the file is empty", path));
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (map == MAP_FAILED) {
    return Status(StatusCode::kNotFound,
                  fmt::format("{}: cannot be mapped: {}", path, ErrnoMessage()));
  }
  return std::span<const std::byte>(static_cast<const std::byte*>(map), bytes);
}

Status WrongType(const std::string& path, std::string_view key, const char* expected,
                 GgufType type) {
  const std::string field = fmt::format("metadata \"{}\"", key);
  return {StatusCode::kDataLoss,
          fmt::format("{}: {}: {} is expected, the file has {}", path, field, expected,
                      GgufTypeName(type)),
          field};
}

}  // namespace

const char* GgufTypeName(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
      return "uint8";
    case GgufType::kInt8:
      return "int8";
    case GgufType::kUint16:
      return "uint16";
    case GgufType::kInt16:
      return "int16";
    case GgufType::kUint32:
      return "uint32";
    case GgufType::kInt32:
      return "int32";
    case GgufType::kFloat32:
      return "float32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kUint64:
      return "uint64";
    case GgufType::kInt64:
      return "int64";
    case GgufType::kFloat64:
      return "float64";
  }
  return "unknown";
}

size_t GgufTypeBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  StatusOr<std::span<const std::byte>> map = MapFile(path);
  if (!map.ok()) return map.status();
  std::unique_ptr<GgufFile> file(new GgufFile());
  file->path_ = path;
  file->map_ = *map;
  try {
    const Status status = GgufParser(file.get()).Parse();
    if (!status.ok()) return status;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, path + ": no memory for the file's tables");
  }
  return file;
}

GgufFile::~GgufFile() {
  // munmap takes a pointer to mutable memory, though it writes none.
  if (!map_.empty()) munmap(const_cast<std::byte*>(map_.data()), map_.size());
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto name_of = [&](uint32_t i) { return tensors_[i].name; };
  const auto at = std::ranges::lower_bound(tensor_order_, name, {}, name_of);
  return at != tensor_order_.end() && name_of(*at) == name ? &tensors_[*at] : nullptr;
}

const GgufFile::Entry* GgufFile::Find(std::string_view key) const {
  const auto key_of = [&](uint32_t i) { return metadata_[i].key; };
  const auto at = std::ranges::lower_bound(metadata_order_, key, {}, key_of);
  return at != metadata_order_.end() && key_of(*at) == key ? &metadata_[*at] : nullptr;
}

StatusOr<std::optional<uint64_t>> GgufFile::GetUint(std::string_view key, uint64_t min,
                                                    uint64_t max) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return std::optional<uint64_t>();
  const auto out_of_range = [&](auto number) {
    const std::string field = fmt::format("metadata \"{}\"", key);
    const std::string bound = max == std::numeric_limits<uint64_t>::max()
                                  ? fmt::format("at least {}", min)
                                  : fmt::format("from {} to {}", min, max);
    return Status(
        StatusCode::kDataLoss,
        fmt::format("{}: {}: {} is out of range; it must be {}", path_, field, number, bound),
        field);
  };
  uint64_t number = 0;
  if (const auto* value = std::get_if<uint64_t>(&entry->value)) {
    number = *value;
  } else if (const auto* signed_value = std::get_if<int64_t>(&entry->value)) {
    if (*signed_value < 0) return out_of_range(*signed_value);
    number = static_cast<uint64_t>(*signed_value);
  } else {
    return WrongType(path_, key, "an integer", entry->type);
  }
  if (number < min || number > max) return out_of_range(number);
  return std::optional<uint64_t>(number);
}

StatusOr<std::optional<double>> GgufFile::GetFloat(std::string_view key) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return std::optional<double>();
  if (const auto* value = std::get_if<double>(&entry->value)) return std::optional<double>(*value);
  return WrongType(path_, key, "a float", entry->type);
}

StatusOr<std::optional<bool>> GgufFile::GetBool(std::string_view key) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return std::optional<bool>();
  if (const auto* value = std::get_if<bool>(&entry->value)) return std::optional<bool>(*value);
  return WrongType(path_, key, "a bool", entry->type);
}

StatusOr<std::optional<std::string_view>> GgufFile::GetString(std::string_view key) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return std::optional<std::string_view>();
  if (const auto* value = std::get_if<std::string_view>(&entry->value)) {
    return std::optional<std::string_view>(*value);
  }
  return WrongType(path_, key, "a string", entry->type);
}

StatusOr<const GgufArray*> GgufFile::GetArray(std::string_view key, GgufType element) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return static_cast<const GgufArray*>(nullptr);
  const std::string expected = fmt::format("an array of {}", GgufTypeName(element));
  const auto* value = std::get_if<GgufArray>(&entry->value);
  if (value == nullptr) return WrongType(path_, key, expected.c_str(), entry->type);
  if (value->type != element) return WrongType(path_, key, expected.c_str(), value->type);
  return value;
}

void GgufFile::Release(std::span<const std::byte> data) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  // Only whole pages: the ends may hold a neighbour's bytes. Dropped pages are read again if
  // needed.
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + data.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace ropeway
