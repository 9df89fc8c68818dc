#include "base/private_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace ropeway {

std::error_code MakePrivateDirectory(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path made;
  for (const fs::path& part : path) {
    made /= part;
    if (fs::create_directory(made, error)) fs::permissions(made, fs::perms::owner_all, error);
    if (error) break;
  }
  return error;
}

std::FILE* OpenPrivateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  std::FILE* const file = fdopen(fd, "w");
  if (file != nullptr) return file;
  const int why = errno;
  close(fd);
  errno = why;
  return nullptr;
}

}  // namespace ropeway
