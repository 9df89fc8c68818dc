// The output thread: takes what the engine emits, and calls the sinks.
#ifndef ROPEWAY_ENGINE_OUTPUT_PROCESSOR_H_
#define ROPEWAY_ENGINE_OUTPUT_PROCESSOR_H_

#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "engine/engine_core.h"
#include "engine/live_request.h"
#include "engine/request_output.h"
#include "store/session_store.h"

namespace ropeway {

// The only one to call a sink, so its calls come one at a time and in order. Each request that is
// passed to Admit or Refuse gets exactly one end, also where memory is short: Admit, Refuse and
// Emit then wait for it, and what fails in one request's output fails that request. The end of a
// session's turn comes once the turn is stored; nobody else's output waits for that.
//
// Thread rule: Admit, Refuse and Emit from any thread; Stop from one, not the output thread.
class OutputProcessor {
 public:
  // Asks the engine to end a request; must not wait.
  using AskFinishFn = std::function<void(RequestId, FinishReason)>;
  // The request has had its end, and its sink is dropped.
  using EndedFn = std::function<void(RequestId)>;

  // All pointers must outlive it.
  OutputProcessor(const Tokenizer* tokenizer, EngineMetrics* metrics, const Clock* clock,
                  SessionStore* sessions, AskFinishFn ask_finish, EndedFn ended);
  ~OutputProcessor();
  OutputProcessor(const OutputProcessor&) = delete;
  OutputProcessor& operator=(const OutputProcessor&) = delete;

  // The request is queued in the engine. Never waits.
  void Admit(std::shared_ptr<LiveRequest> live, const Admission& admission);
  // Ends a request with an error, whether it was admitted or not; without effect after its end.
  // Never waits.
  void Refuse(std::shared_ptr<LiveRequest> live, Status status);
  // One step's events, emitted at `at`. Waits while the sinks are far behind the engine.
  void Emit(std::vector<CoreEvent> events, TimePoint at);

  // Ends the thread once all that came before is worked off; requests without an end by then are
  // ended as cancelled.
  void Stop();

 private:
  struct Admitted {
    std::shared_ptr<LiveRequest> live;
    Admission admission;
  };
  struct Refused {
    std::shared_ptr<LiveRequest> live;
    Status status;
  };
  struct Emitted {
    std::vector<CoreEvent> events;
    TimePoint at;
  };
  struct Stored {  // A session's turn, or it could not be: the store says so in the log.
    RequestId id;
  };
  using Message = std::variant<Admitted, Refused, Emitted, Stored>;

  void Loop();
  void Handle(Admitted& message);
  void Handle(Refused& message);
  void Handle(Emitted& message);
  void Handle(Stored& message);
  void HandleEvent(const CoreEvent& event, TimePoint at);
  // kToken and kPromptScored.
  void AddOutput(RequestOutput* output, const CoreEvent& event, TimePoint at);
  // Ends the request, now or when its session's turn is stored.
  void End(RequestOutput* output, RequestId id, FinishReason reason, TimePoint at);
  // Forgets an ended request and reports its end.
  void Forget(RequestId id);

  const Tokenizer* const tokenizer_;
  EngineMetrics* const metrics_;
  const Clock* const clock_;
  SessionStore* const sessions_;
  const AskFinishFn ask_finish_;
  const EndedFn ended_;
  BoundedQueue<Message> queue_;
  std::unordered_map<RequestId, RequestOutput> outputs_;  // The output thread's.
  std::thread thread_;
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_OUTPUT_PROCESSOR_H_
