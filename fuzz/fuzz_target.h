// Shared by all fuzz targets: libFuzzer's entry point, checks of properties, and files in memory.
#ifndef ROPEWAY_FUZZ_FUZZ_TARGET_H_
#define ROPEWAY_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ropeway/status.h"

// Runs one input through the target. Always returns 0; a broken property ends the process by
// abort(), which both libFuzzer and the replay (replay_main.cc) report with the input's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ropeway::fuzz {

// Prints `what` and aborts unless `holds`.
void Require(bool holds, const std::string& what);

// Checks the error of a rejected input: a code other than kInternal (an input is never a bug of
// ours), and a message in valid UTF-8.
void RequireError(const Status& status);

// Also checks that the message has no control characters: an error about a file goes to a terminal
// or a log as it is.
void RequirePrintableError(const Status& status);

// A file in memory that has a path, for what opens paths only, and that only its owner may read.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace ropeway::fuzz

#endif  // ROPEWAY_FUZZ_FUZZ_TARGET_H_
