// How far a download is, on standard error.
#ifndef ROPEWAY_HUB_PROGRESS_H_
#define ROPEWAY_HUB_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ropeway::hub {

// On a terminal one line that is overwritten, a few times a second; otherwise a line for each
// tenth.
class Progress {
 public:
  using Write = std::function<void(std::string_view text)>;

  // Called for each piece that comes. `what`: the name in the line; `total`: 0 if it is not known.
  using Tell = std::function<void(const std::string& what, uint64_t done, uint64_t total)>;

  // `what`: the name in the line.
  Progress(std::string what, bool terminal, Write write, Tell tell = nullptr);

  // `total`: bytes; 0 if that is not known.
  void Start(uint64_t done, uint64_t total);
  void Set(uint64_t done);
  // Ends the line, if there is one. Start may follow.
  void End();

 private:
  using Clock = std::chrono::steady_clock;
  std::string Line(Clock::time_point now) const;

  const std::string what_;
  const bool terminal_;
  const Write write_;
  const Tell tell_;  // Null: nothing is told.
  bool started_ = false;
  uint64_t total_ = 0;
  uint64_t first_ = 0;  // Done at Start.
  uint64_t done_ = 0;
  uint64_t shown_tenth_ = 0;
  Clock::time_point start_;
  Clock::time_point shown_at_;
};

// Decimal units, as files are measured: "253.0 MB".
std::string FileSizeText(uint64_t bytes);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_PROGRESS_H_
