// For tests of HttpPool and of what is built on it: a pool with its thread, what its exchanges
// tell, and replies of the fake server.
#ifndef ROPEWAY_NET_TEST_HTTP_POOL_H_
#define ROPEWAY_NET_TEST_HTTP_POOL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/base_url.h"
#include "net/http_pool.h"
#include "net/test_fake_server.h"

namespace ropeway::net {

// How long a test waits for what must happen.
inline constexpr std::chrono::seconds kPatience{20};

inline bool BecomesTrue(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// File descriptors of this process.
inline int OpenDescriptors() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                        std::filesystem::directory_iterator()));
}

// What an exchange has told so far.
struct Told {
  int heads = 0;
  int status = 0;
  std::string body = {};
  int ends = 0;
  HttpEnd end = {};
};

// Writes down the events of an exchange.
class ExchangeListener {
 public:
  HttpEvents Events() {
    HttpEvents events;
    events.head = [this](const ReplyHead& head) {
      Change([&](Told* told) {
        ++told->heads;
        told->status = head.status;
      });
    };
    events.body = [this](std::string_view bytes) {
      Change([&](Told* told) { told->body += bytes; });
      return true;
    };
    events.end = [this](const HttpEnd& end) {
      Change([&](Told* told) {
        ++told->ends;
        told->end = end;
      });
    };
    return events;
  }
  Told told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  bool AwaitEnd() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return told_.ends > 0; });
  }

 private:
  template <typename F>
  void Change(F change) {
    const std::lock_guard lock(mutex_);
    change(&told_);
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Told told_;
};

// A pool with its thread. Its destructor waits for the thread to have nothing left to wait for.
class PoolRunner {
 public:
  explicit PoolRunner(const std::string& url, HttpPool::Options options = {})
      : thread_([this] { io_.run(); }) {
    options.url = *ParseBaseUrl(url);
    options.api_key = "secret";
    auto pool = HttpPool::Open(std::move(options), &io_);
    EXPECT_TRUE(pool.ok()) << pool.status().message();
    pool_ = *std::move(pool);
  }
  ~PoolRunner() {
    pool_.reset();
    work_.reset();
    thread_.join();
  }
  PoolRunner(const PoolRunner&) = delete;
  PoolRunner& operator=(const PoolRunner&) = delete;

  HttpPool& pool() { return *pool_; }
  void DestroyPool() { pool_.reset(); }
  void Post(std::function<void()> task) { boost::asio::post(io_, std::move(task)); }
  // One exchange from beginning to end.
  Told Ask(HttpSend send = {}) {
    ExchangeListener listener;
    const auto exchange = pool_->Send(std::move(send), listener.Events());
    EXPECT_TRUE(listener.AwaitEnd());
    exchange->Cancel();
    return listener.told();
  }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::jthread thread_;
  std::unique_ptr<HttpPool> pool_;
};

inline HttpSend Body(std::string body) {
  HttpSend send;
  send.path = "/completions";
  send.body = std::move(body);
  return send;
}

inline HttpPool::Options Insecure() {
  HttpPool::Options options;
  options.insecure = true;
  return options;
}

inline FakeReply Raw(std::vector<std::string> writes) {
  FakeReply reply;
  reply.writes = std::move(writes);
  return reply;
}

inline FakeReply Silence() {
  FakeReply reply;
  reply.hang = true;
  return reply;
}

// A stream that has begun and does not go on.
inline FakeReply OpenStream() {
  FakeReply reply = Raw({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"});
  reply.hang = true;
  return reply;
}

// Answers the n-th request with the n-th reply, and all further ones with the last.
inline FakeServer::Script InTurn(std::vector<FakeReply> replies) {
  auto next = std::make_shared<std::atomic<size_t>>(0);
  return [next, replies = std::move(replies)](const FakeRequest&) {
    return replies[std::min(next->fetch_add(1), replies.size() - 1)];
  };
}

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_TEST_HTTP_POOL_H_
