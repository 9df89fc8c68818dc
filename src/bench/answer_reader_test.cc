#include "bench/answer_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(AnswerReader, ReadsListsAndObjects) {
  for (const char* logprobs : {
           R"({"tokens":["a"," b"],"token_logprobs":[-0.5,-1],"top_logprobs":null})",
           R"({"content":[{"id":3,"token":"a","logprob":-0.5},{"token":" b","logprob":-1}]})",
       }) {
    const auto answer =
        ReadAnswer(std::string(R"({"choices":[{"text":"a b","logprobs":)") + logprobs + "}]}");
    ASSERT_TRUE(answer.ok());
    EXPECT_THAT(answer->tokens, ElementsAre("a", " b"));
    EXPECT_THAT(answer->logprobs, ElementsAre(-0.5, -1.0));
  }
}

TEST(AnswerReader, WithoutThemTheTextIsTheToken) {
  for (const char* logprobs :
       {"null", "{}", "3", R"({"tokens":[1],"token_logprobs":[1]})", R"({"content":[{}]})",
        R"({"tokens":["a"],"token_logprobs":[]})", R"({"tokens":7,"token_logprobs":null})"}) {
    const auto answer =
        ReadAnswer(std::string(R"({"choices":[{"text":"a b","logprobs":)") + logprobs + "}]}");
    ASSERT_TRUE(answer.ok()) << logprobs;
    EXPECT_THAT(answer->tokens, ElementsAre("a b")) << logprobs;
    EXPECT_THAT(answer->logprobs, IsEmpty()) << logprobs;
  }
}

TEST(AnswerReader, WhatIsNoCompletionIsSaid) {
  for (const char* body : {"", "[]", "{}", R"({"choices":[]})", R"({"choices":[{"text":3}]})",
                           R"({"choices":{"text":"a"}})", R"({"error":{"message":"no"}})"}) {
    EXPECT_FALSE(ReadAnswer(body).ok()) << body;
  }
}

}  // namespace
}  // namespace ropeway
