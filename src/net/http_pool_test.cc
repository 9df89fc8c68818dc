#include "net/http_pool.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "net/test_fake_server.h"
#include "net/test_http_pool.h"

namespace ropeway::net {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(HttpPool, SendsOneExchangeAfterTheOtherOverOneConnection) {
  const FakeServer server(
      InTurn({Kept(JsonReply("{\"a\": 1}", 404)), Kept(StreamReply(EventStream({"x", "y"}))),
              Kept(JsonReply(""))}));
  PoolRunner runner(server.url());
  HttpSend send = Body("{}");
  send.fields = {{"X-One", "1\r\nX-Two: 2"}, {"Content-Type", "text/plain"}};
  Told told = runner.Ask(std::move(send));
  EXPECT_EQ(told.status, 404);
  EXPECT_EQ(told.body, "{\"a\": 1}");
  EXPECT_EQ(told.end.kind, nullptr);
  EXPECT_TRUE(told.end.sent);
  EXPECT_TRUE(told.end.answered);
  EXPECT_EQ(runner.pool().idle_connections(), 1);
  EXPECT_EQ(runner.Ask(Body("{}")).body, EventStream({"x", "y"}));
  HttpSend get;
  get.method = "GET";
  get.path = "/models";
  EXPECT_EQ(runner.Ask(std::move(get)).status, 200);
  EXPECT_EQ(server.connections(), 1);

  const std::vector<FakeRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].path, "/v1/completions");
  EXPECT_EQ(requests[0].body, "{}");
  EXPECT_THAT(requests[0].headers, HasSubstr("\r\nAuthorization: Bearer secret"));
  EXPECT_THAT(requests[0].headers, HasSubstr("\r\nX-One: 1  X-Two: 2"));
  EXPECT_THAT(requests[0].headers, HasSubstr("\r\nContent-Type: text/plain"));
  EXPECT_THAT(requests[1].headers, HasSubstr("\r\nContent-Type: application/json"));
  EXPECT_EQ(requests[2].method, "GET");
  EXPECT_EQ(requests[2].path, "/v1/models");
}

TEST(HttpPool, KeepsNoConnectionThatTheServerDoesNot) {
  for (const FakeReply& reply :
       {Raw({"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab"}),
        Raw({"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab"}), Raw({"HTTP/1.1 200 OK\r\n\r\nab"}),
        Raw({"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab and more"})}) {
    const FakeServer server(InTurn({reply}));
    PoolRunner runner(server.url());
    for (int i = 0; i < 2; ++i) {
      const Told told = runner.Ask();
      EXPECT_EQ(told.end.kind, nullptr) << told.end.why;
      EXPECT_EQ(told.body, "ab");
      EXPECT_EQ(runner.pool().idle_connections(), 0);
    }
    EXPECT_EQ(server.connections(), 2);
  }
}

TEST(HttpPool, KeepsAFewConnectionsForAWhile) {
  std::atomic<int> arrived = 0;
  const FakeServer server([&](const FakeRequest&) {
    ++arrived;
    BecomesTrue([&] { return arrived >= 5; });
    return Kept(JsonReply("{}"));
  });
  HttpPool::Options options;
  options.max_idle = 2;
  options.idle_lifetime = milliseconds(300);
  PoolRunner runner(server.url(), options);
  std::vector<ExchangeListener> listeners(5);
  for (ExchangeListener& listener : listeners) runner.pool().Send(Body("{}"), listener.Events());
  for (ExchangeListener& listener : listeners) EXPECT_TRUE(listener.AwaitEnd());
  EXPECT_EQ(server.connections(), 5);
  EXPECT_LE(runner.pool().idle_connections(), 2);
  EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
  EXPECT_TRUE(BecomesTrue([&] { return runner.pool().idle_connections() == 0; }));
}

TEST(HttpPool, NoticesThatTheServerClosedAKeptConnection) {
  for (const bool tls : {false, true}) {
    const FakeServer server(InTurn({Kept(JsonReply("{}"), milliseconds(20))}), tls);
    PoolRunner runner(server.url(), Insecure());
    EXPECT_EQ(runner.Ask().status, 200);
    EXPECT_TRUE(BecomesTrue([&] { return runner.pool().idle_connections() == 0; }));
    EXPECT_EQ(runner.Ask().status, 200);
    EXPECT_EQ(server.requests().size(), 2u);
  }
}

TEST(HttpPool, ReplacesAKeptConnectionThatEndsBeforeTheReplyOnce) {
  const FakeReply kept = Kept(JsonReply("{}"));
  FakeReply reset;
  reset.reset = true;
  for (const FakeReply& closed : {FakeReply{}, reset}) {
    const FakeServer server(InTurn({kept, closed, kept}));
    PoolRunner runner(server.url());
    EXPECT_EQ(runner.Ask(Body("1")).status, 200);
    const Told told = runner.Ask(Body("2"));
    EXPECT_EQ(told.status, 200) << told.end.why;
    EXPECT_EQ(server.connections(), 2);
    ASSERT_EQ(server.requests().size(), 3u);
    EXPECT_EQ(server.requests()[2].body, "2");
  }
  const FakeServer server(InTurn({kept, FakeReply{}, FakeReply{}, kept}));
  PoolRunner runner(server.url());
  EXPECT_EQ(runner.Ask().status, 200);
  const Told told = runner.Ask();
  EXPECT_STREQ(told.end.kind, http_error::kEarlyEnd);
  EXPECT_TRUE(told.end.sent);
  EXPECT_FALSE(told.end.answered);
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST(HttpPool, SendsNothingAgainThatTheServerHasHad) {
  const FakeReply kept = Kept(JsonReply("{}"));
  const FakeReply half = Raw({"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"});
  FakeReply late = Raw({"", ""});
  late.pause = milliseconds(1500);
  for (const FakeReply& reply : {half, late}) {
    const FakeServer server(InTurn({kept, reply, kept}));
    PoolRunner runner(server.url());
    EXPECT_EQ(runner.Ask().status, 200);
    const Told told = runner.Ask();
    EXPECT_STREQ(told.end.kind, http_error::kEarlyEnd);
    EXPECT_EQ(told.end.answered, told.body == "abc");
    EXPECT_EQ(server.requests().size(), 2u);
  }
}

TEST(HttpPool, EachTimeoutEndsWhatItIsFor) {
  const FakeServer silent(InTurn({Silence()}));
  HttpSend send = Body("{}");
  send.connect_timeout = milliseconds(200);
  // The server waits for the end of a request that is none.
  Told told = PoolRunner("https" + silent.url().substr(4), Insecure()).Ask(send);
  EXPECT_STREQ(told.end.kind, http_error::kTimeout);
  EXPECT_THAT(told.end.why, HasSubstr("nothing was received for 0.2 s, while connecting"));
  EXPECT_FALSE(told.end.sent);

  send = Body("{}");
  send.first_byte_timeout = milliseconds(200);
  told = PoolRunner(silent.url()).Ask(send);
  EXPECT_STREQ(told.end.kind, http_error::kTimeout);
  EXPECT_THAT(told.end.why, HasSubstr("waiting for the answer"));
  EXPECT_TRUE(told.end.sent);
  EXPECT_FALSE(told.end.answered);

  FakeReply slow_head = Cut(JsonReply("{}"), 4);
  slow_head.pause = milliseconds(50);
  const FakeServer slow(InTurn({slow_head}));
  told = PoolRunner(slow.url()).Ask(send);
  EXPECT_STREQ(told.end.kind, http_error::kTimeout);
  EXPECT_TRUE(told.end.answered);

  const FakeServer stuck(InTurn({OpenStream()}));
  send.first_byte_timeout = kPatience;
  send.idle_timeout = milliseconds(200);
  told = PoolRunner(stuck.url()).Ask(send);
  EXPECT_STREQ(told.end.kind, http_error::kTimeout);
  EXPECT_THAT(told.end.why, HasSubstr("reading the answer"));
  EXPECT_EQ(told.body, "abc");
}

TEST(HttpPool, AReplyMayTakeLongerThanItsPauses) {
  FakeReply reply = Raw({"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"});
  for (int i = 0; i < 8; ++i) reply.writes.emplace_back("x");
  reply.pause = milliseconds(100);
  const FakeServer server(InTurn({reply}));
  HttpSend send;
  send.idle_timeout = milliseconds(500);
  EXPECT_EQ(PoolRunner(server.url()).Ask(std::move(send)).body, "xxxxxxxx");
}

TEST(HttpPool, AReplyMayComeByteByByte) {
  const std::string empty = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
  FakeReply stream = StreamReply(EventStream({"x"}));
  for (const FakeReply& whole : {stream, Raw({empty}), Raw({interim + interim + empty})}) {
    FakeReply reply = Kept(Cut(whole, 1));
    reply.pause = milliseconds(1);
    const FakeServer server(InTurn({reply}));
    PoolRunner runner(server.url());
    const Told told = runner.Ask();
    EXPECT_EQ(told.end.kind, nullptr) << told.end.why;
    EXPECT_EQ(told.heads, 1);
    EXPECT_EQ(told.status, 200);
    EXPECT_EQ(told.body.empty(), whole.writes != stream.writes);
    EXPECT_EQ(runner.pool().idle_connections(), 1);
  }
}

TEST(HttpPool, GivesUpOnRepliesThatAreBombsOrNoHttp) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string chunked = ok + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string big(200'000, 'a');
  std::string fields;
  for (int i = 0; i < 5000; ++i) fields += fmt::format("X-{}: {}\r\n", i, "some value");
  std::string interim;
  for (int i = 0; i < 50; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  FakeReply drip = Raw({ok});
  for (int i = 0; i < 40; ++i) drip.writes.push_back(fmt::format("X: {}\r\n", big.substr(0, 4000)));
  drip.pause = milliseconds(1);
  for (const FakeReply& reply :
       {Raw({ok + "X: " + big + "\r\n\r\n"}), Raw({ok + fields + "\r\n"}), Raw({ok + big}), drip,
        Raw({interim + ok + "\r\n"}), Raw({"SSH-2.0\r\n"}), Raw({chunked + "zzzz\r\n"}),
        Raw({chunked + "1;" + big}), Raw({chunked + "0\r\n" + fields + fields + fields + "\r\n"}),
        Raw({ok + "Content-Length: -1\r\n\r\n"})}) {
    const FakeServer server(InTurn({reply}));
    PoolRunner runner(server.url());
    const Told told = runner.Ask();
    EXPECT_STREQ(told.end.kind, http_error::kBadReply) << reply.writes[0].substr(0, 80);
    EXPECT_EQ(told.ends, 1);
    EXPECT_EQ(runner.pool().idle_connections(), 0);
  }
}

TEST(HttpPool, ABodyMayBeBounded) {
  const FakeServer server(InTurn({Kept(JsonReply("12345"))}));
  PoolRunner runner(server.url());
  HttpSend send;
  send.max_body_bytes = 5;
  EXPECT_EQ(runner.Ask(send).body, "12345");
  send.max_body_bytes = 4;
  const Told told = runner.Ask(send);
  EXPECT_STREQ(told.end.kind, http_error::kBadReply);
  EXPECT_EQ(told.status, 200);
  EXPECT_EQ(told.body, "");
}

TEST(HttpPool, TheBodysReaderMayHaveEnough) {
  const FakeServer server(InTurn({OpenStream()}));
  PoolRunner runner(server.url());
  ExchangeListener listener;
  HttpEvents events = listener.Events();
  events.body = [](std::string_view) { return false; };
  runner.pool().Send({}, std::move(events));
  EXPECT_TRUE(listener.AwaitEnd());
  EXPECT_EQ(listener.told().end.kind, nullptr);
  EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
}

TEST(HttpPool, SaysWhyThereIsNoReply) {
  const ClosedPort closed;
  Told told = PoolRunner(closed.url()).Ask();
  EXPECT_STREQ(told.end.kind, http_error::kConnect);
  EXPECT_THAT(told.end.why, HasSubstr("refused"));
  EXPECT_FALSE(told.end.sent);

  told = PoolRunner("http://no.such.host.invalid").Ask();
  EXPECT_STREQ(told.end.kind, http_error::kConnect);
  EXPECT_THAT(told.end.why, HasSubstr("'no.such.host.invalid' cannot be resolved"));

  FakeReply reset;
  reset.reset = true;
  const FakeServer server(InTurn({reset}));
  told = PoolRunner(server.url()).Ask(Body("{}"));
  EXPECT_STREQ(told.end.kind, http_error::kReset);
  EXPECT_TRUE(told.end.sent);
  EXPECT_FALSE(told.end.answered);
  EXPECT_EQ(server.requests().size(), 1u) << "a fresh connection is not replaced";
}

TEST(HttpPool, SpeaksTlsOverKeptConnectionsAndRejectsACertificateThatNoAuthoritySigned) {
  FakeReply stream = Kept(Cut(StreamReply(EventStream({"x", "y"})), 20));
  stream.pause = milliseconds(5);
  const std::string large(300'000, 'z');
  const FakeServer server(InTurn({Kept(JsonReply("{}")), stream, Kept(JsonReply(large))}), true);
  {
    PoolRunner runner(server.url(), Insecure());
    EXPECT_EQ(runner.Ask(Body(large)).body, "{}");
    EXPECT_EQ(runner.Ask().body, EventStream({"x", "y"}));
    EXPECT_EQ(runner.Ask().body, large);
    EXPECT_EQ(server.connections(), 1);
  }
  const Told told = PoolRunner(server.url()).Ask();
  EXPECT_STREQ(told.end.kind, http_error::kConnect);
  EXPECT_THAT(told.end.why, HasSubstr("certificate verify failed"));
  EXPECT_FALSE(told.end.sent);
  EXPECT_EQ(server.requests().size(), 3u);
}

}  // namespace
}  // namespace ropeway::net
