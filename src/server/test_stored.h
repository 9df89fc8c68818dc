// Stored answers over a fake backend and a database that outlives them, for tests.
#ifndef ROPEWAY_SERVER_TEST_STORED_H_
#define ROPEWAY_SERVER_TEST_STORED_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "server/run_watcher.h"
#include "server/stored_answers.h"
#include "server/stored_record.h"
#include "server/test_fake_backend.h"
#include "server/test_server.h"
#include "store/object_store.h"
#include "store/state_writer.h"
#include "store/test_faulty_state_db.h"

namespace ropeway::server {

// The contents of a database as they are now: what a process that is killed leaves.
inline std::shared_ptr<store::StateDbControl> CopyOf(const store::StateDbControl& control) {
  auto copy = std::make_shared<store::StateDbControl>();
  EXPECT_TRUE(control.contents
                  .Visit("",
                         [&](std::string_view key, std::string_view value) {
                           const std::vector<store::StateChange> change = {
                               {std::string(key), std::string(value)}};
                           EXPECT_TRUE(copy->contents.Write(change).ok());
                         })
                  .ok());
  return copy;
}

// A model whose answers can be resumed.
inline std::vector<service::ModelInfo> ModelsWithDigest(const std::string& digest) {
  service::ModelInfo model;
  model.id = "fake-model";
  model.max_model_len = 100'000;
  model.digest = digest;
  model.numerics = "n1";
  return {model};
}

// One process: what stores answers, from its start to its end.
struct StoredProcess {
  StoredProcess(const std::shared_ptr<store::StateDbControl>& control, FakeBackend* backend,
                const SessionOptions& options = {})
      : writer(std::make_unique<store::FaultyStateDb>(control)),
        objects(*store::ObjectStore::Open(options, &writer)) {
    StoredAnswersOptions stored;
    stored.dialects = {api::MakeOpenAiChat, api::MakeOpenAiCompletions};
    answers = std::make_unique<StoredAnswers>(std::move(stored), objects.get(), backend);
  }

  store::StateWriter writer;
  std::unique_ptr<store::ObjectStore> objects;
  std::unique_ptr<StoredAnswers> answers;
};

class StoredAnswersTest : public testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override {
    process_.reset();
    EXPECT_TRUE(backend_.WaitIdle());
  }

  // Ends the process that is, and starts one on what is stored.
  void Start() {
    process_.reset();
    process_ = std::make_unique<StoredProcess>(control_, &backend_);
  }
  // Starts one on what the process that is has stored by now: as after kill -9.
  void StartAfterKill() {
    const std::shared_ptr<store::StateDbControl> left = CopyOf(*control_);
    process_.reset();
    control_ = left;
    process_ = std::make_unique<StoredProcess>(control_, &backend_);
  }

  StoredAnswers& answers() { return *process_->answers; }

  // The run of a chat of `tenant`; `more` are members of its body.
  StatusOr<std::shared_ptr<StoredRun>> TryBegin(const std::string& more, StoredRequest request) {
    request.body = R"({"messages":[{"role":"user","content":"hi"}])" + more + "}";
    std::unique_ptr<api::ApiFormat> format = api::MakeOpenAiChat();
    Status status = format->Parse(request.body, {});
    if (!status.ok()) return status;
    request.head.id = DrawId("");
    request.head.model = "fake-model";
    request.head.created = 1'700'000'000;
    request.head.stored = true;
    request.id = std::string(format->id_prefix()) + request.head.id;
    request.stream = format->request()->stream;
    request.seed = format->request()->request.sampling.seed.value_or(5);
    format->Start(request.head);
    format->request()->request.tenant = request.tenant;
    format->request()->request.sampling.seed = request.seed;
    return answers().Begin(std::move(request), format.get(), {}, nullptr);
  }

  // One in the background.
  std::shared_ptr<StoredRun> Begin(const std::string& more = "", const std::string& tenant = "t") {
    StoredRequest request;
    request.tenant = tenant;
    request.background = true;
    StatusOr<std::shared_ptr<StoredRun>> run = TryBegin(more, std::move(request));
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? *run : nullptr;
  }

  // How many ids of its first choice are in the log: the store itself also tells what is to be
  // written, which a kill would lose.
  size_t SavedIds(const std::string& id) {
    store::StateWriter writer(std::make_unique<store::FaultyStateDb>(CopyOf(*control_)));
    const auto objects = *store::ObjectStore::Open(SessionOptions(), &writer);
    const StatusOr<store::Object> object = objects->Read(Response("t", id));
    if (!object.ok()) return 0;
    const StatusOr<StoredAnswer> answer = UnpackAnswer(object->state);
    return answer.ok() && !answer->choices.empty() ? answer->choices.front().ids.size() : 0;
  }

  // Cancels an answer of "t", and waits until that is in the log.
  Status Cancel(const std::string& id) {
    std::atomic<bool> done{false};
    Status status = answers().Cancel("t", id, [&done](const Status&) { done = true; });
    if (status.ok()) {
      EXPECT_TRUE(Eventually([&done] { return done.load(); }));
    }
    return status;
  }

  // The body that shows the answer once it is not under way any more.
  std::string ShownAtEnd(const std::string& id, const std::string& tenant = "t") {
    std::string shown;
    EXPECT_TRUE(Eventually([&] {
      shown = Shown(id, tenant);
      return !shown.starts_with("error:") && shown.find("\"queued\"") == std::string::npos &&
             shown.find("\"in_progress\"") == std::string::npos;
    })) << shown;
    return shown;
  }
  std::string Shown(const std::string& id, const std::string& tenant = "t") {
    const StatusOr<std::string> shown = answers().Show(tenant, id);
    return shown.ok() ? *shown : "error: " + shown.status().message();
  }

  FakeBackend backend_;
  std::shared_ptr<store::StateDbControl> control_ = std::make_shared<store::StateDbControl>();
  std::unique_ptr<StoredProcess> process_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TEST_STORED_H_
