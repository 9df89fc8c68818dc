// Unknown fields: the header of the answer and the log name them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

#include "server/server_context.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kIgnored[] = "x-ropeway-ignored";

class HttpIgnoredTest : public ServerTest {};

TEST_F(HttpIgnoredTest, EveryAnswerNamesThem) {
  TestClient client(port());
  const std::string body = R"({"prompt":"x","max_tokens":1,"frobnicate":1,"a, b":2)";
  ClientReply reply = client.Post("/v1/completions", body + "}");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers[kIgnored], "a%2C%20b, frobnicate");
  reply = client.Post("/v1/completions", body + R"(,"temperature":3})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.headers[kIgnored], "a%2C%20b, frobnicate");
  reply = client.Post("/tokenize", R"({"prompt":"x","colour":1})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers[kIgnored], "colour");
  reply = client.Post("/v1/completions", R"({"prompt":"x","max_tokens":1,"keep_alive":1})");
  EXPECT_EQ(reply.headers.count(kIgnored), 0u) << "it is known to have no effect";
  reply = client.Post("/v1/completions", body + R"(,"stream":true})");
  EXPECT_EQ(reply.headers[kIgnored], "a%2C%20b, frobnicate");
}

TEST_F(HttpIgnoredTest, TheLogNamesEachOnceAndAHundred) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  IgnoredFields fields;
  fields.Log({"colour", "a\nb"});
  fields.Log({"colour"});
  for (int i = 0; i < 200; ++i) fields.Log({"n" + std::to_string(i)});
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  EXPECT_EQ(text.find("colour"), text.rfind("colour"));
  EXPECT_THAT(text, HasSubstr("field a%0Ab of"));
  EXPECT_THAT(text, HasSubstr("field n97 of"));
  EXPECT_THAT(text, Not(HasSubstr("field n98 of")));
  const std::string last = "100 unknown fields were logged; further ones are not logged\n";
  EXPECT_EQ(text.find(last), text.size() - last.size()) << "once, at the end";
}

}  // namespace
}  // namespace ropeway::server
