// Where a command's words go: results to standard output, all else to standard error.
#ifndef ROPEWAY_CLI_OUTPUT_H_
#define ROPEWAY_CLI_OUTPUT_H_

#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway {

// Opens what of the three standard descriptors the caller had closed, so that reads and writes of
// it fail. Else the next file or connection takes its number, and the log is written into it.
// Before anything else is opened.
void HoldStandardDescriptors();

// Prints one sentence for a person; the reply is the program's exit code, 1.
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

  // The exit code of a command whose answer is its output: half of it is no success. A reader that
  // went away (`| head`) is told nothing; anything else that failed is a sentence.
  int End() const;

 private:
  bool ok_ = true;
  bool reader_gone_ = false;
};

// The same for a command that wrote to std::cout.
int EndStandardOutput();

}  // namespace ropeway

#endif  // ROPEWAY_CLI_OUTPUT_H_
