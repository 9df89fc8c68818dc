// One HTTP request in the backend's hands: a sink for each choice, which passes output from the
// backend's threads to the connection, and the submission that owns them.
#ifndef ROPEWAY_SERVER_SUBMISSION_H_
#define ROPEWAY_SERVER_SUBMISSION_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/api_format.h"
#include "base/shared_budget.h"
#include "server/answer_source.h"
#include "server/choice_charge.h"
#include "server/key_limits.h"
#include "service/front_desk.h"

namespace ropeway::server {

// What the sinks of streams and of whole answers share. Thread rule: the Sink side from the
// backend's threads, the rest from the connection's.
class ServerSink : public Sink {
 public:
  // Why the connection is woken: there is output to take; or it is to be closed, because its reader
  // is too slow, or because the tenant's answers take too much memory.
  enum class Wake { kNews, kSlowReader, kOverBudget };
  // Called under the sink's lock: must neither block nor call back into the sink.
  using WakeFn = std::function<void(Wake)>;

  explicit ServerSink(WakeFn wake) : wake_(std::move(wake)) {}

  // Both are called before the backend has the sink. What charges the request's key.
  void SetCharge(ChoiceCharge charge) { charge_ = std::move(charge); }
  // What `tenant`'s answers may take in memory; without it, as much as they need.
  void SetBudget(std::shared_ptr<base::SharedBudget> answers, std::string tenant);

  using Output = AnswerSource::Output;
  Output Take();

  // Takes nothing, but like Take asks to be woken by what comes next.
  using Progress = AnswerSource::Progress;
  Progress Look();

  // Admission's; absent before the request is admitted.
  std::optional<int32_t> queue_position();

  AnswerFacts facts();

  // The request ended for its client, but not for the backend, which is to cancel it.
  bool ended_early();
  // It did because its tenant's answers take too much memory.
  bool cut();

  // The connection's last call. `wake` is not called once this has returned, and further deltas ask
  // the backend to cancel.
  void Close();
  // Before Close, where the sink has no charge: the connection leaves `ticket` behind, which is
  // charged for the prompt once the backend has told the end, if the prompt began to be computed.
  void ChargeAtEnd(KeyTicket ticket);

  void OnAdmitted(RequestId id, const Admission& admission) final;
  bool OnDelta(RequestId id, Delta delta) final;
  void OnEnd(RequestId id, const Outcome& outcome) final;

 protected:
  enum class Kept { kYes, kTooSlow, kTooMuchMemory };
  // Keeps `delta`, unless it is one too many. Called under the lock.
  virtual Kept Keep(Delta delta, std::vector<Delta>* pending) = 0;
  // Takes `bytes` of the tenant's budget, until they are taken with the deltas. Called under the
  // lock.
  bool Charge(size_t bytes);
  // All of `pending` was taken. Called under the lock.
  virtual void OnTaken() {}
  // Whether the connection is woken for each delta.
  virtual bool wakes_on_delta() const = 0;
  // Whether the client has seen nothing of an answer that is not complete.
  virtual bool is_whole() const = 0;

 private:
  // Under the lock.
  void Signal(Wake why);
  void EndEarly(Status status);

  // Used by the backend's threads, which call one at a time.
  ChoiceCharge charge_;

  std::shared_ptr<base::SharedBudget> answers_;  // Null: no bound. Outlives what is held.
  std::string tenant_;

  std::mutex mutex_;
  WakeFn wake_;  // Empty once closed.
  Output pending_;
  size_t pending_bytes_ = 0;  // What pending_'s deltas take.
  bool ended_early_ = false;
  bool cut_ = false;
  std::optional<int32_t> queue_position_;
  AnswerFacts facts_;
  std::optional<int32_t> computed_;  // The prompt's tokens that cost something; once it has ended.
  KeyTicket owing_;                  // ChargeAtEnd's.
  const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
  bool signalled_ = false;  // The connection was woken and has not taken yet.
};

// The sink of a streamed answer: a bounded buffer between the backend and a socket.
class StreamSink final : public ServerSink {
 public:
  // Holds at most `max_events` deltas of `max_bytes` together (their size in memory); one more
  // cancels the request. Deltas with tokens of the prompt do not count.
  StreamSink(size_t max_bytes, size_t max_events, WakeFn wake)
      : ServerSink(std::move(wake)), max_bytes_(max_bytes), max_events_(max_events) {}

 protected:
  Kept Keep(Delta delta, std::vector<Delta>* pending) override;
  void OnTaken() override { bytes_ = 0; }
  bool wakes_on_delta() const override { return true; }
  bool is_whole() const override { return false; }

 private:
  const size_t max_bytes_;
  const size_t max_events_;
  size_t bytes_ = 0;
};

// The sink of an answer that is sent whole: merges all deltas into one until the end. The request's
// max_tokens bounds it and, where the prompt's tokens are reported, max_model_len.
class CollectorSink final : public ServerSink {
 public:
  // Without `keep_tokens` only the text and the prompt's tokens are kept.
  CollectorSink(bool keep_tokens, WakeFn wake)
      : ServerSink(std::move(wake)), keep_tokens_(keep_tokens) {}

 protected:
  Kept Keep(Delta delta, std::vector<Delta>* pending) override;
  bool wakes_on_delta() const override { return false; }
  bool is_whole() const override { return true; }

 private:
  const bool keep_tokens_;
};

// Draws the request's seed, unless it has one: as short as all servers behind a gateway read it,
// and passed on to them (SamplingParams::given), so that what is told of it is true.
void DrawSeed(Request* request);

// The request of each choice, in order. Moves the prompts out of `api`.
std::vector<Request> ChoiceRequests(api::ApiRequest* api);

// All choices of one HTTP request. Its destructor lets the sinks go of the connection and cancels
// what has not ended. Thread rule: the connection's strand.
class Submission final : public AnswerSource {
 public:
  using SinkMaker = std::function<std::shared_ptr<ServerSink>()>;

  // `backend` must outlive it.
  explicit Submission(service::FrontDesk* backend) : backend_(backend) {}
  ~Submission() override { Cancel(); }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  // Submits all choices in order, all or none, with one seed for all; moves the prompts out of
  // `api`. `tickets`: one for each choice. Call once.
  Status Submit(api::ApiRequest* api, std::vector<KeyTicket> tickets, const SinkMaker& make_sink);

  // As the destructor.
  void Cancel() override;

  size_t size() const override { return choices_.size(); }
  bool ended(size_t choice) const override { return choices_[choice].ended; }
  Progress Look(size_t choice) override { return choices_[choice].sink->Look(); }
  Output Take(size_t choice) override;
  AnswerFacts facts(size_t choice) const override { return choices_[choice].sink->facts(); }
  std::optional<int32_t> queue_position() override {
    return choices_.front().sink->queue_position();
  }
  bool cut() const override;

 private:
  struct Choice {
    RequestId id = 0;  // 0: the backend does not have it.
    std::shared_ptr<ServerSink> sink;
    bool ended = false;  // Its end was taken.
  };

  service::FrontDesk* const backend_;
  std::vector<Choice> choices_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_SUBMISSION_H_
