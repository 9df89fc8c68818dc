#include "loadgen/reply_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway::loadgen {
namespace {

using testing::HasSubstr;

class ReplyReaderTest : public testing::Test {
 protected:
  void Stream() { reader_.OnHead(200, "text/event-stream; charset=utf-8"); }
  void Event(const std::string& json, double now) { reader_.OnBody("data: " + json + "\n\n", now); }

  RequestRecord record_;
  ReplyReader reader_{&record_, true};
};

TEST_F(ReplyReaderTest, TimesAStreamOfCompletions) {
  Stream();
  Event(R"({"choices":[{"text":"","finish_reason":null}],"usage":null})", 0.25);
  Event(R"({"choices":[{"text":"a"}]})", 0.5);
  Event(R"({"choices":[{"text":"b"}]})", 0.75);
  Event(R"({"choices":[{"text":"c","finish_reason":"length"}]})", 1.25);
  Event(
      R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4},"ropeway":{"batch_num":7,"batch":3,"batch_size":5}})",
      1.5);
  Event("[DONE]", 1.5);
  reader_.OnEnd(2);
  EXPECT_TRUE(record_.ok());
  EXPECT_EQ(record_.status, 200);
  EXPECT_EQ(record_.ttft, 0.5);
  EXPECT_THAT(record_.gaps, testing::ElementsAre(0.25F, 0.5F));
  EXPECT_EQ(record_.latency, 1.5);
  EXPECT_EQ(record_.input_tokens, 9);
  EXPECT_EQ(record_.output_tokens, 4);
  EXPECT_FALSE(record_.estimated);
  EXPECT_EQ(record_.batch_num, 7);
  EXPECT_EQ(record_.batch, 3);
  EXPECT_EQ(record_.batch_size, 5);
  EXPECT_EQ(record_.output, "abc");
}

TEST_F(ReplyReaderTest, ReadsAChatStreamAndCountsPiecesWhereTheServerDoesNot) {
  Stream();
  Event(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})", 1);
  Event(R"({"choices":[{"delta":{"reasoning_content":"Hm. "}}]})", 2);
  Event(R"({"choices":[{"delta":{"content":"Yes"}}]})", 3);
  Event(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})", 4);
  reader_.OnEnd(5);  // No [DONE]: the finish_reason suffices.
  EXPECT_TRUE(record_.ok());
  EXPECT_EQ(record_.ttft, 2);
  EXPECT_EQ(record_.latency, 5);
  EXPECT_EQ(record_.output, "Hm. Yes");
  EXPECT_TRUE(record_.estimated);
  EXPECT_EQ(record_.output_tokens, 2);
  EXPECT_FALSE(record_.batch_num.has_value());
  EXPECT_FALSE(record_.cached_tokens.has_value());
}

TEST_F(ReplyReaderTest, ReadsWhatACacheGave) {
  reader_.OnHead(200, "application/json");
  reader_.OnBody(R"({"choices":[{"text":"Hi"}],"usage":{"prompt_tokens":9,"completion_tokens":1,)"
                 R"("prompt_tokens_details":{"cached_tokens":8}},"timings":{"cache_n":3}})",
                 1);
  reader_.OnEnd(2);
  EXPECT_EQ(record_.cached_tokens, 8);
}

TEST_F(ReplyReaderTest, ReadsWhatLlamaServersCacheGave) {
  Stream();
  Event(R"({"choices":[{"text":"a","finish_reason":"length"}]})", 1);
  Event(
      R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1},"timings":{"cache_n":5}})",
      1);
  reader_.OnEnd(2);
  EXPECT_EQ(record_.cached_tokens, 5);
}

TEST_F(ReplyReaderTest, ReadsWholeAnswers) {
  reader_.OnHead(200, "application/json");
  reader_.OnBody(R"({"choices":[{"message":{"content":"Hi"}}],)", 1);
  reader_.OnBody(R"("usage":{"prompt_tokens":3,"completion_tokens":1}})", 2);
  reader_.OnEnd(3);
  EXPECT_TRUE(record_.ok());
  EXPECT_EQ(record_.latency, 3);
  EXPECT_FALSE(record_.ttft.has_value());
  EXPECT_EQ(record_.output, "Hi");
  EXPECT_EQ(record_.input_tokens, 3);
}

TEST_F(ReplyReaderTest, AnErrorEventEndsTheStream) {
  Stream();
  Event(R"({"choices":[{"text":"a"}]})", 1);
  Event(R"({"error":{"message":"The pool burns.","type":"server_error"}})", 2);
  EXPECT_FALSE(reader_.OnBody("data: [DONE]\n\n", 3));
  reader_.OnEnd(3);
  EXPECT_EQ(record_.error_kind, kErrorEvent);
  EXPECT_EQ(record_.error, "The pool burns.");
  EXPECT_EQ(record_.latency, 2);
}

TEST_F(ReplyReaderTest, AStreamThatJustEndsHasFailed) {
  Stream();
  Event(R"({"choices":[{"text":"a"}]})", 1);
  reader_.OnEnd(2);
  EXPECT_EQ(record_.error_kind, net::http_error::kEarlyEnd);
}

TEST_F(ReplyReaderTest, GarbageInAStreamHasFailed) {
  Stream();
  Event("<html>", 1);
  EXPECT_EQ(record_.error_kind, net::http_error::kBadReply);
  EXPECT_THAT(record_.error, HasSubstr("<html>"));
}

TEST_F(ReplyReaderTest, AnErrorStatusCarriesTheServersSentence) {
  reader_.OnHead(429, "application/json");
  reader_.OnBody(R"({"error":{"message":"The queue is full."}})", 1);
  reader_.OnEnd(1);
  EXPECT_EQ(record_.error_kind, "HTTP 429");
  EXPECT_EQ(record_.error, "The queue is full.");
}

TEST_F(ReplyReaderTest, AnErrorStatusWithoutJsonShowsItsText) {
  reader_.OnHead(502, "text/html");
  reader_.OnBody("Bad Gateway", 1);
  reader_.OnEnd(1);
  EXPECT_EQ(record_.error_kind, "HTTP 502");
  EXPECT_EQ(record_.error, "Bad Gateway");
}

TEST_F(ReplyReaderTest, ABreakAfterDoneIsNoFailure) {
  Stream();
  Event(R"({"choices":[{"text":"a"}]})", 1);
  Event("[DONE]", 2);
  reader_.OnBroken(net::http_error::kReset, "reset", 9);
  EXPECT_TRUE(record_.ok());
  EXPECT_EQ(record_.latency, 2);
}

TEST_F(ReplyReaderTest, ABreakBeforeIsOne) {
  Stream();
  Event(R"({"choices":[{"text":"a"}]})", 1);
  reader_.OnBroken(net::http_error::kReset, "reset by peer", 9);
  EXPECT_EQ(record_.error_kind, net::http_error::kReset);
  EXPECT_EQ(record_.error, "reset by peer");
  EXPECT_EQ(record_.latency, 9);
}

// Whatever types the fields have, nothing is thrown and a request ends once.
TEST(ReplyReader, SurvivesOddTypes) {
  for (
      const char* json :
      {"null", "[]", "7", "{}", R"({"choices":{}})", R"({"choices":[]})", R"({"choices":[null]})",
       R"({"choices":[[]]})", R"({"choices":[{"text":3,"delta":[],"message":{"content":[]}}]})",
       R"({"choices":[{"text":"x","finish_reason":3}],"usage":[],"ropeway":"x"})",
       R"({"choices":[{}],"usage":{"prompt_tokens":-1,"completion_tokens":"x"},"ropeway":{"batch_num":{}}})",
       R"({"error":null})", R"({"error":3})", R"({"error":{"message":[]}})", "\xff", "{", ""}) {
    for (const char* type : {"application/json", "text/event-stream", ""}) {
      for (int status : {200, 500}) {
        RequestRecord record;
        ReplyReader reader(&record, true);
        reader.OnHead(status, type);
        reader.OnBody(std::string("data: ") + json + "\n\n", 1);
        reader.OnEnd(2);
        EXPECT_FALSE(record.ok() && status == 500) << json;

        RequestRecord whole;
        ReplyReader whole_reader(&whole, true);
        whole_reader.OnHead(status, type);
        whole_reader.OnBody(json, 1);
        whole_reader.OnEnd(2);
        EXPECT_GE(whole.output_tokens, 0);
      }
    }
  }
}

}  // namespace
}  // namespace ropeway::loadgen
