#include "kvcache/event_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "kvcache/test_event_reader.h"

namespace ropeway::kvcache {
namespace {

using nlohmann::json;
using Kind = BlockEvent::Kind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

BlockEvent Stored(uint64_t hash, std::optional<uint64_t> parent, TokenId first) {
  BlockEvent event{.kind = Kind::kStored, .hash = hash, .parent = parent};
  for (TokenId id = first; id < first + base::kBlockTokens; ++id) event.ids.push_back(id);
  return event;
}

std::unique_ptr<EventPublisher> Bound(const std::string& topic = "") {
  StatusOr<std::unique_ptr<EventPublisher>> bound =
      EventPublisher::Bind("tcp://127.0.0.1:*", topic);
  EXPECT_TRUE(bound.ok()) << bound.status().message();
  return *std::move(bound);
}

TEST(EncodeEvents, WritesWhatVllmWrites) {
  BlockEvent second = Stored(8, 7, 16);
  const std::vector<uint8_t> bytes =
      EncodeEvents({Stored(7, std::nullopt, 0),
                    second,
                    Stored(9, 7, 32),
                    {.kind = Kind::kRemoved, .hash = 0xFFFFFFFFFFFFFFFF},
                    {.kind = Kind::kRemoved, .hash = 7},
                    {.kind = Kind::kCleared}},
                   1.5);
  json ids = json::array();
  for (int id = 0; id < 32; ++id) ids.push_back(id);
  const json batch = json::from_msgpack(bytes);
  EXPECT_EQ(batch[0], 1.5);
  EXPECT_EQ(batch[2], 0);
  ASSERT_THAT(batch[1], SizeIs(4));
  EXPECT_EQ(batch[1][0], json::array({"BlockStored", {7, 8}, nullptr, ids, 16, nullptr}));
  EXPECT_EQ(batch[1][1][2], 7);
  EXPECT_EQ(batch[1][2], json::array({"BlockRemoved", {0xFFFFFFFFFFFFFFFF, 7}}));
  EXPECT_EQ(batch[1][3], json::array({"AllBlocksCleared"}));
}

TEST(BlockDirectory, ParentsComeFirstInWhateverOrderTheyCame) {
  BlockDirectory directory;
  for (const BlockEvent& event :
       {Stored(1, std::nullopt, 0), Stored(2, 1, 0), Stored(3, 2, 0), Stored(2, 1, 0)}) {
    directory.Apply(event);
  }
  // The parent was evicted, and is computed again later.
  directory.Apply({.kind = Kind::kRemoved, .hash = 1});
  directory.Apply({.kind = Kind::kRemoved, .hash = 5});
  directory.Apply(Stored(1, std::nullopt, 0));
  std::vector<uint64_t> hashes;
  for (const BlockEvent& event : directory.All()) hashes.push_back(event.hash);
  EXPECT_THAT(hashes, ElementsAre(1, 2, 3));
  directory.Apply({.kind = Kind::kCleared});
  EXPECT_EQ(directory.size(), 0U);
}

TEST(EventPublisher, ALateReaderIsToldOfAll) {
  const std::unique_ptr<EventPublisher> publisher = Bound("kv");
  ASSERT_TRUE(publisher->Publish({Stored(1, std::nullopt, 0), Stored(2, 1, 16)}));
  ASSERT_TRUE(publisher->Publish({{.kind = Kind::kRemoved, .hash = 2}}));
  {
    // Once one has read the last of them, they are all sent.
    EventReader early(publisher->endpoint(), "kv");
    const uint64_t snapshot = early.Next().number;
    if (snapshot == 0) early.Next();
  }
  EventReader first(publisher->endpoint(), "kv");
  Message message = first.Next();
  EXPECT_EQ(message.topic, "kv");
  ASSERT_THAT(message.batch[1], SizeIs(2));
  EXPECT_EQ(message.batch[1][0], json::array({"AllBlocksCleared"}));
  EXPECT_EQ(message.batch[1][1][1], json::array({1}));
  // Then of what changes; and of all again when the next one comes.
  ASSERT_TRUE(publisher->Publish({Stored(3, 1, 16)}));
  uint64_t number = message.number;
  message = first.Next();
  EXPECT_EQ(message.number, number + 1);
  EXPECT_EQ(message.batch[1][0][1], json::array({3}));
  EventReader second(publisher->endpoint());
  for (EventReader* reader : {&first, &second}) {
    message = reader->Next();
    EXPECT_EQ(message.number, number + 2);
    ASSERT_THAT(message.batch[1], SizeIs(2)) << "nothing is stored twice";
    EXPECT_EQ(message.batch[1][0], json::array({"AllBlocksCleared"}));
    EXPECT_EQ(message.batch[1][1][1], json::array({1, 3}));
  }
}

TEST(EventPublisher, AReaderOfAnEngineWithoutBlocksForgetsThoseOfTheLast) {
  const std::unique_ptr<EventPublisher> publisher = Bound();
  EventReader reader(publisher->endpoint());
  EXPECT_EQ(reader.Next().batch[1], json::array({json::array({"AllBlocksCleared"})}));
}

TEST(EventPublisher, WhatIsQueuedIsSentBeforeItsEnd) {
  for (int i = 0; i < 20; ++i) {
    std::unique_ptr<EventPublisher> publisher = Bound();
    EventReader reader(publisher->endpoint());
    ASSERT_THAT(reader.Next().batch[1], SizeIs(1));
    ASSERT_TRUE(publisher->Publish({Stored(1, std::nullopt, 0)}));
    publisher.reset();
    const Message message = reader.Next();
    ASSERT_THAT(message.batch, SizeIs(3));
    EXPECT_EQ(message.batch[1][0][0], "BlockStored");
  }
}

TEST(EventPublisher, ManyEventsAreManyMessages) {
  const std::unique_ptr<EventPublisher> publisher = Bound();
  EventReader reader(publisher->endpoint());
  std::vector<BlockEvent> events;
  for (uint64_t hash = 1; hash <= 1000; ++hash) {
    events.push_back(Stored(hash, hash == 1 ? std::nullopt : std::optional(hash - 1), 0));
  }
  ASSERT_TRUE(publisher->Publish(events));
  size_t blocks = 0;
  size_t least = 0;
  while (blocks < events.size()) {
    const Message message = reader.Next();
    ASSERT_FALSE(message.batch.empty());
    for (const json& event : message.batch[1]) {
      if (event[0] == "AllBlocksCleared") continue;
      blocks += event[1].size();
      least = std::max(least, event[1].size());
      EXPECT_EQ(event[3].size(), event[1].size() * base::kBlockTokens);
    }
  }
  EXPECT_GE(least, EventPublisher::kMostInMessage - 1);  // A kCleared may be in the first one.
}

// One that speaks, whatever comes to its mind.
class Stranger {
 public:
  explicit Stranger(const std::string& endpoint) {
    EXPECT_EQ(zmq_socket_monitor(xsub_, "inproc://stranger", ZMQ_EVENT_DISCONNECTED), 0);
    EXPECT_EQ(zmq_connect(events_, "inproc://stranger"), 0);
    EXPECT_EQ(zmq_connect(xsub_, endpoint.c_str()), 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() {
    zmq_close(events_);
    zmq_close(xsub_);
    zmq_ctx_term(context_);
  }

  void Say(const std::string& message) const {
    EXPECT_EQ(zmq_send(xsub_, message.data(), message.size(), 0), message.size());
  }
  // Within ten seconds.
  bool Disconnected() const {
    zmq_pollitem_t wait{events_, 0, ZMQ_POLLIN, 0};
    return zmq_poll(&wait, 1, 10'000) == 1;
  }

 private:
  void* context_ = zmq_ctx_new();
  void* xsub_ = zmq_socket(context_, ZMQ_XSUB);
  void* events_ = zmq_socket(context_, ZMQ_PAIR);
};

TEST(EventPublisher, WhatStrangersSayIsIgnored) {
  const std::unique_ptr<EventPublisher> publisher = Bound();
  ASSERT_TRUE(publisher->Publish({Stored(1, std::nullopt, 0)}));
  {
    const Stranger stranger(publisher->endpoint());
    stranger.Say("");
    stranger.Say(std::string("\0unsubscribed before it was subscribed", 20));
    stranger.Say("BlockStored");
    stranger.Say("\1" + std::string(2000, 'x'));
    EXPECT_TRUE(stranger.Disconnected()) << "a topic of any length is kept";
  }
  EventReader reader(publisher->endpoint());
  EXPECT_THAT(reader.Next().batch[1], SizeIs(2));
}

TEST(EventPublisher, WhatIsTooMuchIsRejected) {
  const std::unique_ptr<EventPublisher> publisher = Bound();
  EventReader reader(publisher->endpoint());
  ASSERT_THAT(reader.Next().batch[1], SizeIs(1));
  EXPECT_FALSE(publisher->Publish(std::vector<BlockEvent>(EventPublisher::kMostQueued + 1)));
  EXPECT_EQ(reader.Next().batch[1], json::array({json::array({"AllBlocksCleared"})}));
  EXPECT_TRUE(publisher->Publish(std::vector<BlockEvent>(EventPublisher::kMostQueued)));
}

TEST(EventPublisher, AddressesThatCannotBeUsedAreNamed) {
  const std::unique_ptr<EventPublisher> publisher = Bound();
  for (const std::string& address :
       {std::string("127.0.0.1:5557"), std::string("http://127.0.0.1:5557"), std::string("123456"),
        std::string("tcp://nowhere.invalid:5557"), std::string("tcp://127.0.0.1:99999"),
        std::string("ipc:///nowhere/at/all"), publisher->endpoint()}) {
    const auto bound = EventPublisher::Bind(address, "");
    ASSERT_FALSE(bound.ok()) << address;
    EXPECT_EQ(bound.status().field(), "kv_events");
    EXPECT_THAT(bound.status().message(), HasSubstr("'" + address + "'"));
  }
}

TEST(EventPublisher, APortAloneIsOfThisMachine) {
  std::string port;
  {
    const std::unique_ptr<EventPublisher> publisher = Bound();
    port = publisher->endpoint().substr(publisher->endpoint().rfind(':') + 1);
  }
  const auto bound = EventPublisher::Bind(port, "");
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  EXPECT_EQ((*bound)->endpoint(), "tcp://127.0.0.1:" + port);
}

}  // namespace
}  // namespace ropeway::kvcache
