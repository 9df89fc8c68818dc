#include "base/own_entries.h"

#include <algorithm>
#include <system_error>

namespace ropeway::base {

namespace fs = std::filesystem;

namespace {

bool IsOfFileSystem(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code unknown;
  const fs::file_status status = entry.symlink_status(unknown);
  if (name == "lost+found") return fs::is_directory(status);
  return name.starts_with(".nfs") && fs::is_regular_file(status);
}

}  // namespace

StatusOr<std::string> FindForeignEntry(
    const fs::path& directory, const std::function<bool(const fs::directory_entry&)>& is_own) {
  std::string first;
  std::error_code error;
  for (fs::directory_iterator i(directory, error), end; !error && i != end; i.increment(error)) {
    if (IsOfFileSystem(*i) || is_own(*i)) continue;
    const std::string name = i->path().filename().string();
    if (first.empty() || name < first) first = name;
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status(StatusCode::kUnavailable, "cannot be read: " + error.message());
  }
  return first;
}

bool IsRocksDbName(std::string_view name) {
  for (const std::string_view whole : {"CURRENT", "IDENTITY", "LOCK", "LOG"}) {
    if (name == whole) return true;
  }
  for (const std::string_view begin : {"MANIFEST-", "OPTIONS-", "LOG.old."}) {
    if (name.starts_with(begin)) return true;
  }
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view rest = name.substr(digits);
  return digits > 0 && (rest == ".sst" || rest == ".blob" || rest == ".log" || rest == ".dbtmp");
}

}  // namespace ropeway::base
