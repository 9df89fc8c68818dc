// The output thread: takes what the engine emits, and calls the sinks.
#ifndef ROPEWAY_ENGINE_OUTPUT_PROCESSOR_H_
#define ROPEWAY_ENGINE_OUTPUT_PROCESSOR_H_

#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "engine/engine_core.h"
#include "engine/live_request.h"
#include "engine/request_output.h"
#include "store/session_store.h"

namespace ropeway::engine {

// Only its thread calls sinks, so a sink's calls come one at a time and in order. It ends all
// requests: each one that is passed to Admit or Reject gets exactly one end, also if memory is
// short. Admit, Reject and Emit then wait for memory, and an error in one request's output fails
// that request. The end of a session's turn comes once the turn is stored; other output does not
// wait for that.
//
// Thread rule: Admit, Reject and Emit from any thread; Stop from one, not the output thread.
class OutputProcessor {
 public:
  // Asks the engine to end a request; must not wait.
  using AbortFn = std::function<void(RequestId, FinishReason)>;

  // All pointers must outlive it. Requests that ended are erased from `requests`.
  OutputProcessor(const tokenizer::Tokenizer* tokenizer, const ModelAnswers* answers,
                  EngineMetrics* metrics, const base::Clock* clock, store::SessionStore* sessions,
                  LiveRequests* requests, AbortFn abort);
  ~OutputProcessor();
  OutputProcessor(const OutputProcessor&) = delete;
  OutputProcessor& operator=(const OutputProcessor&) = delete;

  // The request is queued in the engine. Never waits.
  void Admit(std::shared_ptr<LiveRequest> live, const Admission& admission);
  // Ends a request with an error, whether it was admitted or not; without effect after its end.
  // Never waits.
  void Reject(std::shared_ptr<LiveRequest> live, Status status);
  // One step's events, emitted at `at`. Waits while the sinks are far behind the engine.
  void Emit(std::vector<CoreEvent> events, base::TimePoint at);

  // Tells the sinks of requests that are not running, or have had no output, that they are alive.
  void TellAlive();

  // Ends the thread once everything that came before is handled; requests without an end by then
  // are ended as cancelled.
  void Stop();

 private:
  struct Admitted {
    std::shared_ptr<LiveRequest> live;
    Admission admission;
  };
  struct Rejected {
    std::shared_ptr<LiveRequest> live;
    Status status;
  };
  struct Emitted {
    std::vector<CoreEvent> events;
    base::TimePoint at;
  };
  struct Stored {  // A session's turn; if that failed, the store logged it.
    std::shared_ptr<LiveRequest> live;
  };
  struct AliveAsk {};
  using Message = std::variant<Admitted, Rejected, Emitted, Stored, AliveAsk>;

  // Waits for memory alone.
  void Push(Message message);
  void Loop();
  void Handle(Admitted& message);
  void Handle(Rejected& message);
  void Handle(Emitted& message);
  void Handle(Stored& message);
  void Handle(AliveAsk& message);
  void HandleEvent(const CoreEvent& event, base::TimePoint at);
  // kToken, kPromptScored and kPooled.
  void AddOutput(LiveRequest* live, const CoreEvent& event, base::TimePoint at);
  // Ends the request, now or when its session's turn is stored.
  void End(LiveRequest* live, FinishReason reason, base::TimePoint at);
  // Ends what is left after the last message.
  void EndRest();
  // Forgets a request that has ended.
  void Forget(LiveRequest* live);

  const tokenizer::Tokenizer* const tokenizer_;
  const ModelAnswers* const answers_;
  EngineMetrics* const metrics_;
  const base::Clock* const clock_;
  store::SessionStore* const sessions_;
  LiveRequests* const requests_;
  const AbortFn abort_;
  base::BoundedQueue<Message> queue_;
  std::thread thread_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_OUTPUT_PROCESSOR_H_
