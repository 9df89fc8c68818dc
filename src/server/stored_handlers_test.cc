#include "server/stored_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/test_stored_http.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kChat[] = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2)";

// The stored answers of one dialect.
struct AnswersPath {
  const char* path;
  const char* deleted;  // What a deletion is called.
  api::ApiFormatMaker dialect;
  std::string body;
};

const std::vector<AnswersPath>& AllPaths() {
  static const std::vector<AnswersPath> paths = {
      {"/v1/responses", "response", api::MakeOpenAiResponses,
       R"({"input":"hi","max_output_tokens":2})"},
      {"/v1/chat/completions", "chat.completion.deleted", api::MakeOpenAiChat,
       std::string(kChat) + "}"},
      {"/v1/completions", "text_completion.deleted", api::MakeOpenAiCompletions,
       R"({"prompt":"hi","max_tokens":2})"}};
  return paths;
}

std::string IdOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class StoredRoutesTest : public StoredHttpTest {};

TEST_F(StoredRoutesTest, AnAnswerIsFetchedAndDeletedByItsId) {
  for (const auto& [path, deleted, dialect, body] : AllPaths()) {
    const std::string id = Ended(dialect, body);
    const std::string of_id = std::string(path) + "/" + id;
    const json shown = Told("GET", of_id);
    EXPECT_EQ(shown["id"], id);
    EXPECT_EQ(shown["status"], "incomplete") << "max_tokens cut it";
    EXPECT_EQ(Told("GET", of_id.substr(3) + "/"), shown) << "without /v1, and with a slash";
    EXPECT_EQ(Told("POST", of_id + "/cancel"), shown) << "what has ended stays as it is";
    EXPECT_EQ(Told("DELETE", of_id), (json{{"id", id}, {"object", deleted}, {"deleted", true}}));
    EXPECT_EQ(Error("GET", of_id), "404 id not_found");
    EXPECT_THAT(last_message_, HasSubstr(id));
    EXPECT_EQ(Error("DELETE", of_id), "404 id not_found");
    EXPECT_EQ(Error("POST", of_id + "/cancel"), "404 id not_found");
  }
}

// What a gateway's servers draw instead would be another one than the record has.
TEST_F(StoredRoutesTest, ADrawnSeedIsPassedOn) {
  Told("POST", "/v1/responses", R"({"input":"hi","max_output_tokens":2})");
  const SamplingParams sampling = backend_.submitted().back().sampling;
  ASSERT_TRUE(sampling.seed);
  EXPECT_NE(sampling.given & SamplingParams::kSeed, 0U);
}

TEST_F(StoredRoutesTest, AnAnswerIsFetchedAsItWasSent) {
  for (const auto& [path, deleted, dialect, body] : AllPaths()) {
    if (dialect == api::MakeOpenAiCompletions) continue;  // It is stored in the background alone.
    const std::string stored = body.substr(0, body.size() - 1) + R"(,"store":true})";
    const json sent = Told("POST", path, stored);
    EXPECT_EQ(sent["status"], "incomplete");
    EXPECT_EQ(Told("GET", path + ("/" + sent["id"].get<std::string>())), sent);
  }
}

TEST_F(StoredRoutesTest, AnotherDialectsIdIsNotThere) {
  const std::string chat = Ended(api::MakeOpenAiChat, std::string(kChat) + "}");
  for (const char* other : {"/v1/responses/", "/v1/completions/"}) {
    EXPECT_EQ(Error("GET", other + chat), "404 id not_found");
    EXPECT_EQ(Error("GET", other + chat + "?stream=true"), "404 id not_found");
    EXPECT_EQ(Error("DELETE", other + chat), "404 id not_found");
    EXPECT_EQ(Error("POST", other + chat + "/cancel"), "404 id not_found");
  }
  EXPECT_EQ(Error("GET", "/v1/responses/" + chat + "/input_items"), "404 id not_found");
  EXPECT_EQ(Error("GET", "/v1/conversations/" + chat), "404 id not_found");
  EXPECT_EQ(Ask("GET", "/v1/chat/completions/" + chat).status, 200);
}

TEST_F(StoredRoutesTest, WhatIsUnderWayIsPolledAndCancelled) {
  backend_.set_script(EndlessScript);
  for (const auto& [path, deleted, dialect, whole] : AllPaths()) {
    const std::string body = whole.substr(0, whole.size() - 1);
    const std::string of_id = BeginAt(path, body);
    EXPECT_TRUE(Reaches(of_id, "in_progress"));
    const json shown = Told("GET", of_id);
    EXPECT_EQ(shown["id"], IdOf(of_id));
    EXPECT_EQ(Told("GET", of_id), shown);
    for (const auto& [other, theirs, maker, same] : AllPaths()) {
      if (other == path) continue;
      EXPECT_EQ(Error("GET", other + ("/" + IdOf(of_id))), "404 id not_found");
      EXPECT_EQ(Error("POST", other + ("/" + IdOf(of_id)) + "/cancel"), "404 id not_found");
    }
    EXPECT_EQ(Told("POST", of_id + "/cancel")["status"], "cancelled");
    EXPECT_EQ(Told("GET", of_id)["status"], "cancelled");
    EXPECT_EQ(Told("POST", of_id + "/cancel")["status"], "cancelled") << "again";
    const std::string another = BeginAt(path, body);
    EXPECT_EQ(Told("DELETE", another)["deleted"], true) << "while it is under way";
    EXPECT_EQ(Error("GET", another), "404 id not_found");
  }
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_EQ(objects_->List(nullptr).size(), 3U);
}

TEST_F(StoredRoutesTest, WhatIsDeletedIsGoneBeforeItsBackendEndsIt) {
  backend_.set_script(EndlessScript);
  const std::string of_id = Begin();
  EXPECT_TRUE(Reaches(of_id, "in_progress"));
  backend_.set_hold_steps(true);
  EXPECT_EQ(Told("DELETE", of_id)["deleted"], true);
  EXPECT_EQ(Error("GET", of_id), "404 id not_found");
  EXPECT_EQ(Error("GET", of_id + "?stream=true"), "404 id not_found");
  EXPECT_EQ(Error("GET", of_id + "/input_items"), "404 id not_found");
  EXPECT_EQ(Error("POST", of_id + "/cancel"), "404 id not_found");
  EXPECT_EQ(Error("DELETE", of_id), "404 id not_found");
  backend_.set_hold_steps(false);
  EXPECT_TRUE(backend_.WaitIdle());
}

// Nothing is read, and no helper thread is needed.
TEST_F(StoredRoutesTest, PollsDoNotWaitForTheDisk) {
  backend_.set_script(EndlessScript);
  const std::string of_id = Begin();
  EXPECT_TRUE(Reaches(of_id, "in_progress"));
  control_->CloseReadGate();
  const int reads = control_->reads;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Told("GET", of_id)["status"], "in_progress");
  EXPECT_EQ(control_->reads, reads);
  control_->OpenGate();
  Told("POST", of_id + "/cancel");
}

TEST_F(StoredRoutesTest, OnlyWhatIsInTheBackgroundIsCancelled) {
  const json told =
      Told("POST", "/v1/responses", R"({"input":"hi","store":true,"max_output_tokens":1})");
  const std::string path = "/v1/responses/" + told["id"].get<std::string>();
  EXPECT_EQ(Error("POST", path + "/cancel").substr(0, 4), "400 ");
  EXPECT_THAT(last_message_, HasSubstr("background"));
}

TEST_F(StoredRoutesTest, AnotherTenantsAnswerIsNotThere) {
  StartWithTenants();
  backend_.set_script(EndlessScript);
  const std::string of_id = Begin("", "key-of-one-1");
  EXPECT_TRUE(Reaches(of_id, "in_progress", "key-of-one-1"));
  for (const bool ended : {false, true}) {
    EXPECT_EQ(Error("GET", of_id, "", "key-of-two-2"), "404 id not_found");
    EXPECT_EQ(Error("GET", of_id + "?stream=true", "", "key-of-two-2"), "404 id not_found");
    EXPECT_EQ(Error("GET", of_id + "/input_items", "", "key-of-two-2"), "404 id not_found");
    EXPECT_EQ(Error("POST", of_id + "/cancel", "", "key-of-two-2"), "404 id not_found");
    EXPECT_EQ(Error("DELETE", of_id, "", "key-of-two-2"), "404 id not_found");
    if (!ended) Told("POST", of_id + "/cancel", "", 200, "key-of-one-1");
  }
  EXPECT_EQ(Ask("GET", of_id).status, 401);
  EXPECT_EQ(Told("GET", of_id, "", 200, "key-of-one-1")["status"], "cancelled");
}

TEST_F(StoredRoutesTest, AnAnswerIsStreamedFromItsBeginningOrFromLaterOn) {
  const std::string of_id = EndedPath(R"(,"max_output_tokens":3)");
  const std::string all = Ask("GET", of_id + "?stream=true").body;
  ASSERT_THAT(all, HasSubstr("event: response.created"));
  EXPECT_THAT(all, HasSubstr("\"sequence_number\":0,"));
  const std::string later =
      Ask("GET", of_id + "?stream=true&starting_after=2&include_obfuscation=false").body;
  EXPECT_LT(later.size(), all.size());
  EXPECT_TRUE(all.ends_with(later)) << later;
  EXPECT_EQ(later.find("\"sequence_number\":2,"), std::string::npos);
  EXPECT_THAT(later, HasSubstr("\"sequence_number\":3,"));
  EXPECT_EQ(Ask("GET", of_id + "?stream=true&starting_after=9999").body, "");
  EXPECT_EQ(Error("GET", of_id + "?stream=yes"), "400 stream -");
  EXPECT_EQ(Error("GET", of_id + "?starting_after=1"), "400 starting_after -");
  EXPECT_EQ(Error("GET", of_id + "?stream=true&starting_after=-1"), "400 starting_after -");
  EXPECT_EQ(Error("GET", of_id + "?stream=true&starting_after=x"), "400 starting_after -");
  EXPECT_EQ(Told("GET", of_id + "?stream=false")["status"], "incomplete");
}

TEST_F(StoredRoutesTest, WhatIsUnderWayIsStreamedToItsEnd) {
  backend_.set_script(EndlessScript);
  const std::string of_id = Begin();
  TestClient client(port());
  client.Send("GET " + of_id + "?stream=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ClientReply reply = client.ReadHead();
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(backend_.WaitDeltas(20));
  Told("POST", of_id + "/cancel");
  client.ReadBody(&reply);
  EXPECT_THAT(reply.body, HasSubstr("w9 "));
  // It ends as its client has asked for: without an error, with what a GET shows.
  const size_t last = reply.body.rfind("event: ");
  ASSERT_NE(last, std::string::npos);
  EXPECT_EQ(reply.body.compare(last, 26, "event: response.incomplete"), 0)
      << reply.body.substr(last);
  const json event = json::parse(reply.body.substr(reply.body.find('{', last)));
  EXPECT_EQ(event["response"], Told("GET", of_id));
  EXPECT_EQ(event["response"]["status"], "cancelled");
  EXPECT_EQ(reply.body.find("event: error"), std::string::npos);
  EXPECT_EQ(reply.body.find("event: response.failed"), std::string::npos);
  EXPECT_TRUE(Ask("GET", of_id + "?stream=true").body.ends_with(reply.body.substr(last)));
}

// OpenAI's chats have no end of this kind: the error says by its code that it is the client's own.
TEST_F(StoredRoutesTest, AChatThatIsCancelledEndsItsStreamWithAnError) {
  backend_.set_script(EndlessScript);
  TestClient client(port());
  client.Send(PostBytes("/v1/chat/completions",
                        std::string(kChat) + R"(,"stream":true,"background":true})"));
  ClientReply reply = client.ReadHead();
  ASSERT_EQ(reply.status, 200);
  EXPECT_TRUE(backend_.WaitDeltas(20));
  ASSERT_TRUE(Eventually([&] { return objects_->List(nullptr).size() == 1; }));
  Told("POST", "/v1/chat/completions/" + objects_->List(nullptr).front().name.id + "/cancel");
  client.ReadBody(&reply);
  EXPECT_THAT(reply.body, HasSubstr("\"code\":\"answer_cancelled\""));
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
}

TEST_F(StoredRoutesTest, AChatIsStreamedIfItWasAskedForSo) {
  const std::string path = "/v1/chat/completions/";
  const std::string whole = path + Ended(api::MakeOpenAiChat, std::string(kChat) + "}");
  EXPECT_EQ(Error("GET", whole + "?stream=true"), "400 stream -");
  EXPECT_EQ(Error("GET", whole + "?stream=true&starting_after=1"), "400 starting_after -");
  const std::string body = std::string(kChat) + R"(,"stream":true})";
  const std::string streamed = path + Ended(api::MakeOpenAiChat, body);
  const std::string events = Ask("GET", streamed + "?stream=true").body;
  EXPECT_THAT(events, HasSubstr("w1 "));
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
}

TEST_F(StoredRoutesTest, IncludeIsWhatTheDialectKnows) {
  const std::string of_id = EndedPath();
  EXPECT_EQ(Ask("GET", of_id + "?include[]=reasoning.encrypted_content").status, 200);
  EXPECT_EQ(Ask("GET", of_id + "?include%5B%5D=file_search_call.results&include=" +
                           "message.output_text.logprobs")
                .status,
            200);
  for (const char* more : {"", "/input_items"}) {
    EXPECT_EQ(Error("GET", of_id + more + "?include[]=reasoning.encrypted_content&include[]=x"),
              "400 include[1] -");
    EXPECT_THAT(last_message_, HasSubstr("\"x\""));
    EXPECT_EQ(Error("GET", of_id + more + "?include="), "400 include[0] -");
  }
}

TEST_F(StoredRoutesTest, InputItemsAreListed) {
  const json told = Told("POST", "/v1/responses", R"({"max_output_tokens":1,"store":true,"input":[
      {"role":"user","content":"one"},{"role":"assistant","content":"two"},
      {"role":"user","content":"three"}]})");
  const std::string list = "/v1/responses/" + told["id"].get<std::string>() + "/input_items";
  const json all = Told("GET", list);
  ASSERT_EQ(all["data"].size(), 3U);
  EXPECT_EQ(all["object"], "list");
  EXPECT_EQ(all["has_more"], false);
  EXPECT_EQ(all["data"][0]["content"][0]["text"], "three") << "the last one first";
  EXPECT_EQ(all["first_id"], all["data"][0]["id"]);
  const json page =
      Told("GET", list + "?limit=1&order=asc&after=" + all["data"][2]["id"].get<std::string>());
  ASSERT_EQ(page["data"].size(), 1U);
  EXPECT_EQ(page["data"][0], all["data"][1]);
  EXPECT_EQ(page["has_more"], true);
  EXPECT_EQ(Error("GET", list + "?limit=0"), "400 limit -");
  EXPECT_EQ(Error("GET", list + "?limit=101"), "400 limit -");
  EXPECT_EQ(Error("GET", list + "?order=down"), "400 order -");
  EXPECT_EQ(Error("GET", list + "?after=msg_1"), "400 after -");
  EXPECT_EQ(Error("GET", "/v1/responses/resp_1/input_items"), "404 id not_found");
}

TEST_F(StoredRoutesTest, UnknownParametersAreTold) {
  const std::string of_id = EndedPath();
  EXPECT_EQ(Ask("GET", of_id + "?colour=red").headers["x-ropeway-ignored"], "colour");
  EXPECT_EQ(Ask("GET", of_id + "?stream=false").headers.contains("x-ropeway-ignored"), false);
}

TEST_F(StoredRoutesTest, OtherMethodsAreRejected) {
  const auto allowed = [&](const std::string& method, const std::string& path) {
    ClientReply reply = Ask(method, path);
    return std::to_string(reply.status) + " " + reply.headers["allow"];
  };
  for (const auto& [path, deleted, dialect, body] : AllPaths()) {
    const std::string of_id = std::string(path) + "/x";
    EXPECT_EQ(allowed("POST", of_id), "405 GET, HEAD, DELETE, OPTIONS");
    EXPECT_EQ(allowed("GET", of_id + "/cancel"), "405 POST, OPTIONS");
  }
  EXPECT_EQ(allowed("DELETE", "/v1/responses/x/input_items"), "405 GET, HEAD, OPTIONS");
}

TEST_F(StoredRoutesTest, HeadSaysWhatGetWould) {
  const std::string of_id = EndedPath();
  const auto head = [&](const std::string& path) {
    TestClient client(port());
    client.Send("HEAD " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return client.ReadHead().status;
  };
  EXPECT_EQ(head(of_id), 200);
  EXPECT_EQ(head(of_id + "?stream=true"), 200);
  EXPECT_EQ(head("/v1/responses/resp_1"), 404);
}

TEST_F(StoredRoutesTest, AnswersOutliveTheServer) {
  const std::string of_id = EndedPath();
  const json shown = Told("GET", of_id);
  const json items = Told("GET", of_id + "/input_items");
  StartStored();
  EXPECT_EQ(Told("GET", of_id), shown);
  EXPECT_EQ(Told("GET", of_id + "/input_items"), items);
}

TEST_F(StoredRoutesTest, ADeletionThatIsNotWrittenIsToldAsSuch) {
  const std::string of_id = EndedPath();
  control_->disk_full = true;
  EXPECT_EQ(Error("DELETE", of_id), "503 - unavailable");
  control_->disk_full = false;
}

// The client leaves while the log is slow.
TEST_F(StoredRoutesTest, ADeletionNeedsNoClient) {
  const std::string of_id = EndedPath();
  control_->CloseGate();
  {
    TestClient client(port());
    client.Send("DELETE " + of_id + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(Eventually([&] { return objects_->List(nullptr).empty(); }));
    client.Close(true);
  }
  control_->OpenGate();
  EXPECT_EQ(Error("GET", of_id), "404 id not_found");
}

TEST_F(StoredRoutesTest, WhatIsStoredIsListedForTheAdmin) {
  StartWithTenants();
  const std::string one = Begin(R"(,"max_output_tokens":1)", "key-of-one-1");
  EXPECT_TRUE(Reaches(one, "incomplete", "key-of-one-1"));
  const json talk = Told("POST", "/v1/conversations", "", 200, "key-of-two-2");
  const auto list = [&](const std::string& query) {
    return Told("GET", "/admin/stored" + query, "", 200, "key-of-admin-3");
  };
  const json all = list("");
  ASSERT_EQ(all["data"].size(), 2U);
  EXPECT_EQ(all["objects"], 2);
  EXPECT_EQ(all["has_more"], false);
  EXPECT_EQ(all["data"][0]["id"], talk["id"]) << "the newest first";
  EXPECT_EQ(all["data"][0]["kind"], "conversation");
  EXPECT_EQ(all["data"][0]["tenant"], "two");
  const json& response = all["data"][1];
  EXPECT_EQ(response["id"], IdOf(one));
  EXPECT_EQ(response["kind"], "response");
  EXPECT_EQ(response["open"], false);
  EXPECT_EQ(response["lost"], false);
  EXPECT_GT(response["bytes"], 0);
  EXPECT_EQ(response["expires_at"].get<int64_t>() - response["created_at"].get<int64_t>(), 86400);
  EXPECT_EQ(all["bytes"],
            all["data"][0]["bytes"].get<int64_t>() + response["bytes"].get<int64_t>());
  EXPECT_EQ(list("?tenant=one")["data"], json::array({response}));
  EXPECT_EQ(list("?tenant=one")["objects"], 1);
  EXPECT_EQ(list("?tenant=nobody")["data"], json::array());
  EXPECT_EQ(list("?limit=1")["data"].size(), 1U);
  EXPECT_EQ(list("?limit=1")["has_more"], true);
  EXPECT_EQ(list("?limit=1")["objects"], 2);
  EXPECT_EQ(Error("GET", "/admin/stored?limit=0", "", "key-of-admin-3"), "400 limit -");
  EXPECT_EQ(Ask("GET", "/admin/stored", "", "key-of-one-1").status, 403);
}

TEST_F(StoredRoutesTest, AnUnreadableRecordIsNeverServed) {
  const std::string of_id = EndedPath();
  std::vector<store::StateChange> changes;
  ASSERT_TRUE(control_->contents
                  .Visit("",
                         [&](std::string_view key, std::string_view value) {
                           std::string other(value);
                           other.back() = static_cast<char>(other.back() ^ 1);
                           changes.push_back({std::string(key), std::move(other)});
                         })
                  .ok());
  ASSERT_TRUE(control_->contents.Write(changes).ok());
  EXPECT_EQ(Error("GET", of_id), "500 - internal_error");
  EXPECT_EQ(Error("GET", of_id + "?stream=true"), "500 - internal_error");
  EXPECT_EQ(Told("DELETE", of_id)["deleted"], true);
}

class NoStoreTest : public ServerTest {};

TEST_F(NoStoreTest, NothingIsThereAndNothingIsKept) {
  const auto told = [&](const std::string& method, const std::string& path) {
    TestClient client(port());
    std::string bytes = PostBytes(path, "{}");
    client.Send(method == "POST" ? bytes : bytes.replace(0, 4, method));
    const ClientReply reply = client.Read();
    EXPECT_THAT(reply.body, HasSubstr("--state-path")) << path;
    EXPECT_FALSE(reply.headers.contains("retry-after")) << path;
    return reply.status;
  };
  for (const auto& [path, deleted, dialect, body] : AllPaths()) {
    const std::string of_id = std::string(path) + "/resp_1";
    EXPECT_EQ(told("GET", of_id), 404);
    EXPECT_EQ(told("GET", of_id + "?stream=true"), 404);
    EXPECT_EQ(told("DELETE", of_id), 404);
    EXPECT_EQ(told("POST", of_id + "/cancel"), 404);
  }
  EXPECT_EQ(told("GET", "/v1/responses/resp_1/input_items"), 404);
  EXPECT_EQ(told("POST", "/v1/conversations"), 503);
  const std::string talk = "/v1/conversations/conv_1";
  EXPECT_EQ(told("GET", talk), 404);
  EXPECT_EQ(told("POST", talk), 404);
  EXPECT_EQ(told("DELETE", talk), 404);
  EXPECT_EQ(told("GET", talk + "/items"), 404);
  EXPECT_EQ(told("POST", talk + "/items"), 404);
  EXPECT_EQ(told("GET", talk + "/items/msg_1"), 404);
  EXPECT_EQ(told("DELETE", talk + "/items/msg_1"), 404);
}

TEST_F(StoredRoutesTest, OfADamagedStoreClientsLearnBeforeAnythingIsComputed) {
  const std::string ask = R"({"input":"hi","max_output_tokens":2)";
  const std::string path =
      "/v1/responses/" + Told("POST", "/v1/responses", ask + "}").value("id", "");
  control_->damaged = true;
  EXPECT_EQ(Error("POST", "/v1/responses", ask + "}"), "503 store unavailable");
  control_->damaged = false;
  const size_t submitted = backend_.submitted().size();
  for (const char* field : {"store", "background"}) {
    EXPECT_EQ(Error("POST", "/v1/responses", ask + ",\"" + field + "\":true}"),
              std::string("503 ") + field + " unavailable");
    EXPECT_EQ(last_message_,
              "nothing new can be stored now: the files of what is stored are damaged");
  }
  EXPECT_EQ(backend_.submitted().size(), submitted);
  EXPECT_EQ(Ask("POST", "/v1/responses", ask + R"(,"store":false})").status, 200);
  EXPECT_EQ(Ask("GET", path).status, 200);
}

}  // namespace
}  // namespace ropeway::server
