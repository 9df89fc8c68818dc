#include "engine/engine_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/failure.h"
#include "engine/scheduling_options.h"
#include "store/rocks_state_db.h"
#include "store/state_db.h"

namespace ropeway {
namespace {

// Below, the database's own files would not fit.
constexpr int64_t kLeastSessionStoreBytes = 1 << 20;

// What is asked, or 0, lowered to what the model and the pool, of which `blocks` are for sequences,
// hold.
int32_t ResolveMaxModelLen(int64_t asked, int64_t model, int32_t blocks) {
  const int64_t wanted = asked == 0 ? model : std::min(asked, model);
  const int64_t pool = int64_t{blocks} * kBlockTokens;
  const int64_t resolved = std::min(wanted, pool);
  if (resolved < wanted) {
    Log().info("max_model_len is lowered from {} to {}: what the KV cache of {} blocks holds",
               wanted, resolved, blocks);
  } else if (resolved < asked) {
    Log().info("max_model_len is lowered from {} to {}: the model's context length", asked,
               resolved);
  }
  return static_cast<int32_t>(resolved);
}

}  // namespace

Status CheckPreemptCheckpoint(const EngineOptions& options) {
  const std::string& when = options.preempt_checkpoint;
  if (when == "pressure" || when == "always") return {};
  return InvalidArgument(
      fmt::format("preempt_checkpoint must be pressure or always, not '{}'", when),
      "preempt_checkpoint");
}

Status CheckEngineOptions(const EngineOptions& options) {
  const auto at_least = [](int64_t value, int64_t least, const char* name) {
    if (value >= least) return Status();
    return InvalidArgument(fmt::format("{} must be at least {}, not {}", name, least, value), name);
  };
  for (Status status :
       {at_least(options.max_num_seqs, 1, "max_num_seqs"),
        at_least(options.max_num_batched_tokens, 1, "max_num_batched_tokens"),
        at_least(options.max_queued_requests, 1, "max_queued_requests"),
        at_least(options.frontend_threads, 1, "frontend_threads"),
        at_least(options.kv_cache_bytes, 1, "kv_cache_bytes"),
        at_least(options.max_model_len, 0, "max_model_len"),
        at_least(options.request_timeout.count(), 0, "request_timeout"),
        at_least(options.session_ttl.count(), 1, "session_ttl"),
        at_least(options.max_sessions, 1, "max_sessions"),
        at_least(options.session_store_bytes, kLeastSessionStoreBytes, "session_store_bytes")}) {
    if (!status.ok()) return status;
  }
  if (Status status = CheckPreemptCheckpoint(options); !status.ok()) return status;
  return CheckScheduling(options);
}

EngineCoreOptions CoreOptionsOf(const EngineOptions& options, int32_t model_context_length,
                                const KvLayout& layout) {
  EngineCoreOptions core;
  core.max_num_seqs = options.max_num_seqs;
  core.max_num_batched_tokens = options.max_num_batched_tokens;
  SetScheduling(options, &core);
  core.max_model_len =
      ResolveMaxModelLen(options.max_model_len, model_context_length, UsableBlocks(core, layout));
  core.prefix_caching = options.prefix_caching;
  core.checkpoint_always = options.preempt_checkpoint == "always";
  core.note_steps = !options.trace_file.empty();
  return core;
}

StatusOr<std::unique_ptr<SessionStore>> OpenSessions(const EngineOptions& options,
                                                     std::unique_ptr<StateDb> state) {
  SessionStoreOptions store;
  // Beyond a century every session is kept for ever.
  store.ttl = std::min<std::chrono::seconds>(options.session_ttl, std::chrono::hours(24 * 36500));
  store.max_sessions = static_cast<size_t>(options.max_sessions);
  const auto bytes = static_cast<uint64_t>(options.session_store_bytes);
  store.max_bytes = bytes;
  if (state == nullptr && options.state_path.empty()) state = std::make_unique<MemoryStateDb>();
  if (state == nullptr) {
    StatusOr<std::unique_ptr<RocksStateDb>> db =
        RocksStateDb::Open(options.state_path + "/sessions", bytes);
    if (!db.ok()) return db.status();
    state = *std::move(db);
    store.max_bytes = static_cast<uint64_t>(RocksStateDb::kValueShare * static_cast<double>(bytes));
  }
  return SessionStore::Open(std::move(store), std::move(state));
}

}  // namespace ropeway
