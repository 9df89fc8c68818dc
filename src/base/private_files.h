// Files and directories that hold what users said: made for their owner alone.
#ifndef ROPEWAY_BASE_PRIVATE_FILES_H_
#define ROPEWAY_BASE_PRIVATE_FILES_H_

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace ropeway {

// Makes what is missing of the path, for the owner alone (0700); what is there stays as it is.
std::error_code MakePrivateDirectory(const std::filesystem::path& path);

// Opens a file to be written from its beginning, made for the owner alone (0600) where it is new.
// Null: errno says why. Closed by the caller, and by exec.
std::FILE* OpenPrivateFile(const std::string& path);

}  // namespace ropeway

#endif  // ROPEWAY_BASE_PRIVATE_FILES_H_
