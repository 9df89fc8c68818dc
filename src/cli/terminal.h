// The terminal: input lines, Ctrl-C, and text that is safe to print.
#ifndef ROPEWAY_CLI_TERMINAL_H_
#define ROPEWAY_CLI_TERMINAL_H_

#include <chrono>
#include <string>
#include <string_view>

namespace ropeway::cli {

// Turns SIGINT from the end of the process into a flag. At most one at a time.
class Interrupts {
 public:
  // Threads that are started between the constructor and Unblock do not get the signal.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // From now on this thread gets the signal; a blocking read of it ends with EINTR.
  void Unblock();

  // Whether Ctrl-C came since the last call.
  static bool Take();
};

// Reads lines from a file descriptor without buffering ahead of the terminal.
class LineReader {
 public:
  enum class Event { kLine, kEnd, kInterrupted };

  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  // kLine: `*line` is the next line, without its end. kEnd: Ctrl-D, or nothing more can be read.
  // kInterrupted: Ctrl-C; the line typed so far is dropped.
  Event Read(std::string* line);

 private:
  const int descriptor_;
  std::string buffer_;
};

// Whether bytes, or the end, can be read from a file descriptor within `patience`.
bool IsReadableWithin(int descriptor, std::chrono::milliseconds patience);

// Reads a file descriptor to its end; false if that is more than `most` bytes, or reading fails.
bool ReadAll(int descriptor, size_t most, std::string* text);

// `text` (UTF-8) without the control characters that move a terminal's cursor or change its state,
// so that a model's output cannot act on the terminal. Line breaks and tabs stay.
std::string ForTerminal(std::string_view text);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TERMINAL_H_
