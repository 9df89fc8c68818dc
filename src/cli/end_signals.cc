#include "cli/end_signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

namespace ropeway {

struct EndSignals::State {
  std::atomic<bool> serving = false;
  std::promise<int> first;
};

EndSignals::EndSignals() : state_(std::make_shared<State>()) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, state = state_] {
    int signal = 0;
    sigwait(&signals, &signal);
    if (!state->serving) _exit(0);
    state->first.set_value(signal);
    sigwait(&signals, &signal);
    _exit(1);
  }).detach();
}

void EndSignals::SetServing() { state_->serving = true; }

const char* EndSignals::Wait() {
  return state_->first.get_future().get() == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace ropeway
