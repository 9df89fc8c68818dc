// The KV cache and attention: device/attention.cl.
#include <algorithm>

#include "gpu/constants.h"
#include "gpu/ops.h"

namespace ropeway::gpu {
namespace {

constexpr int kManyGroups = 128;  // Enough for a device to have something to do.
// More than large devices run at once: with so many, splits need no groups of their own.
constexpr int kFullGroups = 1024;
constexpr size_t kMostPartialBytes = size_t{64} << 20;
constexpr uint64_t kPoolLineBytes = 64;

int32_t HeadBytes(const KvView& kv) {
  return static_cast<int32_t>(kernels::KvHeadBlockBytes(kv.type, kv.head_dim));
}

int32_t BlockLines(const KvView& kv) {
  return static_cast<int32_t>(kv.block_bytes / kPoolLineBytes);
}

// Of each of the rows and heads, in each of the splits.
size_t PartialBytesOf(int64_t rows, int heads, int splits, int head_dim) {
  return static_cast<size_t>(rows * heads * splits * kernels::PartialFloats(head_dim)) *
         sizeof(float);
}

int32_t IsQ8(const KvView& kv) { return kv.type == kernels::KvType::kQ8_0 ? 1 : 0; }

}  // namespace

int MostSplits(std::span<const int32_t> ends, int window) {
  int most = 1;
  for (const int32_t end : ends) {
    const int32_t begin = window > 0 ? std::max(end - window, 0) : 0;
    most = std::max(most, (end - 1) / kernels::kSplitTokens - begin / kernels::kSplitTokens + 1);
  }
  return most;
}

size_t PartialBytes(int head_dim, int heads, int kv_heads, int max_rows, int max_positions) {
  const int splits = (max_positions + kernels::kSplitTokens - 1) / kernels::kSplitTokens;
  if (splits <= 1) return 0;
  const int rows = std::min(max_rows, (kFullGroups - 1) / kv_heads);
  return std::min(PartialBytesOf(rows, heads, splits, head_dim), kMostPartialBytes);
}

void Ops::StoreKv(const KvView& kv, Rows k, Rows v, View slots, int rows) {
  gpu_->Launch(
      Get("store_kv"), {rows, kv.kv_heads}, kKvLanes,
      {k.at, k.stride, v.at, v.stride, slots, kv.head_dim, IsQ8(kv), kv.pool, HeadBytes(kv),
       BlockLines(kv), kv.tables, kv.row_tables, kv.table_step, kv.table_first});
}

void Ops::Attend(const KvView& kv, const AttentionCall& call) {
  const int64_t heads_of_rows = int64_t{call.rows} * kv.kv_heads;
  const size_t room =
      call.partials ? call.partials.buffer->size() - static_cast<size_t>(call.partials.offset) : 0;
  const bool apart = call.splits > 1 && heads_of_rows < kFullGroups &&
                     PartialBytesOf(call.rows, call.heads, call.splits, kv.head_dim) <= room;
  const int32_t slots = apart ? call.splits : 1;
  // A group reads K and V once for all of its heads; but where there are few groups, each has one.
  const int heads_of_kv = call.heads / kv.kv_heads;
  const bool many = heads_of_rows * slots >= kManyGroups;
  const int tile = many ? std::min(heads_of_kv, kQueries) : 1;
  const int tiles = (heads_of_kv + tile - 1) / tile;
  const int32_t has_sinks = call.sinks ? 1 : 0;
  gpu_->Launch(Get("attend"), {call.rows * slots, kv.kv_heads * tiles}, kKvLanes,
               {call.q.at,     call.q.stride, call.out.at,    call.out.stride, call.rows,
                call.heads,    tile,          heads_of_kv,    call.scale,      call.soft_cap,
                call.window,   call.ends,     has_sinks,      call.sinks,      kv.head_dim,
                IsQ8(kv),      kv.pool,       HeadBytes(kv),  BlockLines(kv),  kv.tables,
                kv.row_tables, kv.table_step, kv.table_first, slots,           call.partials});
  if (!apart) return;
  gpu_->Launch(Get("attend_merge"), {call.rows, call.heads}, kKvLanes,
               {call.partials, slots, call.out.at, call.out.stride, call.heads, kv.head_dim,
                call.window, call.ends, has_sinks, call.sinks});
}

}  // namespace ropeway::gpu
