// KV events of whole engines, read as a router reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/test_failing_new.h"
#include "kvcache/event_publisher.h"
#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"
#include "ropeway/engine.h"

namespace ropeway::engine {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

// Knows what an engine's messages say that it has.
class Router {
 public:
  explicit Router(const std::string& endpoint) {
    constexpr int kWaitMs = 300;
    zmq_setsockopt(sub_, ZMQ_RCVTIMEO, &kWaitMs, sizeof kWaitMs);
    zmq_setsockopt(sub_, ZMQ_SUBSCRIBE, "", 0);
    EXPECT_EQ(zmq_connect(sub_, endpoint.c_str()), 0);
  }
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  ~Router() {
    zmq_close(sub_);
    zmq_ctx_term(context_);
  }

  // Reads until `blocks` are there, or for ten seconds. Then whether nothing more comes is seen.
  void ReadUntil(size_t blocks) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (Read() || (ids_.size() != blocks && std::chrono::steady_clock::now() < limit)) {
    }
    EXPECT_EQ(ids_.size(), blocks);
  }

  // Waits until it is connected: a new reader is told to forget all before anything else. From then
  // on it misses no event.
  void AwaitConnection() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (cleared_ == 0 && std::chrono::steady_clock::now() < limit) Read();
    EXPECT_GT(cleared_, 0U);
  }

  // By hash, the ids of the block; of a chain, all before it too.
  std::map<uint64_t, std::vector<int>> ids_;
  size_t removed_ = 0;
  size_t cleared_ = 0;

 private:
  bool Read() {
    std::string part(1 << 20, '\0');
    for (int i = 0; i < 3; ++i) {
      const int size = zmq_recv(sub_, part.data(), part.size(), 0);
      if (size < 0) return false;
      if (i < 2) continue;
      const json batch = json::from_msgpack(part.substr(0, static_cast<size_t>(size)));
      for (const json& event : batch[1]) {
        Apply(event);
      }
    }
    return true;
  }

  void Apply(const json& event) {
    if (event[0] == "AllBlocksCleared") {
      ids_.clear();
      ++cleared_;
      return;
    }
    const auto hashes = event[1].get<std::vector<uint64_t>>();
    if (event[0] == "BlockRemoved") {
      removed_ += hashes.size();
      for (const uint64_t hash : hashes) ids_.erase(hash);
      return;
    }
    ASSERT_EQ(event[0], "BlockStored");
    std::vector<int> chain;
    if (!event[2].is_null()) {
      ASSERT_TRUE(ids_.contains(event[2])) << "a parent comes before its child";
      chain = ids_[event[2]];
    }
    const auto ids = event[3].get<std::vector<int>>();
    ASSERT_EQ(ids.size(), hashes.size() * base::kBlockTokens);
    for (size_t i = 0; i < hashes.size(); ++i) {
      for (int t = 0; t < base::kBlockTokens; ++t)
        chain.push_back(ids[i * 16 + static_cast<size_t>(t)]);
      EXPECT_TRUE(ids_.emplace(hashes[i], chain).second) << "stored twice";
    }
  }

  void* context_ = zmq_ctx_new();
  void* sub_ = zmq_socket(context_, ZMQ_SUB);
};

StatusOr<std::unique_ptr<Engine>> OpenWithEvents(const std::string& model,
                                                 const std::string& address,
                                                 int64_t kv_bytes = 1 << 20) {
  EngineOptions options;
  options.model.path = model;
  options.threads = 1;
  options.cache.kv_bytes = kv_bytes;
  options.cache.events_address = address;
  return Engine::Create(options);
}

Result Answer(Engine* engine, std::vector<TokenId> prompt, int max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  request.ignore_eos = true;
  const auto handle = engine->Submit(std::move(request));
  EXPECT_TRUE(handle.ok()) << handle.status().message();
  return handle->Wait(std::chrono::seconds(60)).value();
}

std::vector<TokenId> Prompt(int ids, TokenId first) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < ids; ++i) prompt.push_back(first + i % 50);
  return prompt;
}

TEST(EngineEventsTest, ARouterKnowsWhatAnEngineHas) {
  const model::TempFile file(model::TinyLlama({}).Bytes());
  const model::TempFolder folder;
  const std::string address = "ipc://" + folder.path() + "/events";
  auto engine = OpenWithEvents(file.path(), address);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const std::vector<TokenId> prompt = Prompt(40, 3);
  const Result result = Answer(engine->get(), prompt, 20);
  Router router(address);  // It comes late.
  // 40 + 20 ids; the last one was not computed.
  router.ReadUntil(3);
  std::vector<int> all(prompt.begin(), prompt.end());
  for (const OutputToken& token : result.tokens) all.push_back(token.id);
  all.resize(48);
  bool found = false;
  for (const auto& [hash, ids] : router.ids_) found = found || ids == all;
  EXPECT_TRUE(found) << "the answer's blocks are told of as the prompt's";
  // What is the same is told of once.
  Answer(engine->get(), prompt, 1);
  router.ReadUntil(3);
  // Another engine of the same model calls the blocks the same; a third one has another model.
  const std::string other = "ipc://" + folder.path() + "/other";
  auto second = OpenWithEvents(file.path(), other);
  ASSERT_TRUE(second.ok());
  Answer(second->get(), prompt, 20);
  Router second_router(other);
  second_router.ReadUntil(3);
  EXPECT_EQ(second_router.ids_, router.ids_);
}

TEST(EngineEventsTest, APublisherShortOfMemorySaysSo) {
  auto bound = kvcache::EventPublisher::Bind("tcp://127.0.0.1:*", "");
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  kvcache::EventPublisher& publisher = **bound;
  const kvcache::BlockEvent first{.hash = 1, .ids = std::vector<TokenId>(base::kBlockTokens)};
  // ZeroMQ's own threads do not survive a failure: it is to be one of the copies of the ids.
  constexpr size_t kLarge = 1 << 20;
  const kvcache::BlockEvent large{.hash = 2, .ids = std::vector<TokenId>(kLarge)};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  {
    const FailingNew failing(1, 1, kLarge);
    const NeverFailingNew not_here;
    ASSERT_TRUE(publisher.Publish({large}));
    while (!failing.fired() && std::chrono::steady_clock::now() < limit) {
    }
    ASSERT_TRUE(failing.fired());
  }
  while (publisher.Publish({}) && std::chrono::steady_clock::now() < limit) {
  }
  EXPECT_LT(std::chrono::steady_clock::now(), limit) << "Publish never said that events were lost";
  EXPECT_TRUE(publisher.Publish({first}));
  Router router(publisher.endpoint());
  router.ReadUntil(1);
}

TEST(EngineEventsTest, WhatIsEvictedIsTakenBack) {
  const model::TempFile file(model::TinyLlama({}).Bytes());
  const model::TempFolder folder;
  const std::string address = "ipc://" + folder.path() + "/events";
  auto engine = OpenWithEvents(file.path(), address, 1 << 17);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  Router router(address);
  router.AwaitConnection();  // What was evicted before is not told to it.
  for (TokenId first = 3; first < 40; ++first) Answer(engine->get(), Prompt(64, first), 2);
  const EngineStats stats = (*engine)->Stats();
  ASSERT_GT(stats.kv_blocks_cached, 0);
  router.ReadUntil(static_cast<size_t>(stats.kv_blocks_cached));
  EXPECT_GT(router.removed_, 0U);
}

TEST(EngineEventsTest, AnAddressThatCannotBeUsedIsSaid) {
  const model::TempFile file(model::TinyLlama({}).Bytes());
  const auto engine = OpenWithEvents(file.path(), "localhost:5557");
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.status().message(), HasSubstr("--kv-events"));
  EngineOptions options;
  options.model.path = file.path();
  options.cache.events_address = "tcp://127.0.0.1:*";
  options.cache.prefix_caching = false;
  EXPECT_THAT(Engine::Create(options).status().message(), HasSubstr("needs prefix_caching"));
}

}  // namespace
}  // namespace ropeway::engine
