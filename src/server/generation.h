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
#include "http/exchange.h"
#include "http/http_reply.h"
#include "http/route.h"
#include "server/input_feed.h"
#include "server/prompt_texts.h"
#include "server/run_watcher.h"
#include "server/send_answer.h"
#include "server/server_context.h"
#include "server/stored_answers.h"
#include "server/submission.h"

namespace ropeway::server {

// Validates a request in the dialect of an ApiFormat, hands it to the backend, and has its output
// sent (AnswerSender). Thread rule: the connection's strand; a shared_ptr owns it, so that work on
// helper threads may outlive the connection.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // `context` must outlive it.
  Generation(std::shared_ptr<http::Exchange> exchange, ServerContext* context,
             api::ApiFormatMaker make_format);

  // Runs to the end; no exception leaves it. Once it has returned, the backend holds no reference
  // to the connection. Call once.
  boost::asio::awaitable<http::Sent> Run();

 private:
  boost::asio::awaitable<http::Sent> TryRun();
  // Ends in a turn of the I/O thread, unless the client has left.
  boost::asio::awaitable<Status> ReadBody(http::IoTurns::Turn* turn);
  // Does a piece of what the body alone decides, of milliseconds per megabyte. Whether that was the
  // last. Any thread.
  StatusOr<bool> Prepare();
  Status ParseBody();
  // Takes the prompts' texts, where the answer shows them.
  Status ShowPrompts();
  // Whether the answer is to be stored, and whether it can be.
  Status ReadKeeping();
  // Puts what came before, which the store has, before the request's input. Ends in a turn of the
  // I/O thread, unless the client has left.
  boost::asio::awaitable<Status> Recall(http::IoTurns::Turn* turn);
  // Tells the format what its answer begins with.
  void Start();
  // The answer of a body that asks for no output.
  http::HttpReply AnswerAtOnce();
  // Gives the request its key's rights and takes tickets from the key's limits, or returns why not.
  std::optional<http::HttpReply> ApplyKey(std::vector<KeyTicket>* tickets);
  // Hands the request to the backend.
  StatusOr<std::unique_ptr<AnswerSource>> Submit(std::vector<KeyTicket> tickets);
  Submission::SinkMaker Sinks() const;
  // How many inputs to embed the backend may have at once.
  InputFeed::Window FeedWindow() const;
  // The same for an answer that is stored.
  StatusOr<std::shared_ptr<StoredRun>> BeginStored(std::vector<KeyTicket> tickets);
  // Sends the answer of a stored run; in the background, that it is queued.
  boost::asio::awaitable<http::Sent> SendStored();
  boost::asio::awaitable<http::Sent> SendQueued(std::unique_ptr<RunWatcher> watcher);

  const std::shared_ptr<http::Exchange> exchange_;
  const std::shared_ptr<http::SocketStream> stream_;  // The exchange's.
  // The exchange's request. Its body is released once it is parsed.
  http::HttpRequest& http_;
  ServerContext* const context_;
  const std::shared_ptr<api::ApiFormat> format_;
  api::AnswerHead head_;              // Until the format has it.
  std::optional<PromptTexts> texts_;  // Once the body is parsed.
  int32_t max_model_len_ = 0;         // The model's; 0: it is not known.
  int32_t embedding_size_ = 0;        // The model's, too.
  ShownPrompts shown_;                // Until the sender has them.

  // --- Of an answer that is stored.
  bool keeps_ = false;
  std::string body_;  // The request's, which is a part of the record.
  StoredAnswers::ConversationHold conversation_;
  base::SharedBudget::Hold history_;  // Memory of what came before.
  std::shared_ptr<StoredRun> run_;
};

// The handler of a dialect's route. `context` must outlive it.
http::Route::Handler Generates(ServerContext* context, api::ApiFormatMaker make_format);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_GENERATION_H_
