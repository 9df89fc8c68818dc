#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/base_url.h"
#include "net/test_fake_server.h"

namespace ropeway::net {
namespace {

using testing::HasSubstr;
using testing::Not;

HttpClient::Reply Fetch(const std::string& url, const std::string& body, double timeout = 10,
                        bool insecure = false) {
  auto client = HttpClient::Open(*ParseBaseUrl(url), "secret", insecure);
  EXPECT_TRUE(client.ok()) << client.status().message();
  return (*client)->Fetch("/models", body, timeout);
}

TEST(HttpClient, SendsTheRequestAndReturnsTheWholeReply) {
  const FakeServer server([](const FakeRequest&) { return Cut(JsonReply("{\"a\": 1}", 404), 7); });
  const HttpClient::Reply get = Fetch(server.url(), "");
  EXPECT_EQ(get.status, 404);
  EXPECT_EQ(get.body, "{\"a\": 1}");
  const HttpClient::Reply post = Fetch(server.url(), "{}");
  EXPECT_EQ(post.status, 404);

  const std::vector<FakeRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].method, "GET");
  EXPECT_EQ(requests[0].path, "/v1/models");
  EXPECT_THAT(requests[0].headers, HasSubstr("\r\nAuthorization: Bearer secret"));
  EXPECT_EQ(requests[1].method, "POST");
  EXPECT_EQ(requests[1].body, "{}");
}

TEST(HttpClient, SpeaksTlsAndRejectsACertificateThatNoAuthoritySigned) {
  const FakeServer server([](const FakeRequest&) { return JsonReply("{}"); }, /*tls=*/true);
  EXPECT_EQ(Fetch(server.url(), "", 10, /*insecure=*/true).status, 200);
  const HttpClient::Reply strict = Fetch(server.url(), "");
  EXPECT_EQ(strict.status, 0);
  EXPECT_THAT(strict.why, HasSubstr("certificate verify failed"));
}

// One exchange with a call of its own.
struct Exchange {
  HttpEnd end;
  std::string location;
  std::string body;
};
Exchange Get(const std::string& url, const std::vector<std::pair<std::string, std::string>>& fields,
             double timeout, bool when_idle) {
  auto client = HttpClient::Open(*ParseFileUrl(url), "", false);
  EXPECT_TRUE(client.ok());
  Exchange exchange;
  boost::asio::io_context io(1);
  const auto call = std::make_shared<HttpCall>(client->get(), &io);
  for (const auto& [name, value] : fields) call->AddField(name, value);
  if (when_idle) call->set_timeout_when_idle();
  const HttpCall::OnHead on_head = [&](const ReplyHead& head) {
    exchange.location = head.field("Location");
    EXPECT_EQ(head.field("X-None"), "");
  };
  const HttpCall::OnBody on_body = [&](std::string_view bytes) {
    exchange.body += bytes;
    return true;
  };
  const std::string none;
  boost::asio::co_spawn(io, call->Run(none, none, timeout, on_head, on_body),
                        [&](const std::exception_ptr&, HttpEnd end) { exchange.end = end; });
  io.run();
  return exchange;
}

TEST(HttpClient, SaysWhereARedirectLeads) {
  const FakeServer server([](const FakeRequest&) {
    return FakeReply{{"HTTP/1.1 307 X\r\nLocation: /v2/models\r\nContent-Length: 0\r\n\r\n"}};
  });
  const HttpClient::Reply reply = Fetch(server.url(), "");
  EXPECT_EQ(reply.status, 307);
  EXPECT_EQ(reply.location, "/v2/models");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpCall, SendsFieldsAndPassesThemOn) {
  const FakeServer server([](const FakeRequest&) {
    return FakeReply{{"HTTP/1.1 302 X\r\nlocation: /else?where\r\nContent-Length: 0\r\n\r\n"}};
  });
  const Exchange exchange = Get(server.url() + "/a?b", {{"Range", "bytes=5-"}}, 10, false);
  EXPECT_EQ(exchange.end.kind, nullptr);
  EXPECT_EQ(exchange.location, "/else?where");
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].path, "/a?b");
  EXPECT_THAT(server.requests()[0].headers, HasSubstr("\r\nRange: bytes=5-"));
}

TEST(HttpCall, AReplyMayTakeLongerThanItsPauses) {
  const FakeServer server([](const FakeRequest&) {
    FakeReply reply{{"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"}};
    for (int i = 0; i < 8; ++i) reply.writes.emplace_back("x");
    reply.pause = std::chrono::milliseconds(100);
    return reply;
  });
  EXPECT_EQ(Get(server.url(), {}, 0.5, true).body, "xxxxxxxx");
  EXPECT_STREQ(Get(server.url(), {}, 0.5, false).end.kind, http_error::kTimeout);
}

TEST(HttpClient, SaysWhyThereIsNoReply) {
  const ClosedPort closed;
  EXPECT_THAT(Fetch(closed.url(), "").why, HasSubstr("refused"));
  const FakeServer silent([](const FakeRequest&) {
    FakeReply reply;
    reply.hang = true;
    return reply;
  });
  EXPECT_THAT(Fetch(silent.url(), "", 0.3).why, HasSubstr("not complete within 0.3 s"));
  const FakeServer foreign([](const FakeRequest&) { return FakeReply{{"SSH-2.0\r\n"}}; });
  EXPECT_THAT(Fetch(foreign.url(), "").why, HasSubstr("not valid HTTP"));
  EXPECT_EQ(
      HttpClient::Open(*ParseBaseUrl("http://no.such.host.invalid"), "", false).status().code(),
      StatusCode::kUnavailable);
}

// A proxy of one connection, which it takes to `port` of the loopback address, whatever server was
// asked for. Its answer begins with `reply`.
class OneTunnel {
 public:
  explicit OneTunnel(uint16_t port, std::string reply = "HTTP/1.1 200 Go on\r\n\r\n")
      : acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}),
        thread_([this, port, reply = std::move(reply)] { Serve(port, reply); }) {}

  Proxy proxy() { return {"127.0.0.1", acceptor_.local_endpoint().port(), "Basic eDp5"}; }
  const std::string& head() {  // Waits for the end of the connection.
    thread_.join();
    return head_;
  }

 private:
  using Socket = boost::asio::ip::tcp::socket;

  void Serve(uint16_t port, const std::string& reply) {
    Socket client = acceptor_.accept();
    boost::asio::read_until(client, boost::asio::dynamic_buffer(head_), "\r\n\r\n");
    boost::asio::write(client, boost::asio::buffer(reply));
    if (reply.find(" 200 ") == std::string::npos) return;
    Socket server(io_);
    server.connect({boost::asio::ip::address_v4::loopback(), port});
    const std::jthread back([&] { Copy(&server, &client); });
    Copy(&client, &server);
  }
  static void Copy(Socket* from, Socket* to) {
    boost::system::error_code error;
    std::array<char, 4096> bytes;
    while (const size_t got = from->read_some(boost::asio::buffer(bytes), error)) {
      boost::asio::write(*to, boost::asio::buffer(bytes, got), error);
    }
    to->shutdown(Socket::shutdown_send, error);
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::string head_;
  std::jthread thread_;
};

TEST(HttpClient, SpeaksTlsThroughAProxy) {
  const FakeServer server([](const FakeRequest&) { return JsonReply("{\"a\": 1}"); }, /*tls=*/true);
  OneTunnel tunnel(server.port());
  auto client = HttpClient::Open(*ParseBaseUrl("https://no.such.host.invalid"), "secret",
                                 /*insecure=*/true, tunnel.proxy());
  ASSERT_TRUE(client.ok()) << client.status().message();
  const HttpClient::Reply reply = (*client)->Fetch("/models", "", 10);
  EXPECT_EQ(reply.status, 200) << reply.why;
  EXPECT_EQ(reply.body, "{\"a\": 1}");
  EXPECT_EQ(tunnel.head(),
            "CONNECT no.such.host.invalid:443 HTTP/1.1\r\n"
            "Host: no.such.host.invalid:443\r\n"
            "Proxy-Authorization: Basic eDp5\r\n\r\n");
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_THAT(server.requests()[0].headers, HasSubstr("\r\nAuthorization: Bearer secret"));
  EXPECT_THAT(server.requests()[0].headers, Not(HasSubstr("Proxy-Authorization")));
}

TEST(HttpClient, AProxyThatOpensNoTunnelIsNamed) {
  for (const auto& [reply, why] : std::vector<std::pair<std::string, std::string>>{
           {"HTTP/1.1 403 No\r\n\r\n", "answered with HTTP 403"},
           {"HTTP/1.1 2\x1b[0 \r\n\r\n", "did not answer with HTTP"},
           {"SSH-2.0\r\n\r\n", "did not answer with HTTP"},
           {"", "End of file"},
           {std::string(100'000, 'x'), "the proxy 127.0.0.1:"}}) {
    OneTunnel tunnel(0, reply);
    auto client =
        HttpClient::Open(*ParseBaseUrl("https://host.invalid"), "", false, tunnel.proxy());
    ASSERT_TRUE(client.ok());
    const HttpClient::Reply answer = (*client)->Fetch("/models", "", 10);
    EXPECT_EQ(answer.error_kind,
              why == "answered with HTTP 403" ? http_error::kRefused : http_error::kConnect)
        << why;
    EXPECT_THAT(answer.why, HasSubstr("the proxy 127.0.0.1:"));
    EXPECT_THAT(answer.why, HasSubstr(why));
    EXPECT_THAT(answer.why, Not(HasSubstr("\x1b")));
  }
}

}  // namespace
}  // namespace ropeway::net
