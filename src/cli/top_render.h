// The screen of `ropeway top` as lines of text.
#ifndef ROPEWAY_CLI_TOP_RENDER_H_
#define ROPEWAY_CLI_TOP_RENDER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "cli/top_model.h"
#include "cli/top_text.h"

namespace ropeway::cli {

// What the person at the terminal chose, and how the connection is.
struct TopView {
  std::string server = {};  // Its URL.
  double connected = 0;     // For so many seconds.
  std::string lost = {};    // Why there is no connection, and what happens next; "": there is one.
  bool hour = false;        // Percentiles of the last hour in place of the last minute.
  bool paused = false;
  bool keys = true;   // The last line lists the keys.
  size_t scroll = 0;  // The request that stands first.
  Paint paint = Paint::kColors;
};

struct TopScreen {
  std::vector<std::string> lines;
  size_t most_scroll = 0;  // The largest scroll that changes anything.
};

// The screen for a terminal of this size: `height` lines, none of which takes more than `width`
// columns. A height of 0 has as many lines as all requests need. No bytes but those of Paint act on
// a terminal, whatever the server says. REQUIRES: SetCharacterLocale was called.
TopScreen Render(const TopModel& model, const TopView& view, int width, int height);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TOP_RENDER_H_
