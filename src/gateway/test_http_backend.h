// For the tests of HttpBackend: a backend with its thread, and a sink that keeps what it is told.
#ifndef ROPEWAY_GATEWAY_TEST_HTTP_BACKEND_H_
#define ROPEWAY_GATEWAY_TEST_HTTP_BACKEND_H_

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "api/test_wire.h"
#include "gateway/http_backend.h"
#include "net/test_http_pool.h"

namespace ropeway::gateway {

inline constexpr char kBackendKey[] = "key-of-the-gateway";

// What a sink was told so far.
struct HttpTold {
  std::string text;
  int deltas = 0;
  int alive = 0;
  int ends = 0;
  std::optional<Finish> end;
  std::optional<Outcome> failure;
};

class HttpToldSink final : public Sink {
 public:
  // Called by each delta, on its thread.
  explicit HttpToldSink(std::function<void()> on_delta = nullptr)
      : on_delta_(std::move(on_delta)) {}

  bool OnDelta(RequestId, Delta delta) override {
    {
      const std::lock_guard lock(mutex_);
      told_.text += delta.text;
      ++told_.deltas;
      changed_.notify_all();
    }
    if (on_delta_) on_delta_();
    return true;
  }
  void OnAlive(RequestId) override {
    const std::lock_guard lock(mutex_);
    ++told_.alive;
  }
  void OnEnd(RequestId, const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    if (outcome.status.ok()) {
      told_.end = outcome.finish;
    } else {
      told_.failure = outcome;
    }
    ++told_.ends;
    changed_.notify_all();
  }

  HttpTold told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  HttpTold AwaitEnd() const {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, net::kPatience, [this] { return told_.ends > 0; }));
    return told_;
  }
  void AwaitDelta() const {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, net::kPatience, [this] { return told_.deltas > 0; }));
  }

 private:
  const std::function<void()> on_delta_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  HttpTold told_;
};

// A backend with its thread. Its destructor waits until that has nothing left to wait for.
class HttpBackendRunner {
 public:
  explicit HttpBackendRunner(HttpBackendOptions options) : thread_([this] { io_.run(); }) {
    options.server.api_key = kBackendKey;
    auto backend = HttpBackend::Open(options, &io_);
    EXPECT_TRUE(backend.ok()) << backend.status().message();
    backend_ = *std::move(backend);
  }
  explicit HttpBackendRunner(const std::string& url) : HttpBackendRunner(OptionsFor(url)) {}
  ~HttpBackendRunner() {
    backend_.reset();
    work_.reset();
    thread_.join();
  }
  HttpBackendRunner(const HttpBackendRunner&) = delete;
  HttpBackendRunner& operator=(const HttpBackendRunner&) = delete;

  static HttpBackendOptions OptionsFor(const std::string& url) {
    HttpBackendOptions options;
    options.server.url = url;
    return options;
  }

  HttpBackend* operator->() { return backend_.get(); }

  // One request from its beginning to its end.
  HttpTold Ask(const Request& request = api::wire::CompletionRequest()) {
    const auto sink = std::make_shared<HttpToldSink>();
    const StatusOr<RequestId> id = backend_->Submit(request, sink);
    if (!id.ok()) sink->OnEnd(0, Outcome::Failed(id.status()));
    return sink->AwaitEnd();
  }

  StatusOr<BackendFacts> Probe() {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<StatusOr<BackendFacts>> answer;
    backend_->Probe([&](StatusOr<BackendFacts> facts) {
      const std::lock_guard lock(mutex);
      answer = std::move(facts);
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, net::kPatience, [&] { return answer.has_value(); }));
    if (!answer) return Status(StatusCode::kInternal, "the probe has no answer");
    return *std::move(answer);
  }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::jthread thread_;
  std::unique_ptr<HttpBackend> backend_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_TEST_HTTP_BACKEND_H_
