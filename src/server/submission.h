// All choices of one HTTP request in the backend's hands.
#ifndef ROPEWAY_SERVER_SUBMISSION_H_
#define ROPEWAY_SERVER_SUBMISSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "server/key_limits.h"
#include "server/openai_request.h"
#include "server/server_sink.h"

namespace ropeway {

// Whatever way its owner ends, the sinks let go of the connection and what did not end is
// cancelled. Thread rule: the connection's strand.
class Submission {
 public:
  using SinkMaker = std::function<std::shared_ptr<ServerSink>()>;

  // `backend` must outlive it.
  explicit Submission(Backend* backend) : backend_(backend) {}
  ~Submission();
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  // Hands over all choices, in order, with one seed for all. Where one is refused, its Status, and
  // those before it are cancelled. Call once. `tickets`: one a choice.
  Status Submit(ApiRequest api, std::vector<KeyTicket> tickets, const SinkMaker& make_sink);

  // Whose request it is.
  const std::string& tenant() const { return tenant_; }
  // Of the first choice; see ServerSink.
  std::optional<int32_t> queue_position() { return choices_.front().sink->queue_position(); }

  size_t size() const { return choices_.size(); }
  bool ended(size_t choice) const { return choices_[choice].ended; }

  // See ServerSink.
  ServerSink::Progress Look(size_t choice) { return choices_[choice].sink->Look(); }
  // REQUIRES: !ended(choice).
  ServerSink::Output Take(size_t choice);

 private:
  struct Choice {
    RequestId id = 0;
    std::shared_ptr<ServerSink> sink;
    bool ended = false;  // Its end was taken.
  };

  void CancelAll();
  Status SubmitOne(Request request, KeyTicket ticket, const SinkMaker& make_sink);

  Backend* const backend_;
  std::string tenant_;
  std::vector<Choice> choices_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_SUBMISSION_H_
