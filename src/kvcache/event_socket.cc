#include "kvcache/event_socket.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace ropeway::kvcache {
namespace {

using std::chrono::milliseconds;

// Messages that wait for one slow reader; more are lost to it.
constexpr int kMostUnread = 4096;
// Messages of one reader that wait. libzmq applies also those that come while it applies the
// others: with a longer queue a fast reader would not let it end.
constexpr int kMostUnheard = 1;
// Connections that wait to be accepted. Few, for libzmq accepts them all before the publisher's
// thread sees that they are too many.
constexpr int kBacklog = 16;
constexpr int kMostHeardAtOnce = 1024;
// Readers send nothing but subscriptions; their handshake may hold a name of 255 bytes.
constexpr size_t kMostFromReader = 512;
constexpr size_t kSubscribeHeader = 16;
constexpr int kLingerMs = 200;
// A reader whose machine is gone must not count forever.
constexpr int kKeepAliveSeconds = 60;
constexpr milliseconds kPause(1000);
constexpr std::chrono::minutes kBetweenWarnings(1);
// libzmq ends the process where it gets none for its threads' pipes: for those, the listener and
// what other threads open meanwhile.
constexpr int kOwnDescriptors = 24;
constexpr char kMonitor[] = "inproc://peers";

Status NoAddress(const std::string& address, std::string_view reason) {
  return InvalidArgument(
      fmt::format("kv_events (--kv-events): cannot publish at '{}': {}", address, reason),
      "kv_events");
}

bool IsPort(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port <= 65535;
}

// ZeroMQ takes what is too large for a port for another one. A path of its own choice could not be
// bound again.
bool IsEndpoint(std::string_view address) {
  if (address.starts_with("ipc://")) return address != "ipc://" && address != "ipc://*";
  const std::string_view port = address.substr(address.rfind(':') + 1);
  return address.starts_with("tcp://") && (port == "*" || IsPort(port));
}

// The file of an ipc:// address; none for another one, or for a name that is no file's ("@name").
std::string PathOf(std::string_view endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  if (!endpoint.starts_with(kIpc) || endpoint.substr(kIpc.size()).starts_with('@')) return "";
  return std::string(endpoint.substr(kIpc.size()));
}

bool DescriptorsAreLeft() {
  std::array<int, kOwnDescriptors> opened{};
  for (int& fd : opened) fd = eventfd(0, EFD_CLOEXEC);
  const bool left = std::ranges::all_of(opened, [](int fd) { return fd >= 0; });
  for (const int fd : opened) {
    if (fd >= 0) close(fd);
  }
  return left;
}

// Why libzmq, which removes what it finds there, must not bind this path; none if it may.
std::string WhyTaken(const std::string& path) {
  struct stat about {};
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof name.sun_path) return "the path is too long";
  if (lstat(path.c_str(), &about) != 0) return "";  // If it cannot be bound, zmq_bind says why.
  if (!S_ISSOCK(about.st_mode)) return "there is a file that is no socket";
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::system_category().message(errno);
  const int error =
      connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ? 0 : errno;
  close(fd);
  if (error == ECONNREFUSED) return "";
  if (error == 0 || error == EAGAIN) return "another process publishes there";
  return std::system_category().message(error);
}

}  // namespace

EventSocket::EventSocket(std::string topic)
    : topic_(std::move(topic)),
      frame_(std::max(kMostFromReader, topic_.size() + kSubscribeHeader)) {
  peers_.reserve(kMostPeers + 1);
}

EventSocket::~EventSocket() {
  RemoveFile();
  if (monitor_ != nullptr) {
    // In this order, for libzmq's own thread would wait for a reader of further events.
    ReadMonitor();
    zmq_socket_monitor(xpub_, nullptr, 0);
    zmq_close(monitor_);
  }
  if (xpub_ != nullptr) zmq_close(xpub_);
  if (context_ != nullptr) zmq_ctx_term(context_);
}

bool EventSocket::Set(int option, auto value) const {
  return zmq_setsockopt(xpub_, option, &value, sizeof value) == 0;
}

StatusOr<std::unique_ptr<EventSocket>> EventSocket::Bind(const std::string& address,
                                                         const std::string& topic) {
  const std::string endpoint = IsPort(address) ? "tcp://127.0.0.1:" + address : address;
  if (!IsEndpoint(endpoint)) {
    return NoAddress(address, "expected tcp://HOST:PORT, ipc://PATH or a port of 127.0.0.1");
  }
  if (!DescriptorsAreLeft()) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("kv_events (--kv-events) needs {} file descriptors, which are not "
                              "left: raise the limit (ulimit -n)",
                              kOwnDescriptors),
                  "kv_events");
  }
  std::unique_ptr<EventSocket> socket(new EventSocket(topic));
  Status opened = socket->Open(address, endpoint);
  if (!opened.ok()) return opened;
  return socket;
}

Status EventSocket::Open(const std::string& address, const std::string& endpoint) {
  constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_DISCONNECTED;
  context_ = zmq_ctx_new();
  if (context_ != nullptr) xpub_ = zmq_socket(context_, ZMQ_XPUB);
  // Each subscription is passed on, not only the first to a topic. Readers by IPv6 may come, too.
  if (xpub_ == nullptr || !Set(ZMQ_XPUB_VERBOSE, 1) || !Set(ZMQ_SNDHWM, kMostUnread) ||
      !Set(ZMQ_RCVHWM, kMostUnheard) || !Set(ZMQ_MAXMSGSIZE, static_cast<int64_t>(frame_.size())) ||
      !Set(ZMQ_BACKLOG, kBacklog) || !Set(ZMQ_LINGER, kLingerMs) || !Set(ZMQ_TCP_KEEPALIVE, 1) ||
      !Set(ZMQ_TCP_KEEPALIVE_IDLE, kKeepAliveSeconds) ||
      !Set(ZMQ_IPV6, endpoint.starts_with("tcp://[") ? 1 : 0) ||
      zmq_socket_monitor(xpub_, kMonitor, kEvents) != 0) {
    return NoAddress(address, zmq_strerror(zmq_errno()));
  }
  monitor_ = zmq_socket(context_, ZMQ_PAIR);
  if (monitor_ == nullptr || zmq_connect(monitor_, kMonitor) != 0) {
    return NoAddress(address, zmq_strerror(zmq_errno()));
  }
  if (Status bound = BindNow(address, endpoint); !bound.ok()) return bound;
  std::array<char, 256> name{};
  size_t size = name.size();
  if (zmq_getsockopt(xpub_, ZMQ_LAST_ENDPOINT, name.data(), &size) != 0) {
    return NoAddress(address, zmq_strerror(zmq_errno()));
  }
  endpoint_ = name.data();
  return {};
}

Status EventSocket::BindNow(const std::string& address, const std::string& endpoint) {
  const std::string path = PathOf(endpoint);
  if (!path.empty()) {
    const std::string taken = WhyTaken(path);
    if (!taken.empty()) return NoAddress(address, taken);
  }
  if (zmq_bind(xpub_, endpoint.c_str()) != 0) {
    return NoAddress(address, zmq_strerror(zmq_errno()));
  }
  struct stat about {};
  if (!path.empty() && lstat(path.c_str(), &about) == 0) {
    file_ = Identity{about.st_dev, about.st_ino};
  }
  return {};
}

// Before the socket is closed: while it is open, no other file can have its number.
void EventSocket::RemoveFile() {
  if (!file_.has_value()) return;
  const std::string path = PathOf(endpoint_);
  struct stat about {};
  if (lstat(path.c_str(), &about) == 0 && about.st_dev == file_->device &&
      about.st_ino == file_->inode) {
    unlink(path.c_str());
  }
  file_.reset();
}

bool EventSocket::IsLocal() const {
  const std::string_view endpoint = endpoint_;
  return endpoint.starts_with("ipc://") || endpoint.starts_with("tcp://127.") ||
         endpoint.starts_with("tcp://localhost:") || endpoint.starts_with("tcp://[::1]:");
}

bool EventSocket::Wait(int wake_fd) {
  LimitPeers();
  std::array<zmq_pollitem_t, 3> wait = {zmq_pollitem_t{xpub_, 0, ZMQ_POLLIN, 0},
                                        zmq_pollitem_t{monitor_, 0, ZMQ_POLLIN, 0},
                                        zmq_pollitem_t{nullptr, wake_fd, ZMQ_POLLIN, 0}};
  const long most = bind_at_.has_value() ? static_cast<long>(kPause.count()) : -1;
  if (zmq_poll(wait.data(), static_cast<int>(wait.size()), most) < 0 && zmq_errno() != EINTR) {
    return false;
  }
  LimitPeers();
  return true;
}

bool EventSocket::ReadSubscriptions() {
  bool subscribed = false;
  for (int i = 0; i < kMostHeardAtOnce; ++i) {
    const int size = zmq_recv(xpub_, frame_.data(), frame_.size(), ZMQ_DONTWAIT);
    if (size < 0) break;
    if (size == 0 || frame_[0] != 1) continue;
    subscribed = true;
    const std::string_view topic(frame_.data() + 1, static_cast<size_t>(size) - 1);
    if (!topic_.starts_with(topic)) ++foreign_topics_;
  }
  return subscribed;
}

void EventSocket::Send(const void* data, size_t size, int flags) {
  while (zmq_send(xpub_, data, size, flags) < 0 && zmq_errno() == EINTR) {
  }
}

void EventSocket::ReadMonitor() {
  // An event is two frames: its number and a value, which is a descriptor here, and an address.
  struct {
    std::array<char, 6> frame;
    uint16_t event;
    int32_t value;
  } got{};
  for (;;) {
    const int size = zmq_recv(monitor_, got.frame.data(), got.frame.size(), ZMQ_DONTWAIT);
    if (size < 0) return;
    std::array<char, 1> address{};
    zmq_recv(monitor_, address.data(), address.size(), 0);
    if (size != static_cast<int>(got.frame.size())) continue;
    std::memcpy(&got.event, got.frame.data(), sizeof got.event);
    std::memcpy(&got.value, got.frame.data() + sizeof got.event, sizeof got.value);
    if (got.event == ZMQ_EVENT_ACCEPT_FAILED) {
      out_of_descriptors_ |= got.value == EMFILE || got.value == ENFILE;
      continue;
    }
    std::erase(peers_, got.value);
    if (got.event == ZMQ_EVENT_ACCEPTED && peers_.size() <= kMostPeers) {
      peers_.push_back(got.value);
    }
    if (peers_.empty()) foreign_topics_ = 0;
  }
}

void EventSocket::LimitPeers() {
  ReadMonitor();
  if (bind_at_.has_value()) {
    BindAgain();
  } else if (peers_.size() > kMostPeers) {
    DropAll(fmt::format("more than {} connected", kMostPeers));
  } else if (foreign_topics_ > kMostForeignTopics) {
    DropAll("they asked for too many topics that are not published");
  } else if (out_of_descriptors_) {
    DropAll("no file descriptor was left for one");
  }
}

// Their connections belong to the listener, and end with it.
void EventSocket::DropAll(std::string_view reason) {
  const Clock::time_point now = Clock::now();
  if (now >= warn_at_) {
    warn_at_ = now + kBetweenWarnings;
    base::TryLog(spdlog::level::warn,
                 "all readers of KV events were disconnected: {}; they can connect again in a "
                 "second. The next minute's are not logged",
                 reason);
  }
  RemoveFile();
  zmq_unbind(xpub_, endpoint_.c_str());
  bind_at_ = now + kPause;
}

void EventSocket::BindAgain() {
  const Clock::time_point now = Clock::now();
  if (now < *bind_at_) return;
  const Status bound = BindNow(endpoint_, endpoint_);
  if (!bound.ok()) {
    bind_at_ = now + kPause;
    if (now < warn_at_) return;
    warn_at_ = now + kBetweenWarnings;
    base::TryLog(spdlog::level::err, "{}; it is tried again", bound.message());
    return;
  }
  // Of those that it disconnects itself libzmq does not tell.
  peers_.clear();
  foreign_topics_ = 0;
  out_of_descriptors_ = false;
  bind_at_.reset();
}

}  // namespace ropeway::kvcache
