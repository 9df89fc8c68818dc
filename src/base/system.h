// Small files, files for their owner alone, what in a directory is Ropeway's own, and the limit on
// open files.
#ifndef ROPEWAY_BASE_SYSTEM_H_
#define ROPEWAY_BASE_SYSTEM_H_

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "ropeway/status.h"

namespace ropeway::base {

// The file's first `most` + 1 bytes: a longer result means that it is too large. nullopt: it cannot
// be read.
std::optional<std::string> ReadFile(const std::string& path, size_t most);

// The first `most` + 1 bytes of a regular file. It fails on other files, so it never waits for a
// pipe's writer. The message says why: "it is not a regular file", or the system's reason.
StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most);

// Creates the directories of the path that are missing, for the owner alone (0700). Existing ones
// keep their mode.
std::error_code MakePrivateDirectory(const std::filesystem::path& path);

// Opens a file for writing, truncated; a new one is for the owner alone (0600). Null on failure,
// with errno set. The caller closes it; exec does too.
std::FILE* OpenPrivateFile(const std::string& path);

// Puts a new file with this text in the place of what has the name, unless that is a directory. A
// link is replaced itself; the file that it leads to stays as it is. After a failure there may be
// no file.
bool ReplaceFile(const std::string& path, std::string_view text);

// Raises the soft limit on descriptors (RLIMIT_NOFILE; usually 1,024) to the hard one, since each
// connection takes a descriptor. No effect if the system rejects it. Thread-safe.
void RaiseDescriptorLimit();

// How many descriptors this process may have open. Thread-safe.
int64_t DescriptorLimit();

// The first entry of the directory, by name, for which `is_own` returns false; "" where there is
// none, as in a directory that does not exist. The directory lost+found and files .nfs*, which file
// systems make, do not count. kUnavailable if the directory cannot be read to its end; the message
// is the end of a sentence about it.
StatusOr<std::string> FindForeignEntry(
    const std::filesystem::path& directory,
    const std::function<bool(const std::filesystem::directory_entry&)>& is_own);

// Whether RocksDB gives this name to a file of a database.
bool IsRocksDbName(std::string_view name);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_SYSTEM_H_
