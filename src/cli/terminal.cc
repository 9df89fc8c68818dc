#include "cli/terminal.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace ropeway::cli {
namespace {

volatile std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // So a signal handler may set it.

void OnInterrupt(int) { interrupted = true; }

void SetBlocked(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(how, &signals, nullptr);
}

}  // namespace

Interrupts::Interrupts() {
  SetBlocked(SIG_BLOCK);
  interrupted = false;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;  // Without SA_RESTART: a read shall end.
  sigaction(SIGINT, &action, nullptr);
}

Interrupts::~Interrupts() {
  signal(SIGINT, SIG_DFL);
  SetBlocked(SIG_UNBLOCK);
}

void Interrupts::Unblock() { SetBlocked(SIG_UNBLOCK); }

bool Interrupts::Take() { return interrupted.exchange(false); }

LineReader::Event LineReader::Read(std::string* line) {
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      *line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Event::kLine;
    }
    if (Interrupts::Take()) {
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

}  // namespace ropeway::cli
