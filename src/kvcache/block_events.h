// Tells which KV blocks this engine has, in memory or in its tier, so that a router in front of
// many engines can send a prompt to where its prefix is.
#ifndef ROPEWAY_KVCACHE_BLOCK_EVENTS_H_
#define ROPEWAY_KVCACHE_BLOCK_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/block_name.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_tier.h"
#include "ropeway/request.h"

namespace ropeway::kvcache {

// One change. A block is called by the first eight bytes of its name, as a big-endian number: its
// names are hashes of all that its bytes depend on, so equal blocks of any engine of the same model
// have the same hash.
struct BlockEvent {
  enum class Kind : uint8_t {
    kStored,   // The block can be read from now on.
    kRemoved,  // It is gone from memory and from the tier.
    kCleared,  // All are as good as gone: some events were lost.
  };
  Kind kind = Kind::kStored;
  uint64_t hash = 0;
  // Of kStored: the block before it; absent for the first of a chain. And its kBlockTokens ids.
  std::optional<uint64_t> parent = {};
  std::vector<TokenId> ids = {};

  bool operator==(const BlockEvent&) const = default;
};

uint64_t EventHash(const core::BlockName& name);

// Keeps the set of blocks that were announced. Full blocks alone are: the parked tail of a sequence
// is of no use to another. Of layers in groups (KvWindows) one group's blocks stand for all.
//
// Thread rule: the engine thread.
class BlockEvents final : public NameWatcher {
 public:
  // Takes the changes since the last call. False: it has no room; it forgets all that it was told,
  // and so do its readers. Must not block, nor throw.
  using PublishFn = std::function<bool(std::vector<BlockEvent> events)>;

  // `publish` is called by Settle.
  explicit BlockEvents(PublishFn publish) : publish_(std::move(publish)) {}

  // The group whose blocks are told of: one that sees the whole context, if there is one. Set
  // before the first event.
  void set_group(int32_t group) { group_ = group; }
  int32_t group() const { return group_; }

  // The block is computed, or was read. `parent`: the block before it; null: the root. Both are
  // names without a group. No effect if it was announced; without memory it is not announced.
  void Stored(const core::BlockName& name, const core::BlockName* parent,
              std::span<const TokenId> ids) noexcept;

  // The pool does not have the name any more. The tier may.
  void OnNameForgotten(const core::BlockName& name) noexcept override;

  // To be called after each step: tells what has changed. Blocks that only the tier has are looked
  // for once it has dropped any, a few with each call.
  void Settle(const BlockPool& pool, const KvTier* tier) noexcept;

  // All blocks are as good as gone, and readers are told so.
  void Clear() noexcept;

  // Whether more calls of Settle are needed to look for all that was dropped.
  bool scanning() const { return scanning_; }
  // Whether another call of Settle is needed, now or once there is memory.
  bool unsettled() const { return scanning_ || lost_; }
  size_t announced() const { return announced_.size(); }

 private:
  using Names = std::unordered_set<core::BlockName, core::BlockNameHash>;

  bool IsThere(const core::BlockName& name, const BlockPool& pool, const KvTier* tier) const;
  void Forget() noexcept;
  void RemoveIfGone(const core::BlockName& name, const BlockPool& pool, const KvTier* tier);
  void ScanForDropped(const BlockPool& pool, const KvTier* tier);

  const PublishFn publish_;
  int32_t group_ = 0;
  Names announced_;                        // Without a group.
  std::vector<core::BlockName> suspects_;  // Forgotten since the last Settle.
  std::vector<BlockEvent> events_;         // Since the last Settle.
  uint64_t tier_dropped_ = 0;              // As of the last call.
  bool tier_on_ = true;
  bool scanning_ = false;
  bool again_ = false;  // The tier has dropped more since the scan began.
  bool lost_ = false;   // Memory was short for the removal of a block.
  size_t bucket_ = 0;   // Of announced_: where the scan goes on.
  size_t buckets_ = 0;  // How many there were when it began.
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_BLOCK_EVENTS_H_
