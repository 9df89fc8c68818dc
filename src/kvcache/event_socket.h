// The socket of an EventPublisher, which bounds what its readers may take.
#ifndef ROPEWAY_KVCACHE_EVENT_SOCKET_H_
#define ROPEWAY_KVCACHE_EVENT_SOCKET_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::kvcache {

// An XPUB socket of ZeroMQ. libzmq accepts all that connect, keeps all topics that they ask for,
// and cannot close one connection. So where readers are too many, or ask for too many topics, all
// are disconnected, and the address is bound again a second later: readers that mean well come back
// by themselves, and are told of all blocks then.
//
// Thread rule: one thread at a time.
class EventSocket {
 public:
  static constexpr size_t kMostPeers = 64;
  // Topics asked for that are no beginning of the own one: libzmq keeps each until its reader
  // leaves, at up to 33 times its size.
  static constexpr int kMostForeignTopics = 256;

  // As EventPublisher::Bind says. A PATH must be free, or the socket of a process that has ended.
  static StatusOr<std::unique_ptr<EventSocket>> Bind(const std::string& address,
                                                     const std::string& topic);
  // Waits a moment for what is sent to leave, and removes the file of an ipc:// address.
  ~EventSocket();
  EventSocket(const EventSocket&) = delete;
  EventSocket& operator=(const EventSocket&) = delete;

  // With the port that was chosen for "tcp://127.0.0.1:*".
  const std::string& endpoint() const { return endpoint_; }
  // Whether only this machine can connect to it.
  bool IsLocal() const;

  // Until readers say something or `wake_fd` can be read; may return earlier. False, with
  // zmq_errno(), where it cannot wait.
  bool Wait(int wake_fd);
  // Whether there is a new subscription.
  bool ReadSubscriptions();
  // Never waits: what a reader does not take is lost to it.
  void Send(const void* data, size_t size, int flags);
  // To be called between long pieces of work: until then libzmq accepts further peers.
  void LimitPeers();

 private:
  // Of a file.
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
  };
  using Clock = std::chrono::steady_clock;

  explicit EventSocket(std::string topic);
  bool Set(int option, auto value) const;
  Status Open(const std::string& address, const std::string& endpoint);
  Status BindNow(const std::string& address, const std::string& endpoint);
  void BindAgain();
  void ReadMonitor();
  void DropAll(std::string_view reason);
  void RemoveFile();

  const std::string topic_;
  void* context_ = nullptr;
  void* xpub_ = nullptr;
  void* monitor_ = nullptr;
  std::string endpoint_;
  std::optional<Identity> file_;  // Of ipc://PATH.

  std::vector<char> frame_;  // Of the size of the longest that a reader may send.
  std::vector<int> peers_;   // Their descriptors, and no more of them than one above the limit.
  int foreign_topics_ = 0;
  bool out_of_descriptors_ = false;
  std::optional<Clock::time_point> bind_at_;  // While it is not bound.
  Clock::time_point warn_at_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_EVENT_SOCKET_H_
