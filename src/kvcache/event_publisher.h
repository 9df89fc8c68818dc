// Publishes block events by ZeroMQ, in the format of vLLM's KV events, which routers such as
// Dynamo's and llm-d's read.
#ifndef ROPEWAY_KVCACHE_EVENT_PUBLISHER_H_
#define ROPEWAY_KVCACHE_EVENT_PUBLISHER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kvcache/block_events.h"
#include "kvcache/event_socket.h"
#include "ropeway/status.h"

namespace ropeway::kvcache {

// The blocks that there are by the events so far, to be told to a reader that comes later.
// Thread rule: one thread at a time. Its methods may throw std::bad_alloc.
class BlockDirectory {
 public:
  void Apply(const BlockEvent& event);
  // An event for each block, a parent before its children.
  std::vector<BlockEvent> All() const;
  size_t size() const { return blocks_.size(); }

 private:
  struct Block {
    BlockEvent stored;
    uint64_t order = 0;
  };
  void AddWithParents(uint64_t hash, std::unordered_map<uint64_t, bool>* added,
                      std::vector<BlockEvent>* all) const;

  std::unordered_map<uint64_t, Block> blocks_;
  std::map<uint64_t, uint64_t> by_order_;  // Hashes.
  uint64_t next_ = 0;
};

// One message's payload: vLLM's KVEventBatch as MessagePack, [time in seconds, events, rank 0],
// with the events ["BlockStored", hashes, parent or nil, ids, kBlockTokens, nil], ["BlockRemoved",
// hashes] and ["AllBlocksCleared"]. Stored blocks that follow each other in a chain are one event.
std::vector<uint8_t> EncodeEvents(const std::vector<BlockEvent>& events, double seconds);

// Binds an XPUB socket. A message has three parts: the topic, its number as eight bytes
// (big-endian, from 0), and a payload. A reader that subscribes, at any time, is told of all blocks
// that there are, after a kCleared: what it knew of an earlier process, or of messages that it
// missed, is taken back. All readers get these messages, for a socket cannot address one; so that a
// reader that counts how often a block was stored is right, each block is stored once since the
// last kCleared or its removal. A reader that is too slow misses messages, which shows in their
// numbers; to be told of all it subscribes again.
//
// The thread "ropeway-kv-evnt" does all the work.
class EventPublisher {
 public:
  static constexpr size_t kMostQueued = size_t{1} << 16;  // Events.
  static constexpr size_t kMostInMessage = 256;           // Events.

  // `address`: "tcp://HOST:PORT", "ipc://PATH", or a port alone, which is of 127.0.0.1. Events hold
  // the ids of prompts: it warns where another machine can read them. kInvalidArgument for an
  // address that cannot be used, kResourceExhausted where no descriptors or threads are left.
  static StatusOr<std::unique_ptr<EventPublisher>> Bind(const std::string& address,
                                                        const std::string& topic);
  // Sends what is queued.
  ~EventPublisher();
  EventPublisher(const EventPublisher&) = delete;
  EventPublisher& operator=(const EventPublisher&) = delete;

  // Hands the events to the thread. False where kMostQueued of them wait, or if memory was short,
  // also for earlier ones: then neither these nor those that wait are published, and readers are
  // told a kCleared. Never waits for a reader. Any thread.
  bool Publish(std::vector<BlockEvent> events) noexcept;

  // The address with the port that was chosen for "tcp://127.0.0.1:*".
  const std::string& endpoint() const { return socket_->endpoint(); }

 private:
  EventPublisher(std::unique_ptr<EventSocket> socket, std::string topic);
  void Main();
  void Wake() const;
  void Send(const std::vector<BlockEvent>& events);
  // Applies the events and sends them; or all blocks, if `tell_all`, which is reset then.
  void Tell(const std::vector<BlockEvent>& events, bool* tell_all);

  const std::unique_ptr<EventSocket> socket_;  // Of the thread, once that runs.
  const std::string topic_;
  int wake_fd_ = -1;

  std::mutex mu_;
  std::vector<BlockEvent> queue_;  // GUARDED_BY(mu_)
  bool stopping_ = false;          // GUARDED_BY(mu_)
  bool lost_ = false;  // GUARDED_BY(mu_) The caller is still to learn that all was taken back.

  // Of the thread.
  BlockDirectory directory_;
  uint64_t next_number_ = 0;

  std::thread thread_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_EVENT_PUBLISHER_H_
