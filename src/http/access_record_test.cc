#include "http/access_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace ropeway::http {
namespace {

AccessRecord Whole() {
  AccessRecord record;
  record.id = "abc-1";
  record.key = "team-a";
  record.priority = "medium";
  record.address = "2001:db8::1";
  record.method = "POST";
  record.route = "/v1/chat/completions";
  record.status = 200;
  record.model = "smollm2";
  record.tokens = {.in = 37, .cached = 32, .out = 12};
  record.queue_ms = 0.04;
  record.ttft_ms = 20.25;
  record.total_ms = 99;
  return record;
}

TEST(AccessRecordTest, ALineHasWhatTheRequestHas) {
  EXPECT_EQ(AccessText(Whole()),
            "request id=abc-1 key=team-a class=medium address=2001:db8::1 method=POST "
            "route=/v1/chat/completions status=200 model=smollm2 tokens_in=37 tokens_cached=32 "
            "tokens_out=12 queue_ms=0.0 ttft_ms=20.2 total_ms=99.0");
  AccessRecord rejected;
  rejected.id = "abc-2";
  rejected.method = "GET";
  rejected.route = "unknown";
  rejected.status = 401;
  rejected.code = "invalid_api_key";
  EXPECT_EQ(AccessText(rejected),
            "request id=abc-2 method=GET route=unknown status=401 code=invalid_api_key "
            "total_ms=0.0");
}

TEST(AccessRecordTest, TheObjectHasTheSame) {
  const auto json = nlohmann::json::parse("{" + AccessJson(Whole()) + "}");
  EXPECT_EQ(json["id"], "abc-1");
  EXPECT_EQ(json["route"], "/v1/chat/completions");
  EXPECT_EQ(json["status"], 200);
  EXPECT_EQ(json["tokens_cached"], 32);
  EXPECT_EQ(json["ttft_ms"], 20.2);
  EXPECT_EQ(json.size(), 14U);
  EXPECT_FALSE(json.contains("code"));
}

// Each text may be the client's. A line stays one, and a value stays within its quotes.
TEST(AccessRecordTest, TextsAreEscapedAndBounded) {
  AccessRecord record;
  record.status = 400;
  record.model = "a b\" status=200 \\\n\x1b[31m\xff\xe2\x80\xae";
  record.field = std::string(127, 'x') + "\xe2\x82\xac" + std::string(5000, 'y');
  const std::string text = AccessText(record);
  EXPECT_EQ(text.find_first_of("\n\x1b\xff"), std::string::npos);
  EXPECT_NE(text.find(R"(model="a b\" status=200 \\)"), std::string::npos) << text;
  EXPECT_LT(text.size(), 350U);
  const auto json = nlohmann::json::parse("{" + AccessJson(record) + "}");
  EXPECT_EQ(json["status"], 400);
  EXPECT_LT(json["field"].get<std::string>().size(), 140U);
}

TEST(AccessRecordTest, ARequestsNameIsTheClientsWhereItIsPlain) {
  for (const std::string good : {"a", "A.b_c-9"}) EXPECT_EQ(UsableRequestId(good), good);
  EXPECT_EQ(UsableRequestId(std::string(128, 'x')).size(), 128U);
  for (const std::string bad : {"", "a b", "a\n", "a/b", "a\"", "\xc3\xa4", "a\x7f"}) {
    EXPECT_EQ(UsableRequestId(bad), "");
  }
  EXPECT_EQ(UsableRequestId(std::string(129, 'x')), "");
  EXPECT_EQ(UsableRequestId(std::string("a\0b", 3)), "");
}

}  // namespace
}  // namespace ropeway::http
