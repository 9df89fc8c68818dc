// The lines of a file that was written by others.
#ifndef ROPEWAY_BENCH_TEXT_LINES_H_
#define ROPEWAY_BENCH_TEXT_LINES_H_

#include <fstream>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway {

// Reads line after line and leaves out empty ones. Thread rule: one thread at a time.
class TextLines {
 public:
  explicit TextLines(const std::string& path) : path_(path), file_(path) {}

  bool open() const { return file_.is_open(); }

  // Goes to the next line; false where there is none.
  bool Next();
  const std::string& text() const { return line_; }

  // What is wrong with the file, for a person.
  Status Unreadable() const;
  Status Wrong(std::string_view what) const;  // In the line where we are.
  Status Empty() const;

 private:
  const std::string path_;
  std::ifstream file_;
  std::string line_;
  int number_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_TEXT_LINES_H_
