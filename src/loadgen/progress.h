// A progress line for the terminal.
#ifndef ROPEWAY_LOADGEN_PROGRESS_H_
#define ROPEWAY_LOADGEN_PROGRESS_H_

#include <cstdio>
#include <string>

namespace ropeway::loadgen {

// Redraws a bar on a terminal; elsewhere prints a line from time to time.
// Thread rule: one thread at a time.
class Progress {
 public:
  // Writes to `out`, which must outlive it.
  Progress(std::FILE* out, bool is_terminal) : out_(out), is_terminal_(is_terminal) {}

  struct State {
    std::string label;
    int total = 0;
    int done = 0;  // Failures included.
    int failed = 0;
    int in_flight = 0;
    double seconds = 0;  // Since the run's start.
  };

  // Seconds between two calls of Show.
  double interval() const { return is_terminal_ ? 0.25 : 5; }
  void Show(const State& state);
  // The last state; the next output begins on a line of its own.
  void End(const State& state);

  static std::string Line(const State& state, int bar_width);

 private:
  std::FILE* const out_;
  const bool is_terminal_;
};

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_PROGRESS_H_
