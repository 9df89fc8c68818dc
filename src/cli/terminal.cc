#include "cli/terminal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cwchar>

#include "base/utf8.h"

namespace ropeway::cli {
namespace {

// A bit for each signal that came. A descriptor wakes the thread that waits, because a flag alone
// could be set just before the wait begins.
std::atomic<uint64_t> came = 0;
static_assert(std::atomic<uint64_t>::is_always_lock_free);  // So a signal handler may set it.
int wake = -1;

// A word of so many lines, in bytes, is shown before it ends.
constexpr size_t kWordLines = 4;

bool EndsProgram(int signal) { return signal == SIGTERM || signal == SIGHUP; }

void OnSignal(int signal) {
  const int error = errno;
  came |= uint64_t{1} << signal;
  eventfd_write(wake, 1);
  // A terminal that was stopped (Ctrl-S) goes on, or what restores it would wait. The system starts
  // again only what the same call has stopped.
  if (EndsProgram(signal)) {
    tcflow(STDERR_FILENO, TCOOFF);
    tcflow(STDERR_FILENO, TCOON);
  }
  errno = error;
}

winsize SizeOf(int descriptor) {
  winsize size = {};
  return isatty(descriptor) != 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size : winsize{};
}

}  // namespace

CaughtSignals::CaughtSignals(std::initializer_list<int> signals) {
  if (wake < 0) wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaddset(&action.sa_mask, SIGTTOU);  // Else tcflow stops a program in the background.
  for (const int signal : signals) {
    // No system call of another thread fails (SA_RESTART). A signal that ends the program waits
    // for a terminal that takes no output: a second one ends it at once.
    action.sa_flags = SA_RESTART | (EndsProgram(signal) ? static_cast<int>(SA_RESETHAND) : 0);
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // As it stays.
    before_.emplace_back(signal, before);
    sigaction(signal, &action, nullptr);
  }
}

CaughtSignals::~CaughtSignals() {
  for (const auto& [signal, action] : before_) {
    sigaction(signal, &action, nullptr);
    if (Take(signal)) raise(signal);
  }
}

bool CaughtSignals::Take(int signal) {
  const uint64_t bit = uint64_t{1} << signal;
  return (came.fetch_and(~bit) & bit) != 0;
}

bool WaitForInput(int descriptor) {
  while (came == 0) {
    std::array<pollfd, 2> ready = {{{descriptor, POLLIN, 0}, {wake, POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0) continue;
    if (ready[1].revents == 0) return true;
    eventfd_t times = 0;
    eventfd_read(wake, &times);
  }
  return false;
}

bool WaitForInput(std::initializer_list<int> descriptors, std::chrono::milliseconds patience) {
  std::vector<pollfd> ready = {{wake, POLLIN, 0}};
  for (const int descriptor : descriptors) ready.push_back({descriptor, POLLIN, 0});
  if (came == 0) poll(ready.data(), ready.size(), static_cast<int>(patience.count()));
  if (ready[0].revents != 0) {
    eventfd_t times = 0;
    eventfd_read(wake, &times);
  }
  return came == 0;
}

LineReader::Event LineReader::Read(std::string* line) {
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      *line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Event::kLine;
    }
    if (!WaitForInput(descriptor_) && CaughtSignals::Take(SIGINT)) {
      buffer_.clear();
      return Event::kInterrupted;
    }
    std::array<char, 4096> chunk;
    const ssize_t count = read(descriptor_, chunk.data(), chunk.size());
    if (count > 0) {
      buffer_.append(chunk.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      if (buffer_.empty()) return Event::kEnd;
      line->swap(buffer_);
      buffer_.clear();
      return Event::kLine;
    }
  }
}

bool IsReadableWithin(int descriptor, std::chrono::milliseconds patience) {
  pollfd ready = {descriptor, POLLIN, 0};
  return poll(&ready, 1, static_cast<int>(patience.count())) > 0;
}

bool ReadAll(int descriptor, size_t most, std::string* text) {
  std::array<char, 1 << 16> chunk;
  text->clear();
  while (true) {
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count == 0) return true;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || text->size() + static_cast<size_t>(count) > most) return false;
    text->append(chunk.data(), static_cast<size_t>(count));
  }
}

std::string ForTerminal(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xC2 && next >= 0x80 && next <= 0x9F) {  // U+0080 to U+009F.
      ++i;
    } else if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7F)) {
      safe += text[i];
    }
  }
  return safe;
}

int ColumnsOf(int descriptor) { return SizeOf(descriptor).ws_col; }

int RowsOf(int descriptor) { return SizeOf(descriptor).ws_row; }

void SetCharacterLocale() {
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

std::string WordWrap::Take(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    const std::string_view one = text.substr(at, step.length);
    at += step.length;
    if (one == "\n") {
      EndWord(&out);
      out += '\n';
      column_ = indent_ = 0;
      begins_ = true;
    } else if (one == " ") {
      EndWord(&out);
      if (begins_) ++indent_;
      if (keeps_line() || column_ < columns_) out += ' ';
      ++column_;
    } else {
      // Less than 0: not known, so one.
      const int columns = std::abs(wcwidth(static_cast<wchar_t>(step.code_point)));
      word_ += one;
      word_columns_ += columns;
      // Wide characters need no spaces between words; and a line that is kept needs no delay.
      const bool fence = begins_ && word_.starts_with('`');
      const bool long_word = word_.size() > kWordLines * static_cast<size_t>(columns_);
      if (columns == 2 || (keeps_line() && !fence) || long_word) EndWord(&out);
      if (long_word) goes_on_ = true;
    }
  }
  return out;
}

std::string WordWrap::End() {
  std::string out;
  EndWord(&out);
  return out;
}

void WordWrap::EndWord(std::string* out) {
  const bool goes_on = std::exchange(goes_on_, false);
  if (word_.empty()) return;
  if (begins_ && word_.starts_with("```")) in_code_ = !in_code_;
  begins_ = false;
  if (!goes_on && !keeps_line() && column_ > 0 && column_ + word_columns_ > columns_ &&
      word_columns_ <= columns_) {
    *out += '\n';
    column_ = 0;
  }
  *out += word_;
  column_ += word_columns_;
  word_.clear();
  word_columns_ = 0;
}

}  // namespace ropeway::cli
