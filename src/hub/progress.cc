#include "hub/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ropeway::hub {
namespace {

constexpr std::chrono::milliseconds kBetween(200);
// Overwrites what a longer line has left.
constexpr size_t kLineWidth = 78;

}  // namespace

Progress::Progress(std::string what, bool terminal, Write write, Tell tell)
    : what_(std::move(what)),
      terminal_(terminal),
      write_(std::move(write)),
      tell_(std::move(tell)) {}

void Progress::Start(uint64_t done, uint64_t total) {
  started_ = true;
  first_ = done_ = done;
  total_ = total;
  start_ = shown_at_ = Clock::now();
  shown_tenth_ = total_ == 0 ? 0 : done_ * 10 / total_;
  if (tell_) tell_(what_, done_, total_);
}

void Progress::Set(uint64_t done) {
  done_ = done;
  if (tell_) tell_(what_, done_, total_);
  const Clock::time_point now = Clock::now();
  if (terminal_) {
    if (now - shown_at_ < kBetween) return;
    shown_at_ = now;
    write_(fmt::format("\r{:<{}}", Line(now), kLineWidth));
    return;
  }
  const uint64_t tenth = total_ == 0 ? done_ / 100'000'000 : done_ * 10 / total_;
  if (tenth == shown_tenth_) return;
  shown_tenth_ = tenth;
  write_(Line(now) + "\n");
}

void Progress::End() {
  if (terminal_ && started_) write_(fmt::format("\r{:<{}}\n", Line(Clock::now()), kLineWidth));
  started_ = false;
}

std::string Progress::Line(Clock::time_point now) const {
  const double seconds = std::max(1e-3, std::chrono::duration<double>(now - start_).count());
  const double rate = static_cast<double>(done_ - std::min(first_, done_)) / seconds;
  std::string line = fmt::format("{}  {}", what_, FileSizeText(done_));
  if (total_ > 0) {
    line += fmt::format(" of {}  {} %", FileSizeText(total_), done_ * 100 / total_);
  }
  line += fmt::format("  {}/s", FileSizeText(static_cast<uint64_t>(rate)));
  if (total_ > done_ && rate > 0) {
    const auto left = static_cast<uint64_t>(static_cast<double>(total_ - done_) / rate);
    line += fmt::format("  {}:{:02} left", left / 60, left % 60);
  }
  return line;
}

std::string FileSizeText(uint64_t bytes) {
  const auto of = [bytes](double unit) { return static_cast<double>(bytes) / unit; };
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", of(1e9));
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", of(1e6));
  return fmt::format("{:.0f} kB", of(1e3));
}

}  // namespace ropeway::hub
