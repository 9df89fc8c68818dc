#include "store/session_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ropeway::store {
namespace {

// The clock's resolution is finer than milliseconds, so its range is smaller: times beyond it (of
// another build's record, or a time to live of centuries) are clamped.
SessionInfo::Time TimeOf(int64_t unix_ms) {
  using std::chrono::milliseconds;
  constexpr milliseconds kEnd =
      std::chrono::floor<milliseconds>(SessionInfo::Time::duration::max());
  return SessionInfo::Time(std::clamp(milliseconds(unix_ms), -kEnd, kEnd));
}

SessionInfo InfoOf(const SessionEntry& entry, bool durable) {
  SessionInfo info;
  info.id = entry.id;
  info.turns = entry.head.turns;
  info.tokens = entry.head.tokens;
  info.created = TimeOf(entry.head.created_ms);
  info.last_used = TimeOf(entry.head.last_used_ms);
  info.expires = TimeOf(entry.head.expires_ms);
  info.turn_under_way = entry.turn != 0;
  info.durable = durable && entry.unwritten == nullptr;
  info.lost = !entry.lost.ok();
  return info;
}

}  // namespace

SessionIndex::EntryPtr SessionIndex::Find(const std::string& key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : it->second;
}

void SessionIndex::Insert(const EntryPtr& entry) {
  index_.emplace(entry->key, entry);
  bytes_ += entry->bytes();
  if (entry->turn == 0) NoteExpiry(*entry);
}

void SessionIndex::Forget(SessionEntry* entry) noexcept {
  SetUnwritten(entry, nullptr);
  bytes_ -= entry->bytes();
  entry->closed = true;
  index_.erase(entry->key);
}

Status SessionIndex::CheckBounds(bool is_new) const {
  if (is_new && index_.size() >= max_sessions_) {
    return {StatusCode::kResourceExhausted,
            fmt::format("there are already {} sessions, which is the limit (max_sessions)",
                        index_.size()),
            "session_id"};
  }
  if (bytes_ >= max_bytes_) {
    return {
        StatusCode::kResourceExhausted,
        fmt::format("the sessions already take {} bytes, and the limit is {} (session_store_bytes)",
                    bytes_, max_bytes_),
        "session_id"};
  }
  return {};
}

void SessionIndex::SetHead(SessionEntry* entry, const SessionHead& head,
                           uint64_t head_bytes) noexcept {
  bytes_ -= entry->bytes();
  entry->head = head;
  entry->head_bytes = head_bytes;
  bytes_ += entry->bytes();
  NoteExpiry(*entry);
}

void SessionIndex::NoteExpiry(const SessionEntry& entry) noexcept {
  next_expiry_ = std::min(next_expiry_, entry.head.expires_ms);
}

void SessionIndex::SetUnwritten(SessionEntry* entry,
                                std::shared_ptr<const SessionRecords> records) noexcept {
  if (entry->unwritten != nullptr) --num_unwritten_;
  entry->unwritten = std::move(records);
  if (entry->unwritten != nullptr) ++num_unwritten_;
}

void SessionIndex::RemoveExpired(int64_t now, std::unordered_set<std::string>* removed) {
  int64_t next = INT64_MAX;
  for (auto it = index_.begin(); it != index_.end();) {
    const EntryPtr entry = (it++)->second;
    if (entry->turn != 0) continue;
    if (entry->head.expires_ms > now) {
      next = std::min(next, entry->head.expires_ms);
      continue;
    }
    removed->insert(entry->key);
    Forget(entry.get());
    ++num_expired_;
  }
  next_expiry_ = next;
}

std::vector<SessionInfo> SessionIndex::List(const std::string& tenant, int64_t now,
                                            bool durable) const {
  std::vector<SessionInfo> all;
  for (const auto& [key, entry] : index_) {
    if (entry->tenant != tenant || !entry->is_kept()) continue;
    if (entry->turn == 0 && entry->head.expires_ms <= now) continue;
    all.push_back(InfoOf(*entry, durable));
  }
  return all;
}

std::vector<SessionIndex::EntryPtr> SessionIndex::Unwritten() const {
  std::vector<EntryPtr> found;
  if (num_unwritten_ == 0) return found;
  for (const auto& [key, entry] : index_) {
    if (entry->unwritten != nullptr) found.push_back(entry);
  }
  return found;
}

}  // namespace ropeway::store
