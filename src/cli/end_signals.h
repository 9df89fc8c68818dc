// SIGTERM and SIGINT of a server.
#ifndef ROPEWAY_CLI_END_SIGNALS_H_
#define ROPEWAY_CLI_END_SIGNALS_H_

#include <memory>

namespace ropeway {

// Takes both signals on a thread of its own: while the model loads one of them ends the process at
// once; later the first asks for the end, and a second one, while the first is being served, ends
// the process at once with exit code 1.
class EndSignals {
 public:
  // Call before any other thread starts: all of them inherit the mask that leaves these signals to
  // us. At most one per process.
  EndSignals();

  // From now on a signal asks for the end.
  void SetServing();

  // Blocks until the program is asked to end; replies with the signal's name. Call once.
  const char* Wait();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // Outlived by its thread.
};

}  // namespace ropeway

#endif  // ROPEWAY_CLI_END_SIGNALS_H_
