// The connection of `ropeway top` to its server.
#ifndef ROPEWAY_CLI_TOP_FEED_H_
#define ROPEWAY_CLI_TOP_FEED_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "cli/top_model.h"
#include "net/base_url.h"
#include "net/http_pool.h"
#include "net/sse_parser.h"
#include "ropeway/status.h"

namespace ropeway::cli {

// What is known of the server by now.
struct TopNews {
  TopModel model;    // Of the last connection that gave events.
  Status failure;    // The end: the first connection failed, or the server will not take the next.
  std::string lost;  // Why there is no connection now; "": there is one, or never was.
  std::chrono::steady_clock::time_point since;  // When it began.
};

// Reads /admin/events on a thread of its own. A connection that gave events and was lost is
// replaced, after pauses that grow. Thread rule: any thread.
class TopFeed {
 public:
  struct Options {
    net::BaseUrl url;  // Of the server: /admin/events is appended to the path.
    std::string admin_key;
    bool insecure = false;
  };

  // Connects. Fails with kInternal where the TLS library cannot be set up.
  static StatusOr<std::unique_ptr<TopFeed>> Open(Options options);
  ~TopFeed();
  TopFeed(const TopFeed&) = delete;
  TopFeed& operator=(const TopFeed&) = delete;

  TopNews News() const;

  // Can be read from when there is news, until Rest.
  int descriptor() const { return descriptor_; }
  void Rest() const;

 private:
  explicit TopFeed(Options options);

  // All on the feed's thread.
  void Connect();
  void OnHead(const net::ReplyHead& head);
  bool OnBody(std::string_view bytes);
  void OnEnd(const net::HttpEnd& end);
  Status WhyRejected() const;
  void Retry(const std::string& why);
  void Fail(Status status);
  void Wake() const;

  const Options options_;
  const int descriptor_;
  boost::asio::io_context io_{1};
  boost::asio::steady_timer pause_{io_};
  std::unique_ptr<net::HttpPool> pool_;

  // For the feed's thread: the exchange now.
  std::optional<net::SseParser> parser_;
  int status_ = 0;
  bool is_stream_ = false;
  std::string error_body_;
  Status bad_event_;
  bool had_events_ = false;  // Of any exchange.
  std::chrono::milliseconds next_pause_;

  mutable std::mutex mutex_;
  TopNews news_;  // GUARDED_BY(mutex_)
  std::thread thread_;
};

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TOP_FEED_H_
