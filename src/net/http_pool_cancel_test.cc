// How exchanges of an HttpPool end before their time, from any thread, and what they leave.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/base_url.h"
#include "net/http_pool.h"
#include "net/test_fake_server.h"
#include "net/test_http_pool.h"

namespace ropeway::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(HttpPool, CancelEndsAnExchangeAtAnyPoint) {
  for (const FakeReply& reply : {Silence(), OpenStream()}) {
    const FakeServer server(InTurn({reply}));
    PoolRunner runner(server.url());
    ExchangeListener listener;
    const auto token = std::make_shared<int>(0);
    HttpEvents events = listener.Events();
    events.end = [token, end = events.end](const HttpEnd& e) { end(e); };
    const auto exchange = runner.pool().Send(Body("{}"), std::move(events));
    const bool body = !reply.writes.empty();
    EXPECT_TRUE(BecomesTrue(
        [&] { return server.requests().size() == 1 && (!body || listener.told().body == "abc"); }));
    const auto cancelled = std::chrono::steady_clock::now();
    exchange->Cancel();
    exchange->Cancel();
    EXPECT_TRUE(listener.AwaitEnd());
    EXPECT_TRUE(BecomesTrue([&] { return token.use_count() == 1; }))
        << "what the events captured is let go of";
    EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
    EXPECT_LT(std::chrono::steady_clock::now() - cancelled, seconds(2));
    EXPECT_TRUE(BecomesTrue([&] { return runner.pool().busy_connections() == 0; }));
    EXPECT_EQ(listener.told().ends, 1);
    EXPECT_STREQ(listener.told().end.kind, http_error::kInterrupted);
  }
}

TEST(HttpPool, AnEventMayCancel) {
  for (const bool at_head : {true, false}) {
    const FakeServer server(InTurn({OpenStream()}));
    PoolRunner runner(server.url());
    std::shared_ptr<HttpExchange> exchange;
    std::atomic<int> bodies = 0;
    std::atomic<int> ends = 0;
    HttpEvents events;
    events.head = [&, token = std::make_shared<int>(7)](const ReplyHead&) {
      if (at_head) exchange->Cancel();
      EXPECT_EQ(*token, 7) << "an event's captures live while it is called";
    };
    events.body = [&](std::string_view) {
      ++bodies;
      exchange->Cancel();
      return true;
    };
    events.end = [&](const HttpEnd&) { ++ends; };
    runner.Post([&] { exchange = runner.pool().Send(Body("{}"), std::move(events)); });
    EXPECT_TRUE(BecomesTrue(
        [&] { return server.requests().size() == 1 && server.open_connections() == 0; }));
    EXPECT_TRUE(BecomesTrue([&] { return runner.pool().busy_connections() == 0; }));
    EXPECT_EQ(bodies, at_head ? 0 : 1);
    EXPECT_EQ(ends, 1);
  }
}

TEST(HttpPool, TheEndComesBehindTheEventThatIsBeingCalled) {
  const FakeServer server(InTurn({OpenStream()}));
  PoolRunner runner(server.url());
  std::atomic<bool> began = false;
  std::promise<void> go_on;
  std::atomic<bool> over = false;
  std::promise<bool> ended;
  HttpEvents events;
  events.body = [&, wait = go_on.get_future().share()](std::string_view) {
    began = true;
    wait.wait();
    over = true;
    return true;
  };
  events.end = [&](const HttpEnd&) { ended.set_value(over); };
  const auto exchange = runner.pool().Send(Body("{}"), std::move(events));
  EXPECT_TRUE(BecomesTrue([&] { return began.load(); }));
  exchange->Cancel();  // Does not wait.
  EXPECT_FALSE(over.load());
  go_on.set_value();
  EXPECT_TRUE(ended.get_future().get());
}

TEST(HttpPool, AnExchangeCancelledBeforeItBeganTakesNoConnection) {
  const FakeServer server(InTurn({Kept(JsonReply("{}"))}));
  PoolRunner runner(server.url());
  EXPECT_EQ(runner.Ask().status, 200);
  ExchangeListener listener;
  std::atomic<bool> cancelled = false;
  runner.Post([&] {
    std::thread([&] { runner.pool().Send(Body("{}"), listener.Events())->Cancel(); }).join();
    cancelled = true;
  });
  EXPECT_TRUE(BecomesTrue([&] { return cancelled && runner.pool().busy_connections() == 0; }));
  EXPECT_EQ(runner.pool().idle_connections(), 1);
  EXPECT_TRUE(listener.AwaitEnd());
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpPool, AnEventThatThrowsEndsItsExchange) {
  const FakeServer server(InTurn({Kept(JsonReply("{}"))}));
  PoolRunner runner(server.url());
  ExchangeListener listener;
  HttpEvents events = listener.Events();
  events.body = [](std::string_view) -> bool { throw std::runtime_error("too bad"); };
  runner.pool().Send({}, std::move(events));
  EXPECT_TRUE(listener.AwaitEnd());
  EXPECT_STREQ(listener.told().end.kind, http_error::kNetwork);
  EXPECT_EQ(listener.told().end.why, "too bad");
  EXPECT_EQ(runner.Ask().status, 200);
}

TEST(HttpPool, ManyExchangesAtOnceLeaveNoDescriptor) {
  const int before = OpenDescriptors();
  {
    const FakeServer server([](const FakeRequest& request) {
      const size_t kind = request.body.size() % 4;
      if (kind == 3) return FakeReply{};
      if (kind == 2) return Kept(StreamReply(request.body));
      return Kept(JsonReply(request.body));
    });
    // By name, so that all of them wait for one answer of the resolver.
    PoolRunner runner("http://localhost:" + std::to_string(server.port()));
    std::vector<ExchangeListener> listeners(200);
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < listeners.size(); i += 4) {
          runner.pool().Send(Body(std::string(i + 1, 'b')), listeners[i].Events());
        }
      });
    }
    threads.clear();
    for (size_t i = 0; i < listeners.size(); ++i) {
      EXPECT_TRUE(listeners[i].AwaitEnd());
      const Told told = listeners[i].told();
      const bool lost = (i + 1) % 4 == 3;
      EXPECT_EQ(told.ends, 1);
      EXPECT_EQ(told.end.kind == nullptr, !lost) << told.end.why;
      EXPECT_EQ(told.body, lost ? "" : std::string(i + 1, 'b'));
    }
    EXPECT_TRUE(BecomesTrue([&] { return runner.pool().busy_connections() == 0; }));
    EXPECT_LE(runner.pool().idle_connections(), 64);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(HttpPool, MayBeDestroyedWhileExchangesRun) {
  const int before = OpenDescriptors();
  {
    const FakeServer server(InTurn({Kept(JsonReply("{}")), OpenStream(), Silence()}));
    PoolRunner runner(server.url());
    EXPECT_EQ(runner.Ask().status, 200);
    std::vector<ExchangeListener> listeners(20);
    std::vector<std::shared_ptr<HttpExchange>> exchanges;
    for (ExchangeListener& listener : listeners) {
      exchanges.push_back(runner.pool().Send(Body("{}"), listener.Events()));
    }
    EXPECT_TRUE(BecomesTrue([&] { return server.requests().size() == 21; }));
    runner.DestroyPool();
    for (const auto& exchange : exchanges) exchange->Cancel();
    EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
    for (const ExchangeListener& listener : listeners) {
      EXPECT_TRUE(listener.AwaitEnd());
      EXPECT_STREQ(listener.told().end.kind, http_error::kInterrupted);
    }
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(HttpPool, DoesNotWaitForANameThatIsNotResolved) {
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::atomic<bool> asked = false;
  HttpPool::Options options;
  options.resolve = [&asked, opened](const std::string&, uint16_t,
                                     boost::system::error_code* error) {
    asked = true;
    opened.wait();
    *error = boost::asio::error::host_not_found;
    return HttpEndpoints();
  };
  {
    PoolRunner runner("http://some.name:1", options);
    ExchangeListener at_once;
    ExchangeListener cancelled;
    ExchangeListener late;
    ExchangeListener left;
    runner.pool().Send(Body("{}"), at_once.Events())->Cancel();
    const auto exchange = runner.pool().Send(Body("{}"), cancelled.Events());
    HttpSend send = Body("{}");
    send.connect_timeout = milliseconds(50);
    runner.pool().Send(std::move(send), late.Events());
    runner.pool().Send(Body("{}"), left.Events());
    EXPECT_TRUE(late.AwaitEnd());
    EXPECT_STREQ(late.told().end.kind, http_error::kTimeout);
    EXPECT_TRUE(asked);
    exchange->Cancel();
    EXPECT_TRUE(BecomesTrue([&] { return runner.pool().busy_connections() == 1; }));
    runner.DestroyPool();
    EXPECT_TRUE(at_once.AwaitEnd() && cancelled.AwaitEnd() && left.AwaitEnd());
  }
  open.set_value();
}

TEST(HttpPool, MayOutliveTheThreadThatRanIt) {
  const int before = OpenDescriptors();
  {
    const FakeServer server(InTurn({OpenStream()}));
    auto io = std::make_unique<boost::asio::io_context>(1);
    HttpPool::Options options;
    options.url = *ParseBaseUrl(server.url());
    auto pool = HttpPool::Open(options, io.get());
    ASSERT_TRUE(pool.ok());
    ExchangeListener listener;
    const auto exchange = (*pool)->Send(Body("{}"), listener.Events());
    {
      const std::jthread thread([&] { io->run(); });
      EXPECT_TRUE(BecomesTrue([&] { return listener.told().body == "abc"; }));
      io->stop();
    }
    pool->reset();
    io.reset();  // With what the exchange left there.
    EXPECT_EQ(listener.told().ends, 0);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace ropeway::net
