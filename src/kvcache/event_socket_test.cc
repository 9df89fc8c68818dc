#include "kvcache/event_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvcache/event_publisher.h"
#include "kvcache/test_event_reader.h"

namespace ropeway::kvcache {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

std::unique_ptr<EventPublisher> Published(const std::string& address = "tcp://127.0.0.1:*") {
  StatusOr<std::unique_ptr<EventPublisher>> bound = EventPublisher::Bind(address, "kv");
  EXPECT_TRUE(bound.ok()) << bound.status().message();
  return *std::move(bound);
}

std::string RefusalOf(const std::string& address) {
  const auto bound = EventPublisher::Bind(address, "kv");
  EXPECT_FALSE(bound.ok());
  EXPECT_EQ(bound.status().field(), "kv_events");
  return bound.status().message();
}

// A connection that does ZMTP's handshake as a SUB socket, and then what it likes.
class RawReader {
 public:
  explicit RawReader(const std::string& endpoint) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    std::string greeting("\xFF\0\0\0\0\0\0\0\0\x7F\3\0NULL", 16);
    greeting.resize(64, '\0');
    // A peer that speaks before the other's handshake is complete is disconnected.
    constexpr size_t kGreetingAndReady = 64 + 28;
    std::array<char, kGreetingAndReady> answer{};
    const timeval most{.tv_sec = 5, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    open_ = connected && Say(greeting) &&
            Say(std::string("\4\x19\5READY\x0BSocket-Type\0\0\0\3SUB", 27)) &&
            recv(fd_, answer.data(), answer.size(), MSG_WAITALL) == kGreetingAndReady;
  }
  RawReader(const RawReader&) = delete;
  RawReader& operator=(const RawReader&) = delete;
  ~RawReader() { close(fd_); }

  bool Say(const std::string& bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // A short frame.
  bool Subscribe(const std::string& topic) {
    return Say(std::string({'\0', static_cast<char>(topic.size() + 1), '\1'}) + topic);
  }
  bool IsOpen() {
    std::array<char, 4096> bytes{};
    for (ssize_t size = 1; open_ && size > 0;) {
      size = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      open_ = size > 0 || (size < 0 && errno == EAGAIN);
    }
    return open_;
  }

 private:
  int fd_ = -1;
  bool open_ = false;
};

// Whether it holds within five seconds.
bool Soon(const auto& holds) {
  using std::chrono::milliseconds;
  for (int i = 0; i < 500; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

TEST(EventSocket, IdleReadersCannotTakeAllDescriptors) {
  const std::unique_ptr<EventPublisher> publisher = Published();
  EventReader reader(publisher->endpoint());
  ASSERT_THAT(reader.Next().batch[1], SizeIs(1));
  std::vector<std::unique_ptr<RawReader>> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(std::make_unique<RawReader>(publisher->endpoint()));
  EXPECT_TRUE(Soon([&] {
    return std::ranges::count_if(idle, [](const auto& each) { return each->IsOpen(); }) <= 64;
  }));
  // One that means well is served again.
  EXPECT_EQ(reader.Next().batch[1], json::array({json::array({"AllBlocksCleared"})}));
  ASSERT_TRUE(publisher->Publish({{.kind = BlockEvent::Kind::kRemoved, .hash = 7}}));
  EXPECT_EQ(reader.Next().batch[1][0][0], "BlockRemoved");
}

TEST(EventSocket, ReadersThatLeftDoNotCount) {
  const std::unique_ptr<EventPublisher> publisher = Published();
  EventReader reader(publisher->endpoint());
  ASSERT_THAT(reader.Next().batch[1], SizeIs(1));
  for (int i = 0; i < 150; ++i) {
    RawReader other(publisher->endpoint());
    ASSERT_TRUE(other.IsOpen());
    if (i % 2 == 0) other.Say("no frame of ZMTP at all, and its handshake fails");
    if (i % 16 == 15) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(publisher->Publish({{.kind = BlockEvent::Kind::kRemoved, .hash = 7}}));
  const Message message = reader.Next();
  EXPECT_EQ(message.batch[1][0][0], "BlockRemoved") << "it was disconnected";
}

TEST(EventSocket, OneReaderCannotAskForAnyNumberOfTopics) {
  const std::unique_ptr<EventPublisher> publisher = Published();
  EventReader reader(publisher->endpoint());
  ASSERT_THAT(reader.Next().batch[1], SizeIs(1));
  RawReader fair(publisher->endpoint());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(fair.Subscribe(i % 2 == 0 ? "kv" : "k"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(fair.IsOpen());
  RawReader greedy(publisher->endpoint());
  for (int i = 0; i < 300 && greedy.Subscribe(std::to_string(i) + std::string(200, 'x')); ++i) {
  }
  EXPECT_TRUE(Soon([&] { return !greedy.IsOpen(); }));
  // The honest one comes back.
  for (bool removed = false; !removed;) {
    ASSERT_TRUE(publisher->Publish({{.kind = BlockEvent::Kind::kRemoved, .hash = 7}}));
    const Message message = reader.Next();
    ASSERT_THAT(message.batch, SizeIs(3));
    removed = message.batch[1][0][0] == "BlockRemoved";
  }
}

TEST(EventSocket, TooFewDescriptorsAreAnError) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(STDOUT_FILENO);
  close(next);
  for (int more = 0; more < 40; ++more) {
    const rlimit low{static_cast<rlim_t>(next + more), limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    const auto bound = EventPublisher::Bind("tcp://127.0.0.1:*", "");
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (bound.ok()) {
      EXPECT_GT(more, 10);
      continue;
    }
    EXPECT_LT(more, 39);
    EXPECT_EQ(bound.status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(bound.status().field(), "kv_events");
  }
}

class EventFile : public testing::Test {
 protected:
  EventFile() { std::filesystem::create_directory(dir_); }
  ~EventFile() override { std::filesystem::remove_all(dir_); }

  const std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / ("ropeway-events-" + std::to_string(getpid()));
  const std::string path_ = dir_ / "socket";
  const std::string address_ = "ipc://" + path_;
};

TEST_F(EventFile, WhatIsNoSocketIsKept) {
  std::ofstream(path_) << "dear";
  EXPECT_THAT(RefusalOf(address_), HasSubstr("'" + address_ + "': there is a file that is no"));
  std::string text;
  std::getline(std::ifstream(path_), text);
  EXPECT_EQ(text, "dear");
  std::filesystem::create_symlink("elsewhere", dir_ / "link");
  EXPECT_THAT(RefusalOf("ipc://" + (dir_ / "link").string()), HasSubstr("no socket"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir_ / "link"));
}

TEST_F(EventFile, ARunningPublisherKeepsItsSocket) {
  const std::unique_ptr<EventPublisher> publisher = Published(address_);
  EXPECT_THAT(RefusalOf(address_), HasSubstr("another process publishes there"));
  EventReader reader(publisher->endpoint());
  EXPECT_THAT(reader.Next().batch[1], SizeIs(1));
}

TEST_F(EventFile, TheSocketOfAProcessThatEndedIsReplacedAndTheOwnRemoved) {
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  path_.copy(name.sun_path, sizeof name.sun_path - 1);
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  close(dead);
  std::unique_ptr<EventPublisher> publisher = Published(address_);
  {
    EventReader reader(publisher->endpoint());
    EXPECT_THAT(reader.Next().batch[1], SizeIs(1));
  }
  publisher.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(EventFile, AnothersFileIsNotRemoved) {
  std::unique_ptr<EventPublisher> publisher = Published(address_);
  std::filesystem::remove(path_);
  const std::unique_ptr<EventPublisher> successor = Published(address_);
  publisher.reset();
  EventReader reader(address_);
  EXPECT_THAT(reader.Next().batch[1], SizeIs(1));
}

TEST_F(EventFile, APathOfNobodysChoiceIsRefused) {
  EXPECT_THAT(RefusalOf("ipc://*"), HasSubstr("ipc://PATH"));
}

}  // namespace
}  // namespace ropeway::kvcache
