// Requests whose answers are stored, and those that go on from them, over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/test_stored_http.h"
#include "store/conversation.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class StoredTurnsTest : public StoredHttpTest {
 protected:
  json Respond(const std::string& members, int status = 200) const {
    return Told("POST", "/v1/responses", "{" + members + R"(,"max_output_tokens":2})", status);
  }
  std::string Id(const std::string& members) const { return Respond(members).value("id", ""); }

  // What the backend's last request says: "role: text" of each message.
  std::vector<std::string> LastChat() const {
    std::vector<std::string> said;
    const Request last = backend_.submitted().back();
    for (const ChatMessage& message : std::get<Chat>(last.prompt).messages) {
      said.push_back(message.role + ": " + message.content);
    }
    return said;
  }

  size_t CountItems(const std::string& conversation) const {
    return Told("GET", "/v1/conversations/" + conversation + "/items?limit=100")["data"].size();
  }
};

TEST_F(StoredTurnsTest, AResponseIsStoredUnlessItSaysNot) {
  const json reply = Respond(R"("input":"hi")");
  EXPECT_EQ(reply["store"], true);
  EXPECT_EQ(Told("GET", "/v1/responses/" + reply["id"].get<std::string>()), reply);
  const json unstored = Respond(R"("input":"hi","store":false)");
  EXPECT_EQ(unstored["store"], false);
  EXPECT_EQ(Error("GET", "/v1/responses/" + unstored["id"].get<std::string>()), "404 id not_found");
  EXPECT_EQ(objects_->List(nullptr).size(), 1U);
}

TEST_F(StoredTurnsTest, AChatIsStoredIfItSaysSo) {
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2)";
  const json reply = Told("POST", "/v1/chat/completions", body + R"(,"store":true,"n":2})");
  EXPECT_EQ(Told("GET", "/v1/chat/completions/" + reply["id"].get<std::string>()), reply);
  static_cast<void>(Told("POST", "/v1/chat/completions", body + "}"));
  EXPECT_EQ(objects_->List(nullptr).size(), 1U);
}

TEST_F(StoredTurnsTest, ATurnHasWhatWasSaidBefore) {
  const std::string first = Id(R"("input":"one","instructions":"first rule")");
  const std::string second =
      Id(R"("input":"two","instructions":"second rule","previous_response_id":")" + first + '"');
  EXPECT_THAT(LastChat(),
              ElementsAre("system: second rule", "user: one", "assistant: w0 w1 ", "user: two"));
  // What others go on from stays for them.
  EXPECT_EQ(Ask("DELETE", "/v1/responses/" + first).status, 200);
  EXPECT_EQ(Ask("DELETE", "/v1/responses/" + second).status, 200);
  EXPECT_EQ(Error("POST", "/v1/responses",
                  R"({"input":"three","previous_response_id":")" + second + "\"}"),
            "404 previous_response_id not_found");
}

TEST_F(StoredTurnsTest, AnAncestorIsDeletedForOthersOnly) {
  const std::string first = Id(R"("input":"one")");
  const std::string second = Id(R"("input":"two","previous_response_id":")" + first + '"');
  EXPECT_EQ(Ask("DELETE", "/v1/responses/" + first).status, 200);
  EXPECT_EQ(Error("GET", "/v1/responses/" + first), "404 id not_found");
  static_cast<void>(Respond(R"("input":"three","previous_response_id":")" + second + '"'));
  EXPECT_EQ(LastChat().size(), 5U);
  // An answer that is not stored may go on from one that is.
  static_cast<void>(
      Respond(R"("input":"x","store":false,"previous_response_id":")" + second + '"'));
  EXPECT_EQ(LastChat().size(), 5U);
}

TEST_F(StoredTurnsTest, ATurnOfAConversationIsAppended) {
  const std::string id = Told("POST", "/v1/conversations", "{}")["id"];
  static_cast<void>(Respond(R"("input":"one","conversation":")" + id + '"'));
  const json reply = Respond(R"("input":"two","conversation":{"id":")" + id + "\"}");
  EXPECT_EQ(reply["conversation"]["id"], id);
  EXPECT_THAT(LastChat(), ElementsAre("user: one", "assistant: w0 w1 ", "user: two"));
  EXPECT_EQ(CountItems(id), 4U);
  // Its turns are gone on from by the conversation alone.
  EXPECT_EQ(Error("POST", "/v1/responses",
                  R"({"input":"x","previous_response_id":)" + reply["id"].dump() + "}"),
            "400 previous_response_id -");
  EXPECT_THAT(last_message_, HasSubstr("is a turn of the conversation '" + id + "'"));
}

TEST_F(StoredTurnsTest, AConversationHasOneTurnAtATime) {
  backend_.set_script(EndlessScript);
  const std::string id = Told("POST", "/v1/conversations", "{}")["id"];
  const std::string turn = R"({"input":"x","conversation":")" + id + "\"";
  const std::string path = BeginAt("/v1/responses", turn);
  EXPECT_EQ(Error("POST", "/v1/responses", turn + "}"), "409 conversation conversation_busy");
  const std::string answer = path.substr(path.rfind('/') + 1);
  EXPECT_EQ(last_message_,
            "The conversation '" + id + "' has a turn under way, the answer '" + answer + "'.");
  const ClientReply busy = Ask("DELETE", "/v1/conversations/" + id);
  EXPECT_EQ(busy.status, 409);
  EXPECT_THAT(busy.body, HasSubstr(answer));
  EXPECT_EQ(busy.headers.at("retry-after"), "1");
  EXPECT_EQ(Ask("POST", path + "/cancel").status, 200);
  EXPECT_TRUE(Reaches(path, "cancelled"));
  EXPECT_EQ(CountItems(id), 0U);
  backend_.set_script([](const Request&) { return FakeScript(); });
  EXPECT_TRUE(Eventually([&] {
    return Ask("POST", "/v1/responses", turn + R"(,"max_output_tokens":2})").status == 200;
  }));
  EXPECT_EQ(CountItems(id), 2U);
}

TEST_F(StoredTurnsTest, OfATooLongPromptTheHistoryIsNamed) {
  const std::string id = Told("POST", "/v1/conversations", "{}")["id"];
  const std::string first = Respond(R"("input":"one")")["id"];
  const auto error = [this](const std::string& more) {
    return Error("POST", "/v1/responses", R"({"input":"x",)" + more + "}") + ": " + last_message_;
  };
  for (const bool at_once : {true, false}) {
    backend_.set_script([at_once](const Request&) {
      FakeScript script;
      Status* const status = at_once ? &script.rejection : &script.failure;
      *status = InvalidArgument("the prompt is too long", "messages");
      status->set_api_code("context_length_exceeded");
      script.fail_after = at_once ? -1 : 0;
      script.fail_unadmitted = true;
      return script;
    });
    EXPECT_EQ(error(R"("conversation":")" + id + "\""),
              "400 conversation context_length_exceeded: the prompt is too long; the "
              "conversation's items count, too: delete some, or begin a new one");
    for (const char* store : {"true", "false"}) {
      EXPECT_EQ(
          error(std::string(R"("store":)") + store + R"(,"previous_response_id":")" + first + "\""),
          "400 previous_response_id context_length_exceeded: the prompt is too long; what "
          "the response goes on from counts, too: go on from an earlier one, or begin anew");
    }
    EXPECT_EQ(error(R"("store":true)"),
              "400 input context_length_exceeded: the prompt is too long");
  }
}

TEST_F(StoredTurnsTest, AConversationIsBusyAfterARestartToo) {
  backend_.set_script(EndlessScript);
  const std::string id = Told("POST", "/v1/conversations", "{}")["id"];
  const std::string turn = R"({"input":"x","conversation":")" + id + "\"";
  const std::string path = BeginAt("/v1/responses", turn);
  StartStored();
  EXPECT_EQ(Error("POST", "/v1/responses", turn + "}"), "409 conversation conversation_busy");
  ASSERT_TRUE(backend_.WaitActive(1));
  EXPECT_EQ(Ask("POST", path + "/cancel").status, 200);
  EXPECT_TRUE(Reaches(path, "cancelled"));
}

TEST_F(StoredTurnsTest, TheLogHasALineOfEachAnswerInTheBackground) {
  server_.reset();  // No thread may use the logger meanwhile.
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  ServerOptions options;
  options.access_log = true;
  StartStored(options);
  const std::string ask = R"({"input":"my-private-words","max_output_tokens":2)";
  std::vector<std::string> ids;
  const auto begin = [&](FakeScript script) {
    backend_.set_script([script](const Request&) { return script; });
    const std::string path = BeginAt("/v1/responses", ask);
    ids.push_back(path.substr(path.rfind('/') + 1));
    return path;
  };
  EXPECT_TRUE(Reaches(begin({}), "incomplete"));
  FakeScript fails;
  fails.fail_after = 1;
  fails.failure = Status(StatusCode::kInternal, "a row has\nno logit");
  EXPECT_TRUE(Reaches(begin(fails), "failed"));
  FakeScript endless;
  endless.endless = true;
  const std::string path = begin(endless);
  StartStored(options);
  ASSERT_TRUE(backend_.WaitActive(1));
  EXPECT_EQ(Ask("POST", path + "/cancel").status, 200);
  EXPECT_TRUE(Reaches(path, "cancelled"));
  server_.reset();
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  EXPECT_THAT(text, HasSubstr("answer_id=" + ids[0]));
  EXPECT_THAT(text, HasSubstr("answer id=" + ids[0] +
                              " state=incomplete tokens_in=3 tokens_out=2 total_ms="));
  EXPECT_THAT(text, testing::ContainsRegex("answer id=" + ids[1] +
                                           " state=failed tokens_in=3 tokens_out=1 total_ms=.* "
                                           "error=\"a row has"));
  EXPECT_THAT(text, HasSubstr("answer id=" + ids[2] + " state=parked "));
  EXPECT_THAT(text, HasSubstr("stored answers that were under way and go on: 1\n"));
  EXPECT_THAT(text, HasSubstr("answer id=" + ids[2] + " goes on behind "));
  EXPECT_THAT(text, HasSubstr("answer id=" + ids[2] + " state=cancelled "));
  EXPECT_THAT(text, testing::Not(HasSubstr("my-private-words")));
}

TEST_F(StoredTurnsTest, AnAncestorThatIsDeletedIsThereForWhatGoesOnAfterARestart) {
  backend_.set_step_pause(std::chrono::milliseconds(1));
  const std::string first = Id(R"("input":"one")");
  const std::string path =
      BeginAt("/v1/responses",
              R"({"input":"two","max_output_tokens":300,"previous_response_id":")" + first + '"');
  EXPECT_EQ(Ask("DELETE", "/v1/responses/" + first).status, 200);
  StartStored();
  EXPECT_TRUE(Reaches(path, "incomplete"));
  EXPECT_EQ(LastChat().size(), 3U);
}

TEST_F(StoredTurnsTest, AnIdIsInAConversationOnce) {
  const std::string id = Told("POST", "/v1/conversations", "{}")["id"];
  const std::string turn =
      R"("input":[{"id":"msg_mine","role":"user","content":"x"}],"conversation":")" + id + '"';
  static_cast<void>(Respond(turn));
  static_cast<void>(Respond(turn));
  std::set<std::string> ids;
  const json items = Told("GET", "/v1/conversations/" + id + "/items");
  for (const json& item : items["data"]) {
    ids.insert(item["id"].get<std::string>());
  }
  EXPECT_EQ(ids.size(), 4U);
}

TEST_F(StoredTurnsTest, AConversationGrowsWithinTheBudget) {
  SessionOptions bounds;
  bounds.store_bytes = 1 << 20;
  StartStored({}, bounds);
  const std::string path = "/v1/conversations/" +
                           Told("POST", "/v1/conversations", "{}")["id"].get<std::string>() +
                           "/items";
  const std::string body =
      R"({"items":[{"role":"user","content":")" + std::string(200'000, 'x') + "\"}]}";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask("POST", path, body).status, 200) << i;
  EXPECT_EQ(Ask("POST", path, body).status, 429);
  EXPECT_EQ(Told("GET", path)["data"].size(), 5U);
}

TEST_F(StoredTurnsTest, AFullConversationTakesNoTurn) {
  store::Conversation conversation;
  conversation.items.assign(kMostConversationItems, "{}");
  store::ObjectChange change;
  change.name = {store::ObjectKind::kConversation, "", "conv_1"};
  change.fixed = "";
  change.state = store::PackConversation(conversation);
  ASSERT_TRUE(objects_->Write({change}, nullptr).ok());
  EXPECT_EQ(Error("POST", "/v1/responses", R"({"input":"x","conversation":"conv_1"})"),
            "400 conversation -");
  EXPECT_THAT(last_message_, HasSubstr("is full: it may have 10000 items"));
}

TEST_F(StoredTurnsTest, ATurnThatIsNotStoredLeavesNoItems) {
  const std::string id = Told("POST", "/v1/conversations", "{}")["id"];
  const std::string turn = R"({"input":"x","max_output_tokens":2,"conversation":")" + id + "\"}";
  control_->CloseGate();
  backend_.set_script([this](const Request&) {
    control_->disk_full = true;  // While it is computed.
    return FakeScript();
  });
  control_->OpenGate();
  EXPECT_EQ(Ask("POST", "/v1/responses", turn).status, 503);
  backend_.set_script([](const Request&) { return FakeScript(); });
  control_->disk_full = false;
  ASSERT_TRUE(Eventually([&] { return objects_->CheckRoom("", 100).ok(); }));
  EXPECT_EQ(CountItems(id), 0U);
  StartStored();
  EXPECT_EQ(CountItems(id), 0U);
  EXPECT_TRUE(Eventually([&] { return Ask("POST", "/v1/responses", turn).status == 200; }));
  EXPECT_EQ(CountItems(id), 2U);
}

TEST_F(StoredTurnsTest, WhatCannotBeGoneOnFromNamesTheField) {
  const auto goes_on = [this](const std::string& members) {
    return Error("POST", "/v1/responses", R"({"input":"x",)" + members + "}");
  };
  EXPECT_EQ(goes_on(R"("previous_response_id":"resp_0")"), "404 previous_response_id not_found");
  EXPECT_EQ(goes_on(R"("conversation":"conv_0")"), "404 conversation not_found");
  EXPECT_EQ(goes_on(R"("conversation":"conv_0","previous_response_id":"resp_0")"),
            "400 previous_response_id -");
  EXPECT_EQ(goes_on(R"("conversation":"conv_0","store":false)"), "400 conversation -");
  EXPECT_EQ(goes_on(R"("background":true,"store":false)"), "400 background -");
  const std::string chat =
      Ended(api::MakeOpenAiChat, R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(goes_on(R"("previous_response_id":")" + chat + '"'), "400 previous_response_id -");
  backend_.set_script(EndlessScript);
  const std::string running = Begin();
  const std::string id = running.substr(running.rfind('/') + 1);
  EXPECT_EQ(goes_on(R"("previous_response_id":")" + id + '"'), "400 previous_response_id -");
  EXPECT_EQ(Ask("POST", running + "/cancel").status, 200);
  EXPECT_TRUE(Reaches(running, "cancelled"));
  EXPECT_EQ(goes_on(R"("previous_response_id":")" + id + '"'), "400 previous_response_id -");
  EXPECT_THAT(last_message_, HasSubstr("is cancelled"));
}

TEST_F(StoredTurnsTest, AnotherTenantsTurnsAreNotThere) {
  StartWithTenants();
  const std::string body = R"({"input":"x","max_output_tokens":2)";
  const std::string id = Told("POST", "/v1/responses", body + "}", 200, "key-of-one-1")["id"];
  const std::string goes_on = body + R"(,"previous_response_id":")" + id + "\"}";
  EXPECT_EQ(Error("POST", "/v1/responses", goes_on, "key-of-two-2"),
            "404 previous_response_id not_found");
  EXPECT_EQ(Ask("POST", "/v1/responses", goes_on, "key-of-one-1").status, 200);
}

TEST_F(StoredTurnsTest, AStreamIsCancelledWhenItsClientLeaves) {
  backend_.set_script(EndlessScript);
  TestClient client(port());
  client.Send(PostBytes("/v1/responses", R"({"input":"x","stream":true})"));
  static_cast<void>(client.ReadHead());
  ASSERT_EQ(objects_->Opened().size(), 1U);  // Its id has left.
  const std::string path = "/v1/responses/" + objects_->Opened().front().name.id;
  client.Close(true);
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_TRUE(Reaches(path, "cancelled"));
}

TEST_F(StoredTurnsTest, AStreamInTheBackgroundNeedsNoClient) {
  backend_.set_step_pause(std::chrono::milliseconds(2));
  TestClient client(port());
  client.Send(PostBytes("/v1/responses", R"({"input":"x","stream":true,"background":true})"));
  static_cast<void>(client.ReadHead());
  ASSERT_EQ(objects_->Opened().size(), 1U);
  const std::string path = "/v1/responses/" + objects_->Opened().front().name.id;
  client.Close(true);
  EXPECT_TRUE(Reaches(path, "incomplete"));
  EXPECT_EQ(backend_.cancelled(), 0);
}

TEST_F(StoredTurnsTest, AStoredStreamHasTheEventsOfOneThatIsNot) {
  const auto events = [this](const std::string& more) {
    std::string body =
        Ask("POST", "/v1/responses", R"({"input":"x","stream":true,"seed":1)" + more + "}").body;
    body = std::regex_replace(body, std::regex("[0-9a-f]{24,32}"), "ID");
    body = std::regex_replace(body, std::regex("\"created_at\":[0-9]+"), "");
    return std::regex_replace(body, std::regex("\"store\":(true|false)"), "");
  };
  const std::string stored = events("");
  EXPECT_THAT(stored, HasSubstr("response.output_text.delta"));
  EXPECT_EQ(stored, events(R"(,"store":false)"));
}

// A request that the backend does not take is an error, and nothing is stored.
TEST_F(StoredTurnsTest, WhatIsRejectedInTheBackgroundIsAnError) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_unadmitted = true;
    script.failure = InvalidArgument("The prompt is too long.", "input");
    return script;
  });
  const std::string body = R"({"input":"x","background":true})";
  EXPECT_EQ(Error("POST", "/v1/responses", body), "400 input -");
  EXPECT_TRUE(objects_->List(nullptr).empty());
}

// No client waits for it, so it may wait for longer than others do.
TEST_F(StoredTurnsTest, WhatTheQueueHasNoRoomForIsQueuedInTheBackground) {
  backend_.set_rejection({StatusCode::kResourceExhausted, "The queue is full."});
  const json told = Told("POST", "/v1/responses", R"({"input":"x","background":true})");
  EXPECT_EQ(told["status"], "queued");
  EXPECT_EQ(Ask("POST", "/v1/responses", R"({"input":"x"})").status, 429);
  backend_.set_rejection({});
  EXPECT_TRUE(Reaches("/v1/responses/" + told["id"].get<std::string>(), "incomplete"));
  EXPECT_EQ(backend_.submitted().back().priority, Priority::kLow);
  Told("POST", "/v1/responses", R"({"input":"x","background":true,"priority":"high"})");
  EXPECT_EQ(backend_.submitted().back().priority, Priority::kHigh);
}

TEST_F(StoredTurnsTest, WhatWaitsLongInTheBackgroundGetsItsIdMeanwhile) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.admit = false;
    return script;
  });
  const std::string path = Begin();
  EXPECT_TRUE(Reaches(path, "queued"));
  EXPECT_EQ(Ask("POST", path + "/cancel").status, 200);
  EXPECT_TRUE(Reaches(path, "cancelled"));
}

}  // namespace
}  // namespace ropeway::server
