// The terminal of `ropeway top`: its modes, what is drawn on it, and its keys.
#ifndef ROPEWAY_CLI_TOP_SCREEN_H_
#define ROPEWAY_CLI_TOP_SCREEN_H_

#include <termios.h>

#include <string>
#include <vector>

namespace ropeway::cli {

enum class TopKey { kQuit, kMinute, kHour, kPause, kUp, kDown, kPageUp, kPageDown, kHome, kEnd };

// Takes the keys that `*typed` begins with; others are skipped. The beginning of a sequence whose
// rest has not come stays.
std::vector<TopKey> TakeKeys(std::string* typed);

// Whether standard input and output are a terminal that can be drawn on.
bool HasTopTerminal();

// While it lives, the terminal of standard input and output shows the screen in place of what it
// showed, and keys come one by one, without echo; Ctrl-C and Ctrl-Z stay signals.
class TopTerminal {
 public:
  TopTerminal();
  ~TopTerminal() { Leave(); }
  TopTerminal(const TopTerminal&) = delete;
  TopTerminal& operator=(const TopTerminal&) = delete;

  // For a stop (Ctrl-Z): the terminal is as it was, until Enter.
  void Leave();
  void Enter();

  // Shows these lines; only those that differ from the ones before are written. False: nothing can
  // be written any more.
  bool Draw(const std::vector<std::string>& lines);
  // The next Draw writes all lines: the terminal has another size.
  void Forget() { shown_.clear(); }
  // Appends what was typed; waits for nothing where a byte is there. False: the terminal is gone.
  static bool Read(std::string* typed);

 private:
  termios before_ = {};
  bool entered_ = false;
  std::vector<std::string> shown_;
};

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TOP_SCREEN_H_
