#include "loadgen/work_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace ropeway::loadgen {
namespace {

using testing::HasSubstr;

class WorkFileTest : public testing::Test {
 protected:
  ~WorkFileTest() override { std::remove(path_.c_str()); }

  std::string Write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }

 private:
  const std::string path_ =
      fmt::format("{}work_file_test_{}_{}", testing::TempDir(),
                  testing::UnitTest::GetInstance()->current_test_info()->name(), getpid());
};

TEST_F(WorkFileTest, ReadsADataset) {
  auto prompts = ReadDataset(Write("{\"prompt\": \"Why?\", \"max_tokens\": 3}\r\n"
                                   "\n"
                                   "{\"prompt\": [1, 2], \"id\": 7}\n"
                                   "{\"turns\": [\"One.\", \"Two.\"]}\n"
                                   "{\"prompt\": \"never read\"}\n"),
                             false, 64, 3);
  ASSERT_TRUE(prompts.ok()) << prompts.status().message();
  ASSERT_EQ(prompts->size(), 3U);
  EXPECT_EQ(prompts.value()[0].text, "Why?");
  EXPECT_EQ(prompts.value()[0].max_tokens, 3);
  EXPECT_THAT(prompts.value()[1].ids, testing::ElementsAre(1, 2));
  EXPECT_EQ(prompts.value()[1].max_tokens, 64);
  EXPECT_EQ(prompts.value()[2].text, "One.");
}

TEST_F(WorkFileTest, ReadsMessagesForChats) {
  const std::string line = R"({"messages": [{"role": "user", "content": "Hi"}]})";
  auto prompts = ReadDataset(Write(line), true, 64, 9);
  ASSERT_TRUE(prompts.ok()) << prompts.status().message();
  EXPECT_EQ(prompts.value()[0].messages, R"([{"content":"Hi","role":"user"}])");
  auto rejected = ReadDataset(Write(line), false, 64, 9);
  ASSERT_FALSE(rejected.ok());
  EXPECT_THAT(rejected.status().message(), HasSubstr("line 1: \"messages\" need --endpoint chat"));
}

TEST_F(WorkFileTest, RejectsADatasetByItsLine) {
  for (const char* line :
       {"nonsense", "[]", "{}", R"({"prompt": ""})", R"({"prompt": 3})", R"({"prompt": []})",
        R"({"prompt": [-1]})", R"({"prompt": ["a"]})", R"({"prompt": "a", "max_tokens": 0})",
        R"({"prompt": "a", "max_tokens": "b"})", R"({"prompt": "a", "max_tokens": -3})",
        R"({"turns": []})", R"({"turns": 3})", R"({"messages": []})", R"({"messages": "x"})"}) {
    auto prompts = ReadDataset(Write(std::string("{\"prompt\": \"good\"}\n") + line), true, 64, 9);
    ASSERT_FALSE(prompts.ok()) << line;
    EXPECT_THAT(prompts.status().message(), HasSubstr("line 2")) << line;
  }
  EXPECT_FALSE(ReadDataset(Write("\n\n"), true, 64, 9).ok());
  EXPECT_THAT(ReadDataset("no/such/file", true, 64, 9).status().message(),
              HasSubstr("Cannot read 'no/such/file'"));
}

TEST_F(WorkFileTest, ReadsAzuresTrace) {
  auto trace = ReadTrace(Write("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                               "2023-11-16 23:59:59.5000000,4808,10\n"
                               "2023-11-17 00:00:00.2500000,110,27\n"
                               "2023-11-17 00:00:02.5000000,7,0\n"),
                         9, 1000);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->too_long, 1);
  ASSERT_EQ(trace->entries.size(), 2U);
  EXPECT_EQ(trace->entries[0].input_tokens, 110);
  EXPECT_EQ(trace->entries[0].max_tokens, 27);
  EXPECT_EQ(trace->entries[0].arrival, 0);
  EXPECT_DOUBLE_EQ(*trace->entries[1].arrival, 2.25);
  EXPECT_EQ(trace->entries[1].max_tokens, 1);
}

TEST_F(WorkFileTest, ReadsTheOtherTraces) {
  auto arena = ReadTrace(
      Write("arrival_s,client,input_tokens,output_tokens\n1.5,13,13,199\n2.0,2,36,137\n"), 9, 0);
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  EXPECT_EQ(arena->entries[1].arrival, 0.5);
  EXPECT_EQ(arena->entries[1].input_tokens, 36);
  EXPECT_EQ(arena->entries[0].client, 13);

  auto lengths = ReadTrace(
      Write("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n"), 9,
      0);
  ASSERT_TRUE(lengths.ok()) << lengths.status().message();
  EXPECT_EQ(lengths->entries[0].max_tokens, 918);
  EXPECT_FALSE(lengths->entries[0].arrival.has_value());

  auto mooncake = ReadTrace(
      Write(
          "{\"timestamp\": 500, \"input_length\": 6, \"output_length\": 5, \"hash_ids\": [0, 7]}\n"
          "{\"timestamp\": 2000, \"input_length\": 7, \"output_length\": 4}\n"),
      9, 0);
  ASSERT_TRUE(mooncake.ok()) << mooncake.status().message();
  EXPECT_EQ(mooncake->entries[1].arrival, 1.5);
  EXPECT_EQ(mooncake->entries[1].input_tokens, 7);
}

TEST_F(WorkFileTest, RejectsATraceByItsLine) {
  for (const char* text :
       {"a,b\n1,2\n", "input_tokens,output_tokens\n1\n", "input_tokens,output_tokens\n1,x\n",
        "input_tokens,output_tokens\n-1,2\n", "input_tokens,output_tokens\n1.5,2\n",
        "input_tokens,output_tokens\n1e99,2\n", "client,input_tokens,output_tokens\nx,1,2\n",
        "input_tokens,output_tokens,arrival_s\n1,2,nan\n",
        "TIMESTAMP,input_tokens,output_tokens\n2023-13-16 10:00:00,1,2\n", "{\n{}\n",
        "priority,input_tokens,output_tokens\nurgent,1,2\n"}) {
    auto trace = ReadTrace(Write(text), 9, 0);
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_THAT(trace.status().message(), HasSubstr("line ")) << text;
  }
  for (const auto& [value, expected] :
       {std::pair("1,2,x,3", "\"client\" must be a whole number"),
        std::pair("1,2,-2,3", "\"client\" must be a whole number"),
        std::pair("1,2,0,nan", "\"arrival_s\" must be a number"),
        std::pair("x,2,0,0", "\"input_tokens\" must be a number of tokens"),
        std::pair("1,2", "it has 2 fields, but the header has 4")}) {
    const std::string header = "input_tokens,output_tokens,client,arrival_s\n";
    EXPECT_THAT(ReadTrace(Write(header + value + "\n"), 9, 0).status().message(),
                HasSubstr(std::string("line 2: ") + expected));
  }
  EXPECT_THAT(ReadTrace(Write("arrival_s,input_tokens,output_tokens\n2,1,1\n1,1,1\n"), 9, 0)
                  .status()
                  .message(),
              HasSubstr("line 3: it arrives before the request of the line above"));
  EXPECT_FALSE(ReadTrace(Write("input_tokens,output_tokens\n"), 9, 0).ok());
}

TEST_F(WorkFileTest, TracesTellClientsAndClasses) {
  auto trace =
      ReadTrace(Write("client,priority,input_tokens,output_tokens\n3,low,1,2\n0,high,1,2\n"), 9, 0);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->entries[0].client, 3);
  EXPECT_EQ(trace->entries[0].priority, Priority::kLow);
  EXPECT_EQ(trace->entries[1].priority, Priority::kHigh);
}

TEST_F(WorkFileTest, DataSetsMayTellArrivals) {
  auto prompts = ReadDataset(
      Write("{\"prompt\": \"a\", \"arrival_s\": 0.5}\n{\"prompt\": [1], \"arrival_s\": 2}\n"),
      false, 7, 9);
  ASSERT_TRUE(prompts.ok()) << prompts.status().message();
  EXPECT_EQ((*prompts)[1].arrival, 2);
  for (const char* second : {"{\"prompt\": \"b\"}\n", "{\"prompt\": \"b\", \"arrival_s\": 0.4}\n",
                             "{\"prompt\": \"b\", \"arrival_s\": \"x\"}\n"}) {
    const std::string first = "{\"prompt\": \"a\", \"arrival_s\": 0.5}\n";
    EXPECT_THAT(ReadDataset(Write(first + second), false, 7, 9).status().message(),
                HasSubstr("line 2"))
        << second;
  }
}

TEST_F(WorkFileTest, ReadsConversations) {
  auto read = ReadConversations(Write("{\"turns\":[{\"user\":\"Hi\",\"assistant\":\"Yes?\",\"max_"
                                      "tokens\":3},{\"user\":\"And?\","
                                      "\"max_tokens\":1}],\"first_turn\":1}\n\n{\"turns\":[{"
                                      "\"user\":\"x\",\"max_tokens\":2}]}\n"),
                                10);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 2U);
  const Conversation& first = (*read)[0];
  EXPECT_EQ(first.first_turn, 1);
  ASSERT_EQ(first.turns.size(), 2U);
  EXPECT_EQ(first.turns[0].assistant, "Yes?");
  EXPECT_EQ(first.turns[0].max_tokens, 3);
  EXPECT_EQ(first.turns[1].assistant, "");
}

TEST_F(WorkFileTest, RejectsConversationsByTheirLine) {
  EXPECT_EQ(ReadConversations("/no/such/file", 1).status().code(), StatusCode::kNotFound);
  const std::string good = R"({"turns":[{"user":"a","max_tokens":1}]})";
  for (const char* wrong :
       {"no JSON", "[]", "{}", R"({"turns":[]})", R"({"turns":["x"]})",
        R"({"turns":[{"user":"a"}]})", R"({"turns":[{"user":1,"max_tokens":1}]})",
        R"({"turns":[{"user":"a","max_tokens":0}]})", R"({"turns":[{"user":"","max_tokens":1}]})",
        R"({"turns":[{"user":"a","max_tokens":1}],"first_turn":1})"}) {
    const Status status = ReadConversations(Write(good + "\n" + wrong + "\n"), 10).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(status.message(), HasSubstr(", line 2: ")) << wrong;
  }
  EXPECT_THAT(ReadConversations(Write("\n"), 10).status().message(),
              HasSubstr("contains no requests"));
}

}  // namespace
}  // namespace ropeway::loadgen
