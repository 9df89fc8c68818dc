// For tests: reads what an EventPublisher sends.
#ifndef ROPEWAY_KVCACHE_TEST_EVENT_READER_H_
#define ROPEWAY_KVCACHE_TEST_EVENT_READER_H_

#include <gtest/gtest.h>
#include <zmq.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ropeway::kvcache {

struct Message {
  std::string topic;
  uint64_t number = 0;
  nlohmann::json batch;
};

// As routers read: a SUB socket.
class EventReader {
 public:
  explicit EventReader(const std::string& endpoint, const std::string& topic = "") {
    constexpr int kWaitMs = 10'000;
    zmq_setsockopt(sub_, ZMQ_RCVTIMEO, &kWaitMs, sizeof kWaitMs);
    zmq_setsockopt(sub_, ZMQ_SUBSCRIBE, topic.data(), topic.size());
    EXPECT_EQ(zmq_connect(sub_, endpoint.c_str()), 0);
  }
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;
  ~EventReader() {
    zmq_close(sub_);
    zmq_ctx_term(context_);
  }

  Message Next() {
    Message message;
    message.topic = Part().value_or("none came");
    const std::string number = Part().value_or("");
    EXPECT_EQ(number.size(), 8U);
    for (const char byte : number)
      message.number = message.number << 8U | static_cast<uint8_t>(byte);
    message.batch = nlohmann::json::from_msgpack(Part().value_or("\x90"));
    return message;
  }

 private:
  std::optional<std::string> Part() {
    std::string part(1 << 20, '\0');
    const int size = zmq_recv(sub_, part.data(), part.size(), 0);
    if (size < 0) return std::nullopt;
    part.resize(static_cast<size_t>(size));
    return part;
  }

  void* context_ = zmq_ctx_new();
  void* sub_ = zmq_socket(context_, ZMQ_SUB);
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_TEST_EVENT_READER_H_
