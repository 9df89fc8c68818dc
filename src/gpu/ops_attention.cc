// The KV cache and attention: device/attention.cl.
#include <algorithm>

#include "gpu/constants.h"
#include "gpu/ops.h"

namespace ropeway::gpu {
namespace {

constexpr int kManyGroups = 128;  // Enough for a device to have something to do.
constexpr uint64_t kPoolLineBytes = 64;

int32_t HeadBytes(const KvView& kv) {
  return static_cast<int32_t>(kernels::KvHeadBlockBytes(kv.type, kv.head_dim));
}

int32_t BlockLines(const KvView& kv) {
  return static_cast<int32_t>(kv.block_bytes / kPoolLineBytes);
}

int32_t IsQ8(const KvView& kv) { return kv.type == kernels::KvType::kQ8_0 ? 1 : 0; }

}  // namespace

void Ops::StoreKv(const KvView& kv, Rows k, Rows v, View slots, int rows) {
  gpu_->Launch(
      Get("store_kv"), {rows, kv.kv_heads}, kKvLanes,
      {k.at, k.stride, v.at, v.stride, slots, kv.head_dim, IsQ8(kv), kv.pool, HeadBytes(kv),
       BlockLines(kv), kv.tables, kv.row_tables, kv.table_step, kv.table_first});
}

void Ops::Attend(const KvView& kv, const AttentionCall& call) {
  // A group reads K and V once for all of its heads; but where there are few groups, each has one.
  const int heads_of_kv = call.heads / kv.kv_heads;
  const bool many = int64_t{call.rows} * kv.kv_heads >= kManyGroups;
  const int tile = many ? std::min(heads_of_kv, kQueries) : 1;
  const int tiles = (heads_of_kv + tile - 1) / tile;
  gpu_->Launch(Get("attend"), {call.rows, kv.kv_heads * tiles}, kKvLanes,
               {call.q.at,     call.q.stride,      call.out.at,    call.out.stride, call.rows,
                tile,          heads_of_kv,        call.scale,     call.soft_cap,   call.window,
                call.ends,     call.sinks ? 1 : 0, call.sinks,     kv.head_dim,     IsQ8(kv),
                kv.pool,       HeadBytes(kv),      BlockLines(kv), kv.tables,       kv.row_tables,
                kv.table_step, kv.table_first});
}

}  // namespace ropeway::gpu
