// Lines that a person types at a terminal: edited, remembered, and pasted as one.
#ifndef ROPEWAY_CLI_LINE_EDITOR_H_
#define ROPEWAY_CLI_LINE_EDITOR_H_

#include <memory>
#include <string>
#include <vector>

#include "cli/terminal.h"

namespace ropeway::cli {

// Messages of earlier chats, in a file that its owner alone can read (0600). At most 1000, of 128
// KiB together; older ones give way, and one of more than 8 KiB is not kept. A file that cannot be
// read or written is none.
class ChatHistory {
 public:
  // `path`: "" for none.
  explicit ChatHistory(std::string path) : path_(std::move(path)) {}

  std::vector<std::string> Load() const;
  // Behind what the file holds by now: another chat may write to it too.
  void Add(const std::string& message) const;

 private:
  const std::string path_;
};

// Reads from standard input and shows on standard error. One line can hold several: what is pasted
// is not cut at its ends of lines. Where these are no terminal that can move its cursor, or it says
// that it has a million characters, a plain LineReader. REQUIRES: SetCharacterLocale was called.
class LineEditor {
 public:
  explicit LineEditor(const std::string& history);
  ~LineEditor();

  // As LineReader::Read, after `prompt`.
  LineReader::Event Read(const std::string& prompt, std::string* line);
  // For the arrow keys, in this chat and later ones.
  void Remember(const std::string& message);

 private:
  struct Terminal;

  const ChatHistory history_;
  LineReader plain_;
  std::unique_ptr<Terminal> terminal_;  // Null: `plain_` reads.
};

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_LINE_EDITOR_H_
