#include "loadgen/progress.h"

#include <fmt/format.h>

namespace ropeway::loadgen {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

std::string Progress::Line(const State& state, int bar_width) {
  const int filled =
      state.total > 0 ? static_cast<int>(static_cast<double>(state.done) / state.total * bar_width)
                      : 0;
  const std::string bar =
      bar_width > 0 ? fmt::format(" [{:-<{}}]", std::string(filled, '#'), bar_width) : "";
  std::string line = fmt::format("{}{} {}/{}, {} in flight, {:.0f} s", state.label, bar, state.done,
                                 state.total, state.in_flight, state.seconds);
  if (state.failed > 0) line += fmt::format(", {} failed", state.failed);
  return line;
}

void Progress::Show(const State& state) {
  if (is_terminal_) {
    // Back to the line's start; what an older, longer line left is erased.
    std::fputs(fmt::format("\r{}\x1b[K", Line(state, kBarWidth)).c_str(), out_);
  } else {
    std::fputs((Line(state, 0) + "\n").c_str(), out_);
  }
  std::fflush(out_);
}

void Progress::End(const State& state) {
  Show(state);
  if (is_terminal_) std::fputs("\n", out_);
  std::fflush(out_);
}

}  // namespace ropeway::loadgen
