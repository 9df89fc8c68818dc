#include "cli/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace ropeway::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

StatusOr<std::vector<PromptLine>> Read(const std::string& text, const RunFlags& flags = {}) {
  std::istringstream input(text);
  return ReadPrompts(input, "prompts", flags);
}

TEST(PromptsFile, EachLineIsAPromptAndEmptyOnesAreNone) {
  RunFlags flags;
  flags.system = "Be brief.";
  flags.request.max_tokens = 7;
  const auto lines = Read("one\n\n two \r\n{three\n[4]\n\n", flags);
  ASSERT_TRUE(lines.ok());
  ASSERT_EQ(lines->size(), 4u);
  EXPECT_EQ((*lines)[1].text, " two ");
  EXPECT_EQ((*lines)[2].text, "{three");
  const auto& chat = std::get<Chat>((*lines)[0].request.prompt).messages;
  ASSERT_EQ(chat.size(), 2u);
  EXPECT_EQ(chat[0].content, "Be brief.");
  EXPECT_EQ(chat[1].content, "one");
  EXPECT_EQ((*lines)[0].request.max_tokens, 7);
}

TEST(PromptsFile, JsonLinesOverrideTheFlags) {
  RunFlags flags;
  flags.raw = true;
  flags.request.max_tokens = 7;
  flags.request.stop = {"x"};
  const auto lines = Read(
      "{\"prompt\": \"a\", \"max_tokens\": 3, \"temperature\": 0, \"seed\": 9, \"top_k\": 5,"
      " \"stop\": [\"y\", \"z\"]}\n{\"prompt\": \"b\"}\n",
      flags);
  ASSERT_TRUE(lines.ok()) << lines.status().message();
  const Request& first = (*lines)[0].request;
  EXPECT_EQ(std::get<std::string>(first.prompt), "a");
  EXPECT_EQ(first.max_tokens, 3);
  EXPECT_EQ(first.sampling.temperature, 0);
  EXPECT_EQ(first.sampling.seed, 9u);
  EXPECT_EQ(first.sampling.top_k, 5);
  EXPECT_THAT(first.stop, ElementsAre("y", "z"));
  EXPECT_EQ((*lines)[1].request.max_tokens, 7);
  EXPECT_THAT((*lines)[1].request.stop, ElementsAre("x"));
}

TEST(PromptsFile, WhatIsWrongIsNamedWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no prompt"},
      {"\n\n", "no prompt"},
      {"{\"prompt\": \"a\"}\nplain\n", "prompts:2: expected a JSON object"},
      {"{\"prompt\": \"a\"}\n\n{\"prompt\": 3}\n", "prompts:3: 'prompt' must be a string"},
      {"{\"x\": 1}\n", "prompts:1: Unknown field 'x'"},
      {"{}\n", "prompts:1: the field 'prompt' is missing"},
      {"{\"prompt\": \"a\", \"max_tokens\": -2}\n", "'max_tokens' must be an integer from 0 to"},
      {"{\"prompt\": \"a\", \"max_tokens\": 1.5}\n", "'max_tokens'"},
      {"{\"prompt\": \"a\", \"max_tokens\": 99999999999999999999999}\n", "'max_tokens'"},
      {"{\"prompt\": \"a\", \"seed\": 18446744073709551616}\n", "'seed' must be a 64-bit integer"},
      {"{\"prompt\": \"a\", \"temperature\": 3}\n",
       "'temperature' must be a number of at least 0 and at most 2"},
      {"{\"prompt\": \"a\", \"top_p\": 0}\n", "'top_p' must be a number above 0 and at most 1"},
      {"{\"prompt\": \"a\", \"stop\": [1]}\n", "'stop' must be a string or a list of strings"},
  };
  for (const auto& [text, expected] : cases) {
    const auto lines = Read(text);
    ASSERT_FALSE(lines.ok()) << text;
    EXPECT_THAT(lines.status().message(), HasSubstr(expected)) << text;
  }
  EXPECT_FALSE(Read(std::string((1 << 20) + 1, 'a')).ok());
  EXPECT_FALSE(Read("{\"prompt\": \"a\"}\n{\"prompt\": " + std::string(100000, '[') + "\n").ok());
}

TEST(BatchTracker, ABatchIsCompleteWhenItsRequestsEndedAndALaterOneHasBegun) {
  BatchTracker tracker;
  for (const RequestId id : {1, 2}) tracker.OnDelta(id, 5);
  tracker.OnEnd(1, 5);
  EXPECT_THAT(tracker.TakeComplete(), IsEmpty());  // 2 still runs.
  tracker.OnDelta(3, 6);
  EXPECT_THAT(tracker.TakeComplete(), IsEmpty());
  tracker.OnEnd(2, 5);
  EXPECT_THAT(tracker.TakeComplete(), ElementsAre(Pair(5, ElementsAre(1, 2))));
  tracker.OnEnd(3, 6);
  EXPECT_THAT(tracker.TakeComplete(), IsEmpty());  // Others may have started with it.
  tracker.OnDelta(4, 7);
  EXPECT_THAT(tracker.TakeComplete(), ElementsAre(Pair(6, ElementsAre(3))));
}

TEST(BatchTracker, AtTheEndAllBatchesAreComplete) {
  BatchTracker tracker;
  tracker.OnDelta(1, 5);
  tracker.OnEnd(1, 5);
  tracker.OnDelta(2, 5);
  tracker.OnEnd(2, 5);
  tracker.OnDelta(3, 6);
  tracker.OnEnd(3, 6);
  EXPECT_THAT(tracker.TakeComplete(), ElementsAre(Pair(5, ElementsAre(1, 2))));
  EXPECT_THAT(tracker.TakeComplete(true), ElementsAre(Pair(6, ElementsAre(3))));
  EXPECT_THAT(tracker.TakeComplete(true), IsEmpty());
}

TEST(BatchTracker, RequestsThatNeverStartedAreReportedAtOnce) {
  BatchTracker tracker;
  tracker.OnDelta(1, 5);
  tracker.OnEnd(2, 0);
  EXPECT_THAT(tracker.TakeComplete(), ElementsAre(Pair(0, ElementsAre(2))));
}

}  // namespace
}  // namespace ropeway::cli
