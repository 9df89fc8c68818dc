#include "fuzz/fuzz_target.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"

namespace ropeway::fuzz {

void Require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", what.c_str());
  std::abort();
}

void RequireError(const Status& status) {
  const std::string& message = status.message();
  Require(status.code() != StatusCode::kInternal, "the input causes an internal error: " + message);
  Require(!message.empty(), "the error has no message");
  Require(base::IsValidUtf8(message), "the message is not UTF-8: " + message);
  Require(base::IsValidUtf8(status.field()), "the error's field is not UTF-8: " + status.field());
}

void RequirePrintableError(const Status& status) {
  RequireError(status);
  const std::string& message = status.message();
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  Require(std::none_of(message.begin(), message.end(), is_control),
          "the message holds control characters: " + message);
}

MemoryFile::MemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
  Require(
      fd_ >= 0 && fchmod(fd_, 0600) == 0 && write(fd_, data, size) == static_cast<ssize_t>(size),
      "no memory file");
}

MemoryFile::~MemoryFile() { close(fd_); }

}  // namespace ropeway::fuzz
