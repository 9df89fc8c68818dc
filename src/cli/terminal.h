// The terminal: input lines, signals, and text that is safe to print.
#ifndef ROPEWAY_CLI_TERMINAL_H_
#define ROPEWAY_CLI_TERMINAL_H_

#include <signal.h>

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropeway::cli {

// While it lives, these signals do nothing but end WaitForInput, until they are taken; those that
// were ignored stay so. They may reach any thread; one thread makes it, waits and takes. With
// SIGTERM and SIGHUP a terminal goes on that was stopped.
class CaughtSignals {
 public:
  explicit CaughtSignals(std::initializer_list<int> signals);
  // What came and was not taken does now what it did before.
  ~CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

  // Whether it came since the last call.
  static bool Take(int signal);

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

// Waits until bytes, or the end, can be read from a file descriptor. False: a caught signal came
// that is not taken.
bool WaitForInput(int descriptor);
// The same with one of several descriptors, and at most for so long.
bool WaitForInput(std::initializer_list<int> descriptors, std::chrono::milliseconds patience);

// Reads lines from a file descriptor without buffering ahead of the terminal.
class LineReader {
 public:
  enum class Event { kLine, kEnd, kInterrupted };

  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  // kLine: `*line` is the next line, without its end. kEnd: Ctrl-D, or nothing more can be read.
  // kInterrupted: Ctrl-C, which is caught; the line typed so far is dropped.
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

// The columns of the terminal at this descriptor; 0: not known, or it is none.
int ColumnsOf(int descriptor);
// Its lines.
int RowsOf(int descriptor);

// Takes the text of terminals for UTF-8, as everywhere in Ropeway, where the environment names no
// encoding. Call before other threads start.
void SetCharacterLocale();

// Breaks a text's lines at spaces, so that no word is cut at the terminal's edge. Lines that are
// indented by four spaces and those between ``` stay as they are: code.
// REQUIRES: SetCharacterLocale was called.
class WordWrap {
 public:
  // `columns`: 0 breaks none.
  explicit WordWrap(int columns) : columns_(columns) {}

  // What can be shown by now, after the next part of the text (UTF-8).
  std::string Take(std::string_view text);
  // The rest: a word that may have had no end.
  std::string End();

 private:
  void EndWord(std::string* out);
  bool keeps_line() const { return columns_ == 0 || in_code_ || indent_ >= 4; }

  const int columns_;
  int column_ = 0;      // Behind what is shown.
  int indent_ = 0;      // Spaces at the line's beginning.
  bool begins_ = true;  // Nothing but spaces is in the line.
  bool in_code_ = false;
  std::string word_;      // Not shown yet.
  bool goes_on_ = false;  // The beginning of this word is shown already.
  int word_columns_ = 0;
};

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TERMINAL_H_
