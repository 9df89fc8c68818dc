#include "store/object_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace ropeway::store {
namespace {

// Room may come sooner than the next expiry, by a deletion.
constexpr int64_t kLongestRetryMs = 3'600'000;

}  // namespace

ObjectIndex::EntryPtr ObjectIndex::Find(const std::string& key) const {
  const auto it = by_key_.find(key);
  return it == by_key_.end() ? nullptr : it->second;
}

void ObjectIndex::SetShared(bool shared) {
  places_.set_shared(shared);
  bytes_.set_shared(shared);
}

Status ObjectIndex::NoRoom(const std::string& tenant, uint64_t bytes, bool place,
                           int64_t now) const {
  const base::SharedBudget& budget = place ? places_ : bytes_;
  std::string message = place ? "too many responses and conversations are stored"
                              : fmt::format(
                                    "the responses and conversations that are stored are too large "
                                    "for {} bytes more",
                                    bytes);
  const char* const unit = place ? "" : " bytes";
  if (budget.shared()) {
    message += fmt::format(": this tenant has {}{}, and all tenants share {}", budget.held(tenant),
                           unit, budget.total());
  } else {
    message += fmt::format(": {} of {}{}", budget.used(), budget.total(), unit);
  }
  message +=
      fmt::format("; delete some, or raise {}", place ? "--max-sessions" : "--session-store-size");
  Status status(StatusCode::kResourceExhausted, std::move(message));
  const int64_t expiry = by_expiry_.empty() ? INT64_MAX : by_expiry_.begin()->first.first;
  const int64_t wait_ms = std::clamp<int64_t>(expiry - now, 1, kLongestRetryMs);
  status.set_retry_after_seconds(static_cast<int>((wait_ms + 999) / 1000));
  return status;
}

Status ObjectIndex::CheckRoom(const std::string& tenant, uint64_t bytes, int64_t now) const {
  base::SharedBudget::Hold place;
  base::SharedBudget::Hold room;
  const auto wanted = static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
  if (!places_.Take(tenant, 1, &place)) return NoRoom(tenant, bytes, true, now);
  if (!bytes_.Take(tenant, wanted, &room)) return NoRoom(tenant, bytes, false, now);
  return {};
}

Status ObjectIndex::TakeRoom(ObjectEntry* entry, int64_t now) {
  const std::string& tenant = entry->name.tenant;
  if (!places_.Take(tenant, 1, &entry->place)) return NoRoom(tenant, entry->size(), true, now);
  if (!bytes_.Take(tenant, static_cast<int64_t>(entry->size()), &entry->bytes)) {
    entry->place.Release();
    return NoRoom(tenant, entry->size(), false, now);
  }
  return {};
}

void ObjectIndex::Insert(const EntryPtr& entry) {
  if (!entry->place.taken()) places_.TakeAnyway(entry->name.tenant, 1, &entry->place);
  if (!entry->bytes.taken()) {
    bytes_.TakeAnyway(entry->name.tenant, static_cast<int64_t>(entry->size()), &entry->bytes);
  }
  const auto place = by_expiry_.emplace(std::pair(entry->expiry(), entry->head.order), entry).first;
  auto by_order = by_order_.end();
  try {
    by_order = by_order_.emplace(entry->head.order, entry).first;
    by_key_.emplace(entry->key, entry);
  } catch (...) {
    if (by_order != by_order_.end()) by_order_.erase(by_order);
    by_expiry_.erase(place);
    throw;
  }
  entry->place_in_expiries_ = place;
  if (entry->parent != nullptr) ++entry->parent->successors;
}

void ObjectIndex::MoveInExpiries(ObjectEntry* entry) noexcept {
  // The same node: moving it needs no memory.
  ObjectExpiries::node_type node = by_expiry_.extract(entry->place_in_expiries_);
  node.key().first = entry->expiry();
  entry->place_in_expiries_ = by_expiry_.insert(std::move(node)).position;
}

void ObjectIndex::Change(const EntryPtr& entry, ObjectHead head, ObjectRecords records) noexcept {
  entry->head = std::move(head);
  entry->head_bytes = records.head->size();
  ++entry->version;
  entry->unwritten.head = std::move(records.head);
  if (records.fixed != nullptr) entry->unwritten.fixed = std::move(records.fixed);
  if (records.state != nullptr) entry->unwritten.state = std::move(records.state);
  entry->bytes.Resize(static_cast<int64_t>(entry->size()));
  MoveInExpiries(entry.get());
  MarkDirty(entry);
}

void ObjectIndex::Delete(const EntryPtr& entry) {
  if (entry->successors == 0) return Remove(entry);
  ObjectHead head = entry->head;
  head.hidden = true;
  ObjectRecords records;
  records.head = std::make_shared<const std::string>(PackObjectHead(entry->key, head));
  Change(entry, std::move(head), std::move(records));
}

void ObjectIndex::Remove(EntryPtr entry) noexcept {
  while (true) {
    entry->closed = true;
    ++entry->version;
    entry->unwritten = {};
    entry->place.Release();
    entry->bytes.Release();
    by_key_.erase(entry->key);
    by_order_.erase(entry->head.order);
    by_expiry_.erase(entry->place_in_expiries_);
    MarkDirty(entry);
    ObjectEntry* const parent = std::exchange(entry->parent, nullptr);
    if (parent == nullptr || --parent->successors > 0 || !parent->head.hidden) return;
    entry = by_order_.find(parent->head.order)->second;
  }
}

void ObjectIndex::Lose(ObjectEntry* entry, Status why, int64_t expires_ms) noexcept {
  entry->lost = std::move(why);
  if (!entry->head.open) return;
  entry->head.open = false;
  entry->head.expires_ms = expires_ms;
  MoveInExpiries(entry);
}

void ObjectIndex::DeleteExpired(int64_t now) {
  std::vector<EntryPtr> expired;
  for (const auto& [when, entry] : by_expiry_) {
    if (when.first > now) break;
    ++num_looked_at_;
    expired.push_back(entry);
  }
  // Successors first: then ancestors that expire with them need not be hidden.
  std::ranges::sort(expired, std::greater<>(),
                    [](const EntryPtr& entry) { return entry->head.order; });
  for (const EntryPtr& entry : expired) {
    Delete(entry);
    ++num_expired_;
  }
}

void ObjectIndex::RemoveOrphans() {
  std::vector<EntryPtr> orphans;
  for (const auto& [order, entry] : by_order_) {
    if (entry->head.hidden && entry->successors == 0) orphans.push_back(entry);
  }
  for (const EntryPtr& entry : orphans) Remove(entry);
}

void ObjectIndex::MarkDirty(const EntryPtr& entry) noexcept {
  if (entry->dirty_) return;
  entry->dirty_ = true;
  if (entry->writing_) return;  // ReturnDirty adds it.
  entry->node_.front() = entry;
  dirty_.splice(dirty_.end(), entry->node_);
}

void ObjectIndex::TakeDirty(std::list<EntryPtr>* writing) noexcept {
  writing->swap(dirty_);
  for (const EntryPtr& entry : *writing) {
    entry->dirty_ = false;
    entry->writing_ = true;
  }
}

void ObjectIndex::ReturnDirty(std::list<EntryPtr>* writing, bool written) noexcept {
  while (!writing->empty()) {
    const EntryPtr entry = writing->front();
    entry->writing_ = false;
    entry->dirty_ |= !written;
    if (entry->dirty_) {
      dirty_.splice(dirty_.end(), *writing, writing->begin());
    } else {
      writing->front() = nullptr;
      entry->node_.splice(entry->node_.end(), *writing, writing->begin());
    }
  }
}

void ObjectIndex::RemoveFresh() noexcept {
  // Successors first. Their parents, which Remove may add, are closed then.
  dirty_.sort([](const EntryPtr& a, const EntryPtr& b) { return a->head.order > b->head.order; });
  for (const EntryPtr& entry : dirty_) {
    if (entry->fresh && !entry->closed) Remove(entry);
  }
}

}  // namespace ropeway::store
