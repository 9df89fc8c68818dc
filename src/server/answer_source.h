// Where the sender of an answer takes its output from: a request at the backend (Submission), or a
// stored answer, under way or complete (RunWatcher).
#ifndef ROPEWAY_SERVER_ANSWER_SOURCE_H_
#define ROPEWAY_SERVER_ANSWER_SOURCE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "api/api_format.h"
#include "base/shared_budget.h"
#include "ropeway/backend.h"

namespace ropeway::server {

// What is known so far of a choice's tokens and times, for the log.
struct AnswerFacts {
  bool admitted = false;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated = 0;
  std::optional<std::chrono::nanoseconds> queue;  // Time in the queue; known at the end.
  std::optional<std::chrono::nanoseconds> first;  // From its submission to the first token.
};

// The choices of one answer. Thread rule: the connection's strand.
class AnswerSource {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // What arrived since the last Take. Nothing follows once `end` was taken.
  struct Output {
    bool admitted = false;  // It is admitted, now or earlier.
    std::vector<Delta> deltas;
    std::optional<Outcome> end;
    bool breaks_off = false;  // A stream is cut there, without an end.
    // The whole choice, where the source keeps it in its parts; then there are no deltas.
    std::optional<api::ChoiceOutput> whole;
    base::SharedBudget::Hold held;  // For the deltas' memory.
  };
  // How far a choice is.
  struct Progress {
    bool admitted = false;
    bool ended = false;
    bool failed = false;  // It ended so, or was cancelled before it was admitted.
  };

  virtual ~AnswerSource() = default;

  virtual size_t size() const = 0;
  // Whether the choice's end was taken.
  virtual bool ended(size_t choice) const = 0;
  // Takes nothing, but like Take asks to be woken by what comes next. REQUIRES: !ended(choice).
  virtual Progress Look(size_t choice) = 0;
  // Of an answer that is sent whole, all output is one delta, or `whole`. REQUIRES: !ended(choice).
  virtual Output Take(size_t choice) = 0;
  virtual AnswerFacts facts(size_t choice) const = 0;
  // Goes on with what waits for others of the same answer. Returns when to call again, though
  // nothing wakes.
  virtual Time Advance() { return Time::max(); }
  // Admission's, of the first choice; absent before the request is admitted.
  virtual std::optional<int32_t> queue_position() = 0;
  // Whether a choice was ended because the tenant's answers take too much memory.
  virtual bool cut() const = 0;
  // The connection's last call: it is not woken any more.
  virtual void Cancel() = 0;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_ANSWER_SOURCE_H_
