// What the routes of stored objects have in common: they work on a helper thread, as they read the
// disk, and answer when what they have changed is in the log.
#ifndef ROPEWAY_SERVER_STORED_CALL_H_
#define ROPEWAY_SERVER_STORED_CALL_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/shared_budget.h"
#include "http/exchange.h"
#include "server/server_context.h"
#include "server/url_query.h"
#include "store/object_store.h"

namespace ropeway::server {

// A write to the store that a connection waits for. Thread rule: Done on one thread at a time, and
// the function that it returns on any; Wait on the connection's strand.
class PendingWrite {
 public:
  explicit PendingWrite(const std::shared_ptr<http::SocketStream>& stream);

  // To be called by the store when the write has ended; then `keep` is let go. Call it at most
  // once, for a write that the store has taken or rejects at once.
  store::ObjectStore::DoneFn Done(std::shared_ptr<void> keep = nullptr);
  // The store has taken the write: Wait waits for its end.
  void set_taken() { taken_ = true; }

  // OK at once if no write was taken. kCancelled: the client has left.
  boost::asio::awaitable<Status> Wait(std::shared_ptr<http::SocketStream> stream) const;

  // The connection's last call: the store's thread does not touch the stream once this has
  // returned, for it may not be the one that destroys it.
  void Close();

 private:
  // The store's and the connection's, whichever is longer there.
  struct End {
    std::mutex mutex;
    std::weak_ptr<http::SocketStream> stream;  // Empty once closed. GUARDED_BY(mutex)
    Status status;                             // Set before `done`.
    std::atomic<bool> done{false};
  };
  const std::shared_ptr<End> end_;
  std::atomic<bool> taken_{false};
};

// One request on its way through a helper thread.
struct StoredCall {
  // Takes the body of `exchange`, and what its target says.
  StoredCall(http::Exchange* exchange, ServerContext* context);

  StoredAnswers& answers() const { return *context->stored; }
  store::ObjectStore& store() const { return *context->stored->store(); }
  // Makes the changes; the answer leaves when they are in the log. `keep` lasts until then.
  Status Write(std::vector<store::ObjectChange> changes, std::shared_ptr<void> keep = nullptr);

  ServerContext* const context;
  const std::string tenant;
  const std::vector<std::string> arguments;  // Of the path, decoded.
  UrlQuery query;
  std::string body;
  base::SharedBudget::Hold body_hold;
  PendingWrite write;
  std::vector<std::string> ignored;  // Fields of the body.
};

// Makes the body of the answer. It may use the call until it returns. A kNotFound without a field
// is about the "id" of the path.
using StoredWork = std::function<StatusOr<std::string>(StoredCall* call)>;

// The handler of a route that does this work. Without a store, what names an object is not there
// (404), and what makes one is unavailable (503). `context` must outlive it.
http::Route::Handler Stored(ServerContext* context, StoredWork work);

// One answer of that handler.
boost::asio::awaitable<http::Sent> AnswerStored(std::shared_ptr<http::Exchange> exchange,
                                                ServerContext* context, StoredWork work);
// Its first part: what `work` returns, once all that it has written is in the log.
boost::asio::awaitable<StatusOr<std::string>> RunStored(std::shared_ptr<http::Exchange> exchange,
                                                        ServerContext* context, StoredWork work);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_CALL_H_
