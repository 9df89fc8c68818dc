// Stored answers that the backend does not have: of an earlier process, of a server that was lost,
// or more than the backend lets wait. Which of them is handed to it next, and when.
#ifndef ROPEWAY_SERVER_ANSWER_QUEUE_H_
#define ROPEWAY_SERVER_ANSWER_QUEUE_H_

#include <chrono>
#include <compare>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ropeway/request.h"
#include "server/stored_answer.h"
#include "server/stored_run.h"

namespace ropeway::server {

// One of them.
struct WaitingAnswer {
  using TimePoint = std::chrono::steady_clock::time_point;

  std::shared_ptr<StoredRun> run;
  std::vector<StoredChoice> choices;  // What it has so far.
  TimePoint since = std::chrono::steady_clock::now();
  std::chrono::milliseconds pause{0};  // Before the next try, which is at:
  TimePoint next{};
  bool needs_turn = false;         // It has no right to change its conversation yet.
  std::vector<size_t> unfinished;  // The choices to be generated, once that is known.
  std::vector<Request> requests;   // Theirs.
};

// Those of one tenant and class keep their order, and do not hold up those of others. A few are
// tried at once, since whether the backend takes one is known later; when it has rejected one, the
// next are tried after a pause that grows from kTick to kMostPause. Thread rule: one at a time.
class AnswerQueue {
 public:
  using TimePoint = WaitingAnswer::TimePoint;
  // How often TakeDue is called.
  static constexpr std::chrono::milliseconds kTick{250};
  static constexpr std::chrono::milliseconds kMostPause{5000};
  static constexpr size_t kMostTried = 8;

  struct Flow {
    std::string tenant;
    Priority priority = Priority::kMedium;
    auto operator<=>(const Flow&) const = default;
  };
  static Flow FlowOf(const StoredRun& run);

  // Puts an answer where its age places it.
  void Add(WaitingAnswer waiting);
  // Whether some wait whose turn is before that of a new answer.
  bool HasWaiting(const Flow& flow) const;
  // Takes those out that are to be handed to the backend now.
  std::vector<WaitingAnswer> TakeDue(TimePoint now);
  // Takes this one out, if it is there.
  void Remove(const StoredRun& run);
  // Takes all out.
  std::vector<WaitingAnswer> TakeAll();

 private:
  struct Line {
    std::deque<WaitingAnswer> waiting;              // The oldest first.
    std::vector<std::shared_ptr<StoredRun>> tried;  // Whether they are taken is not known.
    std::chrono::milliseconds pause{0};
    TimePoint next{};  // No other is tried before.

    void LookAtTried(TimePoint now);
  };
  std::map<Flow, Line> lines_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_ANSWER_QUEUE_H_
