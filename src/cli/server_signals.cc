#include "cli/server_signals.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace ropeway::cli {
namespace {

// Logs directly, because the process does not wait for the log's queue. It does not wait long: the
// reader of the log may be gone. Nothing that fails here keeps the process from its end.
void LogStopped() {
  try {
    // The main thread may put another log in its place meanwhile.
    const std::shared_ptr<spdlog::logger> held = spdlog::default_logger();
    const spdlog::logger& log = held->name().empty() ? base::Log() : *held;
    const auto direct =
        std::make_shared<spdlog::logger>(log.name(), log.sinks().begin(), log.sinks().end());
    direct->set_level(log.level());
    base::EndsInTime([direct] { direct->info(kStopped, 0); });
  } catch (const std::exception&) {
  }
}

}  // namespace

struct ServerSignals::State {
  std::atomic<bool> serving = false;
  std::promise<int> first;
  std::atomic<bool> hung_up = false;  // A SIGHUP came since the last reload began.
  std::mutex mutex;                   // Held while a reload is applied, never while files are read.
  bool over = false;                  // The server may be gone. GUARDED_BY(mutex)

  // Whether there may be another one.
  bool Reload(const Read& read) {
    try {
      const Apply apply = read();
      const std::lock_guard lock(mutex);
      if (!over) apply();
      return !over;
    } catch (const std::exception& e) {
      const std::lock_guard lock(mutex);
      if (!over)
        base::TryLog(spdlog::level::err, "SIGHUP: reload failed, nothing was changed: {}",
                     e.what());
      return !over;
    }
  }
};

ServerSignals::ServerSignals() : state_(std::make_shared<State>()) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, state = state_] {
    for (int ends = 0; true;) {
      int signal = 0;
      sigwait(&signals, &signal);
      if (signal == SIGHUP) {
        state->hung_up = true;
        state->hung_up.notify_one();
        continue;
      }
      if (!state->serving) {
        LogStopped();
        _exit(0);
      }
      if (++ends > 1) _exit(1);
      state->first.set_value(signal);
    }
  }).detach();
}

void ServerSignals::SetServing() { state_->serving = true; }

void ServerSignals::StartReloads(Read read) {
  std::thread([state = state_, read = std::move(read)] {
    do {
      state->hung_up.wait(false);
      state->hung_up = false;  // Before the files are read: a later change is another reload.
    } while (state->Reload(read));
  }).detach();
}

void ServerSignals::EndReloads() {
  const std::lock_guard lock(state_->mutex);
  state_->over = true;
}

const char* ServerSignals::Wait() {
  return state_->first.get_future().get() == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace ropeway::cli
