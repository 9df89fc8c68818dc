#include "kvcache/event_publisher.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace ropeway::kvcache {
namespace {

using nlohmann::json;

// A stored event to which the chain's next blocks may be added.
json StoredJson(const BlockEvent& event) {
  json parent = nullptr;
  if (event.parent.has_value()) parent = *event.parent;
  return json::array({"BlockStored", json::array({event.hash}), std::move(parent), event.ids,
                      base::kBlockTokens, nullptr});
}

}  // namespace

void BlockDirectory::Apply(const BlockEvent& event) {
  if (event.kind == BlockEvent::Kind::kCleared) {
    blocks_.clear();
    by_order_.clear();
    return;
  }
  const auto found = blocks_.find(event.hash);
  if (event.kind == BlockEvent::Kind::kRemoved) {
    if (found == blocks_.end()) return;
    by_order_.erase(found->second.order);
    blocks_.erase(found);
    return;
  }
  if (found != blocks_.end()) return;
  const auto place = by_order_.emplace_hint(by_order_.end(), next_, event.hash);
  try {
    blocks_.emplace(event.hash, Block{event, next_});
  } catch (...) {
    by_order_.erase(place);
    throw;
  }
  ++next_;
}

void BlockDirectory::AddWithParents(uint64_t hash, std::unordered_map<uint64_t, bool>* added,
                                    std::vector<BlockEvent>* all) const {
  std::vector<const BlockEvent*> chain;
  for (auto block = blocks_.find(hash); block != blocks_.end();) {
    if (!added->emplace(block->first, true).second) break;
    chain.push_back(&block->second.stored);
    if (!block->second.stored.parent.has_value()) break;
    block = blocks_.find(*block->second.stored.parent);
  }
  for (auto event = chain.rbegin(); event != chain.rend(); ++event) all->push_back(**event);
}

std::vector<BlockEvent> BlockDirectory::All() const {
  std::vector<BlockEvent> all;
  all.reserve(blocks_.size());
  std::unordered_map<uint64_t, bool> added;
  for (const auto& [order, hash] : by_order_) AddWithParents(hash, &added, &all);
  return all;
}

std::vector<uint8_t> EncodeEvents(const std::vector<BlockEvent>& events, double seconds) {
  json list = json::array();
  const BlockEvent* before = nullptr;
  for (const BlockEvent& event : events) {
    const bool same_kind = before != nullptr && before->kind == event.kind;
    switch (event.kind) {
      case BlockEvent::Kind::kStored:
        if (same_kind && event.parent == before->hash) {
          list.back()[1].push_back(event.hash);
          for (const TokenId id : event.ids) list.back()[3].push_back(id);
        } else {
          list.push_back(StoredJson(event));
        }
        break;
      case BlockEvent::Kind::kRemoved:
        if (same_kind) {
          list.back()[1].push_back(event.hash);
        } else {
          list.push_back(json::array({"BlockRemoved", json::array({event.hash})}));
        }
        break;
      case BlockEvent::Kind::kCleared:
        list.push_back(json::array({"AllBlocksCleared"}));
        break;
    }
    before = &event;
  }
  return json::to_msgpack(json::array({seconds, std::move(list), 0}));
}

StatusOr<std::unique_ptr<EventPublisher>> EventPublisher::Bind(const std::string& address,
                                                               const std::string& topic) {
  StatusOr<std::unique_ptr<EventSocket>> socket = EventSocket::Bind(address, topic);
  if (!socket.ok()) return socket.status();
  std::unique_ptr<EventPublisher> publisher(new EventPublisher(*std::move(socket), topic));
  publisher->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (publisher->wake_fd_ < 0) {
    return Status(StatusCode::kResourceExhausted,
                  "kv_events (--kv-events): no file descriptor is left", "kv_events");
  }
  if (!publisher->socket_->IsLocal()) {
    base::Log().warn(
        "KV events are published at {}: whoever reaches that address reads the tokens of all "
        "prompts and answers",
        publisher->endpoint());
  }
  try {
    publisher->thread_ = std::thread([self = publisher.get()] { self->Main(); });
  } catch (const std::system_error& e) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("kv_events (--kv-events): cannot start a thread: {}", e.what()),
                  "kv_events");
  }
  pthread_setname_np(publisher->thread_.native_handle(), "ropeway-kv-evnt");
  return publisher;
}

EventPublisher::EventPublisher(std::unique_ptr<EventSocket> socket, std::string topic)
    : socket_(std::move(socket)), topic_(std::move(topic)) {}

EventPublisher::~EventPublisher() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mu_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
  }
  if (wake_fd_ >= 0) close(wake_fd_);
}

void EventPublisher::Wake() const {
  const uint64_t one = 1;
  // It fails only where it is awake 2^64 times over.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

bool EventPublisher::Publish(std::vector<BlockEvent> events) noexcept {
  bool taken = false;
  {
    const std::lock_guard lock(mu_);
    try {
      if (!lost_ && queue_.size() + events.size() <= kMostQueued) {
        queue_.insert(queue_.end(), std::make_move_iterator(events.begin()),
                      std::make_move_iterator(events.end()));
        taken = true;
      }
    } catch (const std::bad_alloc&) {
      // As if there were no room.
    }
    if (!taken) {
      queue_.clear();
      lost_ = true;
      try {
        queue_.push_back({.kind = BlockEvent::Kind::kCleared});
        lost_ = false;
      } catch (const std::bad_alloc&) {
        // Readers are told with the next call.
      }
    }
  }
  Wake();
  return taken;
}

void EventPublisher::Send(const std::vector<BlockEvent>& events) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (size_t begin = 0; begin < events.size(); begin += kMostInMessage) {
    const size_t end = std::min(events.size(), begin + kMostInMessage);
    const std::vector<uint8_t> payload =
        EncodeEvents({events.begin() + static_cast<ptrdiff_t>(begin),
                      events.begin() + static_cast<ptrdiff_t>(end)},
                     now);
    std::array<uint8_t, 8> number{};
    for (size_t i = 0; i < number.size(); ++i) {
      number[i] = static_cast<uint8_t>(next_number_ >> (8 * (number.size() - 1 - i)));
    }
    ++next_number_;
    socket_->Send(topic_.data(), topic_.size(), ZMQ_SNDMORE);
    socket_->Send(number.data(), number.size(), ZMQ_SNDMORE);
    socket_->Send(payload.data(), payload.size(), 0);
    socket_->LimitPeers();  // Many of them may come while a long list is sent.
  }
}

void EventPublisher::Tell(const std::vector<BlockEvent>& events, bool* tell_all) {
  for (const BlockEvent& event : events) directory_.Apply(event);
  if (!*tell_all) {
    Send(events);
    return;
  }
  std::vector<BlockEvent> all = directory_.All();
  all.insert(all.begin(), {.kind = BlockEvent::Kind::kCleared});
  Send(all);
  *tell_all = false;
}

void EventPublisher::Main() {
  bool tell_all = false;
  for (bool stopping = false; !stopping;) {
    if (!socket_->Wait(wake_fd_)) {
      base::TryLog(spdlog::level::err, "KV events are not published any more: {}",
                   zmq_strerror(zmq_errno()));
      return;
    }
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t size = read(wake_fd_, &count, sizeof count);
    tell_all = socket_->ReadSubscriptions() || tell_all;
    std::vector<BlockEvent> events;
    {
      const std::lock_guard lock(mu_);
      stopping = stopping_;
      events.swap(queue_);
    }
    try {
      Tell(events, &tell_all);
    } catch (const std::bad_alloc&) {
      // What a reader was told may be wrong now: all of it is taken back, and the next Publish says
      // so.
      directory_.Apply({.kind = BlockEvent::Kind::kCleared});
      {
        const std::lock_guard lock(mu_);
        lost_ = true;
      }
      try {
        Send({{.kind = BlockEvent::Kind::kCleared}});
      } catch (const std::bad_alloc&) {
        base::TryLog(spdlog::level::err, "KV events were lost for want of memory");
      }
    }
  }
}

}  // namespace ropeway::kvcache
