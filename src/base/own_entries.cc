#include "base/own_entries.h"

#include <algorithm>
#include <system_error>

namespace ropeway::base {

namespace fs = std::filesystem;

StatusOr<std::string> FindForeignEntry(
    const fs::path& directory, const std::function<bool(const fs::directory_entry&)>& is_own) {
  std::string first;
  std::error_code error;
  for (fs::directory_iterator i(directory, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    const bool of_file_system = name == "lost+found" || name.starts_with(".nfs");
    if (of_file_system || is_own(*i)) continue;
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
