// One accepted request on its way through the engine's threads.
#ifndef ROPEWAY_ENGINE_LIVE_REQUEST_H_
#define ROPEWAY_ENGINE_LIVE_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/byte_budget.h"
#include "base/clock.h"
#include "engine/backend.h"
#include "engine/live_turn.h"
#include "ropeway/request.h"

namespace ropeway {

// Shared by the threads that a request passes; each field says whose it is.
struct LiveRequest {
  // Where the request is. Left by one compare-and-exchange, so that of a cancel and the hand-over
  // to the engine exactly one wins.
  enum class Stage : uint8_t {
    kFrontEnd,  // Not yet handed to the engine thread.
    kEngine,    // Handed over: only the engine thread ends it now.
    kEnded,     // Ended in the front end: refused or cancelled.
  };

  // Set before the request is shared, read by all.
  RequestId id = 0;
  uint64_t seed = 0;
  TimePoint arrival{};
  TimePoint deadline = TimePoint::max();  // It fails with kDeadlineExceeded then.
  std::string tenant;
  Priority priority = Priority::kMedium;
  std::unique_ptr<LiveTurn> turn;  // Of the session that the request names; null: none.

  ByteBudget::Hold bytes;            // What `request` takes of LlmEngineConfig::max_request_bytes.
  Request request;                   // The front end's until kEngine, then the output thread's.
  std::shared_ptr<OutputSink> sink;  // The output thread's.
  // The engine thread's until it started, then constant; see Finish.
  TimePoint started{};
  Duration formation{};
  uint64_t batch = 0;
  int32_t batch_size = 0;

  std::atomic<Stage> stage{Stage::kFrontEnd};
  std::atomic<bool> cancel_asked{false};
  std::atomic<bool> counted_as_queued{true};
  std::atomic<bool> preempted{false};  // And has had no token since.

  // As of now; from any thread.
  RequestInfo::State state() const {
    if (!counted_as_queued) {
      return preempted ? RequestInfo::State::kPreempted : RequestInfo::State::kRunning;
    }
    return stage == Stage::kFrontEnd ? RequestInfo::State::kEncoding : RequestInfo::State::kWaiting;
  }

  // True for the one caller that ends the request in the front end.
  bool EndInFrontEnd() {
    Stage expected = Stage::kFrontEnd;
    return stage.compare_exchange_strong(expected, Stage::kEnded);
  }
  // True if the request is the engine thread's from now on; false if it was ended before.
  bool HandOver() {
    Stage expected = Stage::kFrontEnd;
    return stage.compare_exchange_strong(expected, Stage::kEngine);
  }
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_LIVE_REQUEST_H_
