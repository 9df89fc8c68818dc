// A server that stores answers, over a fake backend and a database that outlives it, for tests.
#ifndef ROPEWAY_SERVER_TEST_STORED_HTTP_H_
#define ROPEWAY_SERVER_TEST_STORED_HTTP_H_

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "server/test_server.h"
#include "server/test_stored.h"
#include "store/object_store.h"
#include "store/state_writer.h"
#include "store/test_faulty_state_db.h"

namespace ropeway::server {

class StoredHttpTest : public ServerTest {
 protected:
  void SetUp() override { StartStored(); }

  void TearDown() override {
    ServerTest::TearDown();
    server_.reset();
    objects_.reset();
  }

  // Replaces a running server, on what it has stored.
  void StartStored(ServerOptions options = {}, const SessionOptions& bounds = {}) {
    server_.reset();
    objects_.reset();
    writer_ =
        std::make_unique<store::StateWriter>(std::make_unique<store::FaultyStateDb>(control_));
    auto objects = store::ObjectStore::Open(bounds, writer_.get());
    ASSERT_TRUE(objects.ok()) << objects.status().message();
    objects_ = *std::move(objects);
    options.objects = objects_.get();
    StartServer(options);
  }

  // One that knows the tenants "one" and "two", by keys "key-of-one-1" and "key-of-two-2".
  void StartWithTenants(const SessionOptions& bounds = {}) {
    ServerOptions options;
    options.api_keys = {{"one", "key-of-one-1"}, {"two", "key-of-two-2"}};
    options.admin_key = "key-of-admin-3";
    StartStored(options, bounds);
  }

  ClientReply Ask(const std::string& method, const std::string& path, const std::string& body = "",
                  const std::string& key = "") const {
    TestClient client(port());
    const std::string headers = key.empty() ? "" : Bearer(key);
    std::string bytes = PostBytes(path, body, headers);
    if (method != "POST") bytes.replace(0, 4, method);
    client.Send(bytes);
    return client.Read();
  }

  // The body of an answer with this status, which is JSON.
  nlohmann::json Told(const std::string& method, const std::string& path,
                      const std::string& body = "", int status = 200,
                      const std::string& key = "") const {
    const ClientReply reply = Ask(method, path, body, key);
    EXPECT_EQ(reply.status, status) << method << " " << path << ": " << reply.body.substr(0, 400);
    nlohmann::json told = nlohmann::json::parse(reply.body, nullptr, false);
    EXPECT_FALSE(told.is_discarded()) << reply.body.substr(0, 400);
    return told;
  }
  // "status param code" of an error.
  std::string Error(const std::string& method, const std::string& path,
                    const std::string& body = "", const std::string& key = "") const {
    const ClientReply reply = Ask(method, path, body, key);
    const nlohmann::json told = nlohmann::json::parse(reply.body, nullptr, false);
    if (!told.is_object() || !told.contains("error")) {
      return std::to_string(reply.status) + " " + reply.body.substr(0, 200);
    }
    const auto text = [&](const char* name) {
      return told["error"][name].is_string() ? told["error"][name].get<std::string>() : "-";
    };
    last_message_ = text("message");
    return std::to_string(reply.status) + " " + text("param") + " " + text("code");
  }

  // The path of a new answer in the background. `path`: its dialect's, `body` without its brace.
  std::string BeginAt(const std::string& path, const std::string& body,
                      const std::string& key = "") const {
    const std::string all = body + R"(,"background":true})";
    return path + "/" + Told("POST", path, all, 200, key).value("id", "");
  }
  // That of a response.
  std::string Begin(const std::string& more = "", const std::string& key = "") const {
    return BeginAt("/v1/responses", R"({"input":"hi")" + more, key);
  }
  // The path of one that has ended.
  std::string EndedPath(const std::string& more = R"(,"max_output_tokens":2)") const {
    std::string path = Begin(more);
    EXPECT_TRUE(Reaches(path, "incomplete"));
    return path;
  }
  // The id of an answer in any dialect, which was stored by another server and has ended.
  std::string Ended(api::ApiFormatMaker dialect, const std::string& body) {
    StoredAnswersOptions options;
    options.dialects = {dialect};
    StoredAnswers answers(options, objects_.get(), &backend_);
    const std::unique_ptr<api::ApiFormat> format = dialect();
    EXPECT_TRUE(format->Parse(body, {}).ok());
    StoredRequest request;
    request.body = body;
    request.background = true;
    request.stream = format->request()->stream;
    request.head.id = DrawId("");
    request.head.model = "fake-model";
    request.head.stored = true;
    request.id = std::string(format->id_prefix()) + request.head.id;
    std::string id = request.id;
    format->Start(request.head);
    EXPECT_TRUE(answers.Begin(std::move(request), format.get(), {}, nullptr).ok());
    EXPECT_TRUE(Eventually([&] {
      for (const store::ObjectInfo& info : objects_->List(nullptr)) {
        if (info.name.id == id) return !info.open;
      }
      return false;
    }));
    return id;
  }

  // Waits until an answer has this state.
  bool Reaches(const std::string& path, const std::string& state,
               const std::string& key = "") const {
    return Eventually([&] {
      const ClientReply reply = Ask("GET", path, "", key);
      return reply.status != 200 || nlohmann::json::parse(reply.body).value("status", "") == state;
    });
  }

  std::shared_ptr<store::StateDbControl> control_ = std::make_shared<store::StateDbControl>();
  std::unique_ptr<store::StateWriter> writer_;
  std::unique_ptr<store::ObjectStore> objects_;
  mutable std::string last_message_;  // Of what Error was told.
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TEST_STORED_HTTP_H_
