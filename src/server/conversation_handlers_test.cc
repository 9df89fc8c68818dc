#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "server/conversation_body.h"
#include "server/test_stored_http.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kTalks[] = "/v1/conversations";

// A body with so many messages "0", "1" ...
std::string Messages(int count) {
  json items = json::array();
  for (int i = 0; i < count; ++i) {
    items.push_back({{"role", "user"}, {"content", std::to_string(i)}});
  }
  return json{{"items", items}}.dump();
}

// What the messages of a list say, one after the other.
std::string Texts(const json& list) {
  std::string texts;
  for (const json& item : list["data"]) {
    texts += item["content"][0]["text"].get<std::string>() + " ";
  }
  return texts;
}

class ConversationsTest : public StoredHttpTest {
 protected:
  // The path of a new one.
  std::string Create(const std::string& body = "{}", const std::string& key = "") const {
    return std::string(kTalks) + "/" + Told("POST", kTalks, body, 200, key).value("id", "");
  }
};

TEST_F(ConversationsTest, LiveFromTheirCreationToTheirDeletion) {
  const json made = Told("POST", kTalks,
                         R"({"metadata":{"topic":"snow"},"items":[{"type":"message","role":"user",
                             "content":"Hello!"}]})");
  const std::string id = made["id"];
  EXPECT_TRUE(id.starts_with("conv_") && id.size() == 37) << id;
  EXPECT_EQ(made["object"], "conversation");
  EXPECT_EQ(made["metadata"], (json{{"topic", "snow"}}));
  EXPECT_EQ(made.size(), 4U);
  const std::string path = std::string(kTalks) + "/" + id;
  const json shown = Told("GET", path);
  EXPECT_LE(std::abs(shown["created_at"].get<int64_t>() - made["created_at"].get<int64_t>()), 1);
  EXPECT_EQ(shown["metadata"], made["metadata"]);
  EXPECT_EQ(Texts(Told("GET", path + "/items")), "Hello! ");
  EXPECT_EQ(Told("POST", path, R"({"metadata":{"a":"b"}})")["metadata"], (json{{"a", "b"}}));
  StartStored();
  EXPECT_EQ(Told("GET", path)["metadata"], (json{{"a", "b"}}));
  EXPECT_EQ(Texts(Told("GET", path + "/items")), "Hello! ");
  EXPECT_EQ(Told("DELETE", path),
            (json{{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}}));
  for (const char* method : {"GET", "DELETE"}) {
    EXPECT_EQ(Error(method, path), "404 id not_found");
    EXPECT_THAT(last_message_, HasSubstr(id));
  }
  EXPECT_EQ(Error("POST", path, R"({"metadata":{}})"), "404 id not_found");
  EXPECT_EQ(Error("GET", path + "/items"), "404 id not_found");
  EXPECT_EQ(Error("POST", path + "/items", Messages(1)), "404 id not_found");
  EXPECT_EQ(objects_->List(nullptr).size(), 0U);
}

TEST_F(ConversationsTest, AnEmptyBodyMakesAnEmptyOne) {
  for (const char* body : {"", "{}", R"({"items":null,"metadata":null})", R"({"items":[]})"}) {
    const std::string path = Create(body);
    EXPECT_EQ(Told("GET", path)["metadata"], json::object());
    const json list = Told("GET", path + "/items");
    EXPECT_EQ(list["data"], json::array());
    EXPECT_EQ(list["first_id"], nullptr);
    EXPECT_EQ(list["has_more"], false);
  }
}

TEST_F(ConversationsTest, ItemsAreAddedListedReadAndDeleted) {
  const std::string path = Create(Messages(2));
  const json added = Told("POST", path + "/items", R"({"items":[{"role":"user","content":"a"},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}]})");
  EXPECT_EQ(added["object"], "list");
  EXPECT_EQ(Texts(added), "a b ") << "in the order of the body";
  EXPECT_EQ(added["first_id"], added["data"][0]["id"]);
  EXPECT_EQ(added["has_more"], false);
  EXPECT_EQ(Texts(Told("GET", path + "/items")), "b a 1 0 ");
  EXPECT_EQ(Texts(Told("GET", path + "/items?order=asc&limit=3")), "0 1 a ");
  const std::string id = added["data"][0]["id"];
  EXPECT_EQ(Texts(Told("GET", path + "/items?limit=1&after=" + id)), "1 ");
  EXPECT_EQ(Told("GET", path + "/items/" + id), added["data"][0]);
  EXPECT_EQ(Told("DELETE", path + "/items/" + id), Told("GET", path));
  EXPECT_EQ(Texts(Told("GET", path + "/items")), "b 1 0 ");
  EXPECT_EQ(Error("GET", path + "/items/" + id), "404 item not_found");
  EXPECT_THAT(last_message_, HasSubstr(id));
  EXPECT_EQ(Error("DELETE", path + "/items/" + id), "404 item not_found");
  EXPECT_EQ(Error("GET", path + "/items?after=" + id), "400 after -");
  EXPECT_EQ(Error("GET", path + "/items?include[]=x"), "400 include[0] -");
  EXPECT_EQ(Error("POST", path + "/items?include[]=x", Messages(1)), "400 include[0] -");
  EXPECT_EQ(Ask("GET", path + "/items?include[]=message.input_image.image_url").status, 200);
}

TEST_F(ConversationsTest, EveryItemHasAnIdOfItsOwn) {
  const std::string path = Create(Messages(3));
  Told("POST", path + "/items", Messages(3));
  // The client's own id, twice.
  const char* const own = R"({"items":[{"id":"msg_own","role":"user","content":"x"}]})";
  EXPECT_EQ(Told("POST", path + "/items", own)["data"][0]["id"], "msg_own");
  EXPECT_NE(Told("POST", path + "/items", own)["data"][0]["id"], "msg_own");
  std::set<std::string> ids;
  const json list = Told("GET", path + "/items");
  for (const json& item : list["data"]) {
    ids.insert(item["id"].get<std::string>());
  }
  EXPECT_EQ(ids.size(), 8U);
}

TEST_F(ConversationsTest, AnOutputMayAnswerACallThatIsThere) {
  const std::string output =
      R"({"items":[{"type":"function_call_output","call_id":"call_1","output":"7"}]})";
  EXPECT_EQ(Error("POST", kTalks, output), "400 items[0].call_id -");
  EXPECT_THAT(last_message_, HasSubstr("'items[0].call_id'"));
  const std::string path = Create(R"({"items":[{"role":"user","content":"x"},
      {"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}]})");
  EXPECT_EQ(Told("POST", path + "/items", output)["data"][0]["output"], "7");
  EXPECT_EQ(Error("POST", path + "/items",
                  R"({"items":[{"type":"function_call_output","call_id":"other","output":"7"}]})"),
            "400 items[0].call_id -");
}

TEST_F(ConversationsTest, ATurnAppendsItsItems) {
  const std::string path = Create(Messages(1));
  const std::string id = path.substr(sizeof kTalks);
  const json told = Told("POST", "/v1/responses",
                         R"({"input":"more","max_output_tokens":2,"conversation":")" + id + "\"}");
  ASSERT_EQ(told["status"], "incomplete");
  EXPECT_TRUE(Eventually([&] { return Told("GET", path + "/items")["data"].size() == 3U; }));
  EXPECT_EQ(Texts(Told("GET", path + "/items?order=asc")), "0 more w0 w1  ");
}

TEST_F(ConversationsTest, IsNotChangedDuringATurn) {
  backend_.set_script(EndlessScript);
  const std::string path = Create(Messages(1));
  const std::string item = Told("GET", path + "/items")["first_id"];
  const std::string turn = Begin(R"(,"conversation":")" + path.substr(sizeof kTalks) + "\"");
  const char* const busy = "409 conversation conversation_busy";
  EXPECT_EQ(Error("POST", path + "/items", Messages(1)), busy);
  EXPECT_EQ(Error("POST", path, R"({"metadata":{}})"), busy);
  EXPECT_EQ(Error("DELETE", path + "/items/" + item), busy);
  EXPECT_EQ(Error("DELETE", path), busy);
  EXPECT_EQ(Texts(Told("GET", path + "/items")), "0 ") << "it can be read";
  Told("POST", turn + "/cancel");
  EXPECT_TRUE(Eventually([&] { return Ask("POST", path + "/items", Messages(1)).status == 200; }));
  EXPECT_EQ(Texts(Told("GET", path + "/items")), "0 0 ");
}

// Each change waits for the log, and lets the next one in before its client is told.
TEST_F(ConversationsTest, ChangesFollowEachOther) {
  const std::string path = Create();
  TestClient client(port());
  for (int i = 0; i < 50; ++i) {
    client.Send(PostBytes(path + "/items", Messages(1)));
    ASSERT_EQ(client.Read().status, 200) << i;
  }
  EXPECT_EQ(Told("GET", path + "/items?limit=100")["data"].size(), 50U);
  control_->CloseGate();
  client.Send(PostBytes(path + "/items", Messages(1)));
  EXPECT_TRUE(Eventually([&] {
    return Error("POST", path + "/items", Messages(1)) == "409 conversation conversation_busy";
  }));
  control_->OpenGate();
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(ConversationsTest, AnotherTenantsIsNotThere) {
  StartWithTenants();
  const std::string path = Create(Messages(1), "key-of-one-1");
  const std::string item = Told("GET", path + "/items", "", 200, "key-of-one-1")["first_id"];
  const auto error = [&](const std::string& method, const std::string& more,
                         const std::string& body) {
    return Error(method, path + more, body, "key-of-two-2");
  };
  EXPECT_EQ(error("GET", "", ""), "404 id not_found");
  EXPECT_EQ(error("POST", "", R"({"metadata":{}})"), "404 id not_found");
  EXPECT_EQ(error("DELETE", "", ""), "404 id not_found");
  EXPECT_EQ(error("GET", "/items", ""), "404 id not_found");
  EXPECT_EQ(error("POST", "/items", Messages(1)), "404 id not_found");
  EXPECT_EQ(error("GET", "/items/" + item, ""), "404 id not_found");
  EXPECT_EQ(error("DELETE", "/items/" + item, ""), "404 id not_found");
  EXPECT_EQ(Told("GET", path + "/items", "", 200, "key-of-one-1")["data"].size(), 1U);
}

TEST_F(ConversationsTest, BadBodiesNameTheField) {
  const std::string path = Create();
  const std::string items = path + "/items";
  for (const char* body : {"[]", "7", "\"x\"", "null"}) {
    EXPECT_EQ(Error("POST", kTalks, body), "400 - -") << body;
    EXPECT_EQ(Error("POST", items, body), "400 - -") << body;
    EXPECT_EQ(Error("POST", path, body), "400 - -") << body;
  }
  EXPECT_EQ(Error("POST", kTalks, "{"), "400 - -");
  EXPECT_EQ(Error("POST", kTalks, std::string(100'000, '[')), "400 - -");
  EXPECT_EQ(Error("POST", kTalks, R"({"items":"x"})"), "400 items -");
  EXPECT_EQ(Error("POST", kTalks, R"({"items":[7]})"), "400 items[0] -");
  EXPECT_THAT(last_message_, HasSubstr("'items[0]'"));
  EXPECT_EQ(Error("POST", kTalks, Messages(21)), "400 items -");
  EXPECT_EQ(Error("POST", items, "{}"), "400 items -");
  EXPECT_EQ(Error("POST", items, ""), "400 items -");
  EXPECT_EQ(last_message_, "'items' is required.");
  EXPECT_EQ(Error("POST", items, R"({"items":[]})"), "400 items -");
  EXPECT_EQ(last_message_, "'items' is empty.");
  EXPECT_EQ(Error("POST", items, R"({"items":null})"), "400 items -");
  EXPECT_EQ(Error("POST", items, R"({"items":[{"role":"user","content":"a"},{"role":"king",
                                     "content":"a"}]})"),
            "400 items[1].role -");
  EXPECT_EQ(Error("POST", items, R"({"items":[{"type":"nonsense"}]})").substr(0, 12),
            "400 items[0]");
  EXPECT_EQ(Error("POST", path, "{}"), "400 metadata -");
  EXPECT_EQ(Error("POST", path, ""), "400 metadata -");
  EXPECT_EQ(Error("POST", path, R"({"metadata":[]})"), "400 metadata -");
  EXPECT_EQ(Error("POST", path, R"({"metadata":{"a":1}})"), "400 metadata.a -");
  EXPECT_EQ(Error("POST", kTalks, R"({"metadata":{"a":")" + std::string(513, 'x') + "\"}}"),
            "400 metadata.a -");
  EXPECT_EQ(Error("POST", kTalks, R"({"metadta":{}})"), "400 metadta -");
  EXPECT_EQ(Ask("POST", kTalks, R"({"colour":1})").headers["x-ropeway-ignored"], "colour");
  EXPECT_EQ(Told("GET", items)["data"], json::array());
  const std::string large =
      R"({"items":[{"role":"user","content":")" + std::string(size_t{10} << 20, 'x') + "\"}]}";
  const int status = Ask("POST", items, large).status;
  EXPECT_TRUE(status == 200 || status == 413) << status;
}

TEST_F(ConversationsTest, AFullBudgetAndAFullDiskAreTold) {
  SessionOptions bounds;
  bounds.max_stored = 2;
  StartWithTenants(bounds);
  std::string told;
  for (int i = 0; i < 3 && told.empty(); ++i) {
    const ClientReply reply = Ask("POST", kTalks, "{}", "key-of-one-1");
    if (reply.status != 200) told = std::to_string(reply.status) + reply.body;
  }
  EXPECT_THAT(told, HasSubstr("429"));
  EXPECT_THAT(told, HasSubstr("max-sessions"));
  StartWithTenants();
  control_->disk_full = true;
  EXPECT_EQ(Error("POST", kTalks, "{}", "key-of-two-2"), "503 - unavailable");
  control_->disk_full = false;
}

TEST_F(ConversationsTest, TheOnlyTenantMayFillTheBudgetAndLearnsWhatMakesRoom) {
  SessionOptions bounds;
  bounds.max_stored = 4;
  bounds.ttl = std::chrono::hours(2);
  StartStored({}, bounds);
  const std::string talk = Told("POST", kTalks, "{}")["id"];
  for (int i = 0; i < 3; ++i) {
    Told("POST", "/v1/responses", R"({"input":"hi","max_output_tokens":2})");
  }
  const ClientReply full = Ask("POST", kTalks, "{}");
  EXPECT_EQ(full.status, 429);
  EXPECT_THAT(full.body, HasSubstr("stored: 4 of 4; delete some, or raise --max-sessions"));
  const int wait = std::stoi(full.headers.at("retry-after"));
  EXPECT_EQ(wait, 3600);
  const auto param = [this](const std::string& body) {
    return Error("POST", "/v1/responses", body);
  };
  EXPECT_THAT(param(R"({"input":"hi","max_output_tokens":2})"), HasSubstr("429 store "));
  EXPECT_THAT(param(R"({"input":"hi","background":true})"), HasSubstr("429 background "));
  EXPECT_THAT(param(R"({"input":"hi","conversation":")" + talk + "\"}"),
              HasSubstr("429 conversation "));
  EXPECT_THAT(Error("POST", kTalks + ("/" + talk) + "/items",
                    R"({"items":[{"role":"user","content":"hi"}]})"),
              HasSubstr("429 items "));
  Told("DELETE", kTalks + ("/" + talk));
  Told("POST", "/v1/responses", R"({"input":"hi","max_output_tokens":2})");
}

TEST(ConversationBody, ItsItemsAreBounded) {
  store::Conversation conversation;
  conversation.items.assign(kMostConversationItems - 1, "{}");
  EXPECT_EQ(AddItems({"{}", "{}"}, &conversation).field(), "items");
  EXPECT_TRUE(AddItems({"{}"}, &conversation).ok());
  EXPECT_EQ(AddItems({"{}"}, &conversation).field(), "items");
  EXPECT_EQ(conversation.items.size(), kMostConversationItems);
}

}  // namespace
}  // namespace ropeway::server
