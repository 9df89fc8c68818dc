// Sends an answer to its client, whole or as a stream, as its output comes.
#ifndef ROPEWAY_SERVER_SEND_ANSWER_H_
#define ROPEWAY_SERVER_SEND_ANSWER_H_

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "base/shared_budget.h"
#include "http/exchange.h"
#include "http/http_reply.h"
#include "server/answer_source.h"
#include "server/server_context.h"

namespace ropeway::server {

// What an answer that shows its prompts takes for them.
struct ShownPrompts {
  base::SharedBudget::Hold texts;    // Memory of the texts.
  base::SharedBudget::Hold written;  // Memory to show them in, until they are written.
  size_t bytes = 0;                  // The prompts of all choices in the answer.
};

// Sends the output of `source` in the dialect of `format`, which was started. A client that leaves
// or reads too slowly is a cancel. Thread rule: the connection's strand; a shared_ptr owns it, so
// that work on helper threads may outlive the connection.
class AnswerSender : public std::enable_shared_from_this<AnswerSender> {
 public:
  // `context` must outlive it.
  AnswerSender(std::shared_ptr<http::Exchange> exchange, ServerContext* context,
               std::shared_ptr<api::ApiFormat> format, std::unique_ptr<AnswerSource> source,
               ShownPrompts shown = {});

  // Runs to the end; no exception leaves it. Once it has returned, the source has let go of the
  // connection. Call once.
  boost::asio::awaitable<http::Sent> Run(bool streams);

 private:
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
  http::HttpRequest& http_;                           // The exchange's.
  ServerContext* const context_;
  const std::shared_ptr<api::ApiFormat> format_;
  const std::unique_ptr<AnswerSource> source_;
  ShownPrompts shown_;
  bool stream_began_ = false;  // The headers may have left.
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_SEND_ANSWER_H_
