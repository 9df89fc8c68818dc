#include "bench/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ropeway {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

int Words(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), ' ')) + 1;
}

TEST(RandomConversation, IsAPureFunctionOfItsArgumentsAndNoTwoBeginAlike) {
  const Conversation one = RandomConversation(7, 3, 4, {});
  const Conversation again = RandomConversation(7, 3, 4, {});
  const Conversation other = RandomConversation(7, 4, 4, {});
  ASSERT_EQ(one.size(), 4U);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].user, again[i].user);
    EXPECT_EQ(one[i].max_tokens, again[i].max_tokens);
    EXPECT_TRUE(one[i].assistant.empty());
  }
  EXPECT_NE(one[0].user.substr(0, 40), other[0].user.substr(0, 40));
  EXPECT_NE(one[0].user.substr(0, 40), one[1].user.substr(0, 40));
}

TEST(RandomConversation, LengthsAreLogNormalAndCutOff) {
  ChatLengths lengths;
  lengths.first_tokens = lengths.user_tokens = 100;
  lengths.answer_tokens = 40;
  lengths.spread = 0.5;
  std::vector<double> logs;
  std::vector<int> answers;
  for (int i = 0; i < 400; ++i) {
    for (const ChatTurn& turn : RandomConversation(1, i, 5, lengths)) {
      const int words = Words(turn.user);
      EXPECT_GE(words, 25);
      EXPECT_LE(words, 400);
      logs.push_back(std::log(words));
      answers.push_back(turn.max_tokens);
    }
  }
  double mean = 0;
  for (const double log : logs) mean += log / static_cast<double>(logs.size());
  double variance = 0;
  for (const double log : logs) {
    variance += (log - mean) * (log - mean) / static_cast<double>(logs.size());
  }
  // 2,000 draws: the mean's standard error is 0.011.
  EXPECT_NEAR(mean, std::log(100), 0.05);
  EXPECT_NEAR(std::sqrt(variance), 0.5, 0.05);
  std::sort(answers.begin(), answers.end());
  EXPECT_NEAR(answers[answers.size() / 2], 40, 3);
  EXPECT_GE(answers.front(), 10);
  EXPECT_LE(answers.back(), 160);
}

TEST(RandomConversation, WithoutSpreadEveryLengthIsTheMedian) {
  ChatLengths lengths;
  lengths.spread = 0;
  const Conversation chat = RandomConversation(1, 0, 3, lengths);
  for (size_t i = 0; i < chat.size(); ++i) {
    EXPECT_EQ(Words(chat[i].user), i == 0 ? lengths.first_tokens : lengths.user_tokens);
    EXPECT_EQ(chat[i].max_tokens, lengths.answer_tokens);
  }
}

TEST(MessagesOf, TakesTheServersAnswersUnlessTheTurnNamesOne) {
  const Conversation chat = {{"one", "", 5}, {"two", "forced", 5}, {"three", "", 5}};
  EXPECT_EQ(Json::parse(MessagesOf(chat, 0, {})),
            Json::parse(R"([{"role":"user","content":"one"}])"));
  EXPECT_EQ(Json::parse(MessagesOf(chat, 2, {"said", "unused"})), Json::parse(R"([
    {"role":"user","content":"one"}, {"role":"assistant","content":"said"},
    {"role":"user","content":"two"}, {"role":"assistant","content":"forced"},
    {"role":"user","content":"three"}])"));
}

// A file of these lines that is gone with the object.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("ropeway-dialogues-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
};

TEST(ReadDialogues, ForcesTheFilesTextsAndTheirLengths) {
  const TextFile file(
      "{\"task\":\"GR\",\"id\":1,\"history\":[{\"user\":\"Hi\",\"bot\":\"123456789\"},"
      "{\"user\":\"And?\",\"bot\":\"1234\"}]}\n\n"
      "{\"history\":[{\"user\":\"Second\",\"bot\":\"x\"}]}\n");
  const auto dialogues = ReadDialogues(file.path(), 10);
  ASSERT_TRUE(dialogues.ok()) << dialogues.status().message();
  ASSERT_EQ(dialogues->size(), 2U);
  const Conversation& first = (*dialogues)[0];
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].user, "Hi");
  EXPECT_EQ(first[0].assistant, "123456789");
  EXPECT_EQ(first[0].max_tokens, 3);  // 9 bytes.
  EXPECT_EQ(first[1].max_tokens, 1);
  EXPECT_EQ(ReadDialogues(file.path(), 1)->size(), 1U);
}

TEST(ReadDialogues, NamesTheLineThatIsWrong) {
  EXPECT_EQ(ReadDialogues("/no/such/file", 1).status().code(), StatusCode::kNotFound);
  const std::string good = R"({"history":[{"user":"a","bot":"b"}]})";
  for (const char* wrong :
       {"no JSON", "[]", "{}", R"({"history":[]})", R"({"history":["x"]})",
        R"({"history":[{"user":"a"}]})", R"({"history":[{"user":1,"bot":"b"}]})",
        R"({"history":[{"user":"a","bot":""}]})"}) {
    const TextFile file(good + "\n" + wrong + "\n");
    const Status status = ReadDialogues(file.path(), 10).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(status.message(), HasSubstr(", line 2: ")) << wrong;
  }
  const TextFile empty("\n");
  EXPECT_THAT(ReadDialogues(empty.path(), 10).status().message(), HasSubstr("holds no requests"));
}

}  // namespace
}  // namespace ropeway
