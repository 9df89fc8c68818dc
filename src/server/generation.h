// One generation request on one connection: from the body to the last byte of its answer.
#ifndef ROPEWAY_SERVER_GENERATION_H_
#define ROPEWAY_SERVER_GENERATION_H_

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "base/shared_budget.h"
#include "http/exchange.h"
#include "http/http_reply.h"
#include "http/route.h"
#include "server/server_context.h"
#include "server/submission.h"

namespace ropeway::server {

// Validates a request, hands it to the backend and sends its output, whole or as a stream, in the
// dialect of an ApiFormat. A client that leaves or reads too slowly is a cancel. Thread rule: the
// connection's strand; a shared_ptr owns it, so that work on helper threads may outlive the
// connection.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // `context` must outlive it.
  Generation(std::shared_ptr<http::Exchange> exchange, ServerContext* context,
             api::ApiFormatMaker make_format);

  // Runs to the end; no exception leaves it. Once it has returned, the backend holds no reference
  // to the connection. Call once.
  boost::asio::awaitable<http::Sent> Run();

 private:
  // --- generation.cc: from the body to the backend.

  boost::asio::awaitable<http::Sent> TryRun();
  // Ends in a turn of the I/O thread, unless the client has left.
  boost::asio::awaitable<Status> ReadBody(http::IoTurns::Turn* turn);
  // What the body alone decides. Any thread; may take milliseconds per megabyte.
  Status Prepare();
  // Gives the request its key's rights and takes tickets from the key's limits, or returns why not.
  std::optional<http::HttpReply> ApplyKey(std::vector<KeyTicket>* tickets);
  Status Submit(std::vector<KeyTicket> tickets);
  Submission::SinkMaker Sinks() const;

  // --- send_answer.cc: from the backend to the client.

  // Waits for all choices and sends them as one body, or the first failure as an error.
  boost::asio::awaitable<http::Sent> SendWhole();
  // Sends a stream. Its headers leave when all choices are admitted; a failure before that is an
  // error with its own status code.
  boost::asio::awaitable<http::Sent> SendStream();
  boost::asio::awaitable<http::Sent> SendStreamError(Status status);
  boost::asio::awaitable<StatusOr<std::string>> WriteWhole(
      std::shared_ptr<const std::vector<api::ChoiceOutput>> choices);
  // Runs `write`, which may use this object, on a helper thread. A client with too many jobs there
  // waits for a place.
  boost::asio::awaitable<StatusOr<std::string>> OnHelper(std::function<std::string()> write);
  // Whether all choices are admitted. Sets `*failure` if one of them failed by now.
  bool AllAdmitted(Status* failure);
  // Appends the output that arrived, each choice's as one chunk. True if the answer is complete:
  // all choices ended, or one failed.
  bool AppendOutput(std::string* bytes);
  // The end of a stream that fails with `failure`.
  std::string StreamError(const Status& failure);
  // Notes tokens and times for the log, also where the answer is not complete.
  void NoteOutcome();
  // The reply to a request that the backend ended with `failure`.
  http::HttpReply FailureReply(const Status& failure) const;
  // The queue position, and the rest of the key's limits.
  http::HttpHeaders AnswerHeaders();

  const std::shared_ptr<http::Exchange> exchange_;
  const std::shared_ptr<http::SocketStream> stream_;  // The exchange's.
  // The exchange's request. Its body is released once it is parsed.
  http::HttpRequest& http_;
  ServerContext* const context_;
  const std::unique_ptr<api::ApiFormat> format_;
  api::AnswerHead head_;                   // Until the format has it.
  int32_t max_model_len_ = 0;              // The model's; 0: it is not known.
  base::SharedBudget::Hold prompt_texts_;  // Memory of the prompts that the answer shows.
  base::SharedBudget::Hold shown_;         // Memory to show them in, until they are written.
  size_t shown_bytes_ = 0;                 // The prompts of all choices in the answer.
  Submission submission_;
  bool stream_began_ = false;  // The headers may have left.
};

// The handler of a dialect's route. `context` must outlive it.
http::Route::Handler Generates(ServerContext* context, api::ApiFormatMaker make_format);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_GENERATION_H_
