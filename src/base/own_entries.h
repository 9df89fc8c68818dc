// What in a directory is Ropeway's own, and what somebody else's.
#ifndef ROPEWAY_BASE_OWN_ENTRIES_H_
#define ROPEWAY_BASE_OWN_ENTRIES_H_

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway::base {

// The first entry of the directory, by name, of which `is_own` says no; "" where there is none.
// The directory lost+found and files .nfs*, which file systems make, are nobody's. A directory that
// does not exist has none. Of one that cannot be read to its end nobody knows: kUnavailable, whose
// message is the end of a sentence about it.
StatusOr<std::string> FindForeignEntry(
    const std::filesystem::path& directory,
    const std::function<bool(const std::filesystem::directory_entry&)>& is_own);

// Whether RocksDB gives this name to a file of a database.
bool IsRocksDbName(std::string_view name);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_OWN_ENTRIES_H_
