// Standard output and standard error of a command: results go to the first, all else to the second.
#ifndef ROPEWAY_BASE_OUTPUT_H_
#define ROPEWAY_BASE_OUTPUT_H_

#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway::base {

// Opens the standard descriptors that are closed: as an empty input, and as outputs to which writes
// fail. Otherwise the next file or connection would take their number, and the log would be written
// into it. Call before anything else is opened.
void HoldStandardDescriptors();

// Prints one sentence, or a list, to standard error: its beginning and its end where it is long,
// and no control characters. Returns the program's exit code, 1.
int Fail(const std::string& sentence);
int Fail(const Status& status);

// Writes to standard error, unbuffered; what cannot be written there is lost.
void Note(std::string_view text);

// Standard output, unbuffered. Thread rule: one thread at a time.
class Output {
 public:
  // False once something could not be written; nothing more is written then.
  bool Write(std::string_view text);
  bool ok() const { return ok_; }

  // Returns the exit code of a command whose result is its output: 1 if part of it is lost. Prints
  // a sentence then, unless the reader went away (`| head`).
  int End() const;

 private:
  bool ok_ = true;
  bool reader_gone_ = false;
};

// The same for a command that wrote to std::cout.
int EndStandardOutput();

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_OUTPUT_H_
