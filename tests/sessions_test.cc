// Sessions with the real model: a chat whose turns are a session's, and the same chat sent whole
// each time, give the same texts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ropeway/engine.h"

namespace ropeway::test {
namespace {

const std::vector<std::string>& Questions() {
  static const std::vector<std::string> questions = {
      "Name three animals that live in the sea.", "Which of them is the largest?",
      "Why?\n\nAnswer in one short sentence, please. \xF0\x9F\x90\x8B", "Thank you!"};
  return questions;
}

std::unique_ptr<Engine> Open(const std::string& state_path = "") {
  EngineOptions options;
  options.model.path = std::getenv("ROPEWAY_TEST_MODEL");
  options.model.max_model_len = 1024;
  options.cache.kv_bytes = int64_t{64} << 20;
  options.sessions.state_path = state_path;
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return *std::move(engine);
}

struct Turn {
  std::string text;
  int prompt_tokens = 0;
  int output_tokens = 0;
  std::vector<TokenId> prompt = {};  // With show_prompts_.
  bool operator==(const Turn&) const = default;
};

class SessionsTest : public testing::Test {
 protected:
  Turn Ask(Engine* engine, Request request) {
    request.sampling = sampling_;
    request.max_tokens = max_tokens_;
    request.stop = stop_;
    if (show_prompts_) request.prompt_logprobs = 0;
    auto handle = engine->Submit(std::move(request));
    EXPECT_TRUE(handle.ok()) << handle.status().message();
    if (!handle.ok()) return {};
    const Result result = handle->Wait().value();
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    Turn turn = {result.text, result.finish.usage.prompt_tokens,
                 result.finish.usage.completion_tokens};
    for (const OutputToken& token : result.prompt_tokens) turn.prompt.push_back(token.id);
    return turn;
  }

  Turn AskSession(Engine* engine, size_t turn) {
    Request request;
    request.session_id = "chat";
    Chat chat;
    if (turn == 0) chat.messages.push_back({"system", "You like the sea."});
    chat.messages.push_back({"user", Questions()[turn]});
    request.prompt = std::move(chat);
    return Ask(engine, std::move(request));
  }

  std::vector<Turn> Stateful(Engine* engine) {
    std::vector<Turn> turns;
    for (size_t i = 0; i < Questions().size(); ++i) turns.push_back(AskSession(engine, i));
    EXPECT_TRUE(engine->CloseSession("chat").ok());
    return turns;
  }

  std::vector<Turn> Stateless(Engine* engine) {
    std::vector<Turn> turns;
    Chat chat{.messages = {{"system", "You like the sea."}}};
    for (const std::string& question : Questions()) {
      chat.messages.push_back({"user", question});
      Request request;
      request.prompt = chat;
      turns.push_back(Ask(engine, std::move(request)));
      chat.messages.push_back({"assistant", turns.back().text});
    }
    return turns;
  }

  SamplingParams sampling_;
  int max_tokens_ = 40;
  std::vector<std::string> stop_;
  bool show_prompts_ = false;
};

TEST_F(SessionsTest, StatefulAndStatelessChatsAreEqual) {
  auto engine = Open();
  sampling_.temperature = 0;
  for (const int max_tokens : {40, 7}) {  // Whole answers, and such that are cut.
    max_tokens_ = max_tokens;
    EXPECT_EQ(Stateful(engine.get()), Stateless(engine.get())) << max_tokens;
  }
}

// What is sampled at temperature 1 need not be what its text encodes to. A session keeps it as it
// was sampled. A client that sends the text again has other ids from there on, and so may get other
// texts. As
// long as the ids are the same, so are the texts.
TEST_F(SessionsTest, StatefulAndStatelessChatsAreEqualAtTemperatureOne) {
  auto engine = Open();
  sampling_.temperature = 1;
  max_tokens_ = 24;
  show_prompts_ = true;
  int whole_chats = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    sampling_.seed = seed;
    const std::vector<Turn> stateful = Stateful(engine.get());
    const std::vector<Turn> stateless = Stateless(engine.get());
    size_t turn = 0;
    while (turn < stateful.size() && stateful[turn].prompt == stateless[turn].prompt) {
      EXPECT_EQ(stateful[turn].text, stateless[turn].text) << "seed " << seed << ", turn " << turn;
      ++turn;
    }
    EXPECT_GE(turn, 1U);
    if (turn == stateful.size()) ++whole_chats;
  }
  EXPECT_GE(whole_chats, 2) << "of 4 chats came back to the ids that were sampled";
}

TEST_F(SessionsTest, AStopStringLeavesNothingOfItself) {
  auto engine = Open();
  sampling_.temperature = 0;
  stop_ = {" the"};
  const std::vector<Turn> stateful = Stateful(engine.get());
  const std::vector<Turn> stateless = Stateless(engine.get());
  EXPECT_EQ(stateful, stateless);
}

TEST_F(SessionsTest, ARestartBetweenTurnsChangesNothing) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("ropeway-sessions-test-" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  sampling_.temperature = 1;
  sampling_.seed = 11;
  const std::vector<Turn> expected = Stateful(Open().get());
  for (size_t turn = 0; turn < Questions().size(); ++turn) {
    auto engine = Open(folder);
    if (turn > 0) {
      ASSERT_EQ(engine->Sessions().size(), 1U);
      const SessionInfo info = engine->Sessions().front();
      EXPECT_EQ(info.turns, static_cast<int64_t>(turn));
      EXPECT_EQ(info.tokens, expected[turn - 1].prompt_tokens + expected[turn - 1].output_tokens);
      EXPECT_TRUE(info.durable);
    }
    EXPECT_EQ(AskSession(engine.get(), turn), expected[turn]) << turn;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ropeway::test
