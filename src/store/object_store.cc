#include "store/object_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "store/session_store.h"

namespace ropeway::store {
namespace {

std::shared_ptr<const std::string> Shared(std::string record) {
  return std::make_shared<const std::string>(std::move(record));
}

}  // namespace

ObjectStore::ObjectStore(const SessionOptions& options, StateWriter* writer,
                         std::function<int64_t()> unix_ms)
    : writer_(writer),
      db_(writer->db()),
      ttl_ms_(TtlMs(options)),
      unix_ms_(unix_ms ? std::move(unix_ms) : SystemUnixMs),
      index_(options.max_stored, ValueBytes(options)) {}

std::string ObjectStore::ReasonOf(const Status& failure) {
  if (failure.code() == StatusCode::kDataLoss) return kFilesDamaged;
  std::string text = failure.message();
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr const char* kFull = "no space left on device";
  return text.find(kFull) != std::string::npos ? kFull : "the disk cannot be used";
}

Status ObjectStore::Missing(const ObjectName& name) const {
  if (loaded_ && !incomplete_) return NoObject(name);
  return {StatusCode::kUnavailable,
          fmt::format("the {} '{}' cannot be read now: {}", KindName(name.kind), name.id,
                      incomplete_ ? kFilesDamaged : ReasonOf(writer_->failure()))};
}

Status ObjectStore::Unavailable() const {
  const Status failure = damaged_ ? Status(StatusCode::kDataLoss, "") : writer_->failure();
  if (failure.ok()) return {};
  return {StatusCode::kUnavailable,
          fmt::format("nothing new can be stored now: {}", ReasonOf(failure))};
}

void ObjectStore::SetShared(bool shared) {
  const std::lock_guard lock(mu_);
  index_.SetShared(shared);
}

Status ObjectStore::CheckRoom(const std::string& tenant, uint64_t bytes) const {
  const std::lock_guard lock(mu_);
  if (Status status = Unavailable(); !status.ok()) return status;
  return index_.CheckRoom(tenant, bytes, unix_ms_());
}

Status ObjectStore::Write(std::vector<ObjectChange> changes, DoneFn done) {
  std::list<Group> group(1);
  group.front().changes = changes.size();
  group.front().done = std::move(done);
  std::vector<Staged> all(changes.size());
  for (size_t i = 0; i < all.size(); ++i) {
    Staged& staged = all[i];
    staged.change = std::move(changes[i]);
    const std::string key = ObjectKey(staged.change.name);
    staged.records.state = Shared(PackObjectPart(kObjectState, key, staged.change.state));
    staged.head.state = PartOf(*staged.records.state);
    if (!staged.change.fixed) continue;
    staged.records.fixed = Shared(PackObjectPart(kObjectFixed, key, *staged.change.fixed));
    staged.head.fixed = PartOf(*staged.records.fixed);
  }
  const int64_t now = unix_ms_();
  {
    const std::lock_guard lock(mu_);
    index_.DeleteExpired(now);
    for (size_t i = 0; i < all.size(); ++i) {
      if (Status status = Stage(&all, i, now); !status.ok()) return status;
      group.front().fresh |= all[i].entry->fresh;
    }
    size_t inserted = 0;
    try {
      for (; inserted < all.size(); ++inserted) {
        if (all[inserted].change.fixed) index_.Insert(all[inserted].entry);
      }
    } catch (...) {
      while (inserted-- > 0) {
        if (all[inserted].change.fixed) index_.Remove(all[inserted].entry);
      }
      throw;
    }
    for (Staged& staged : all) {
      index_.Change(staged.entry, std::move(staged.head), std::move(staged.records));
    }
    groups_.splice(groups_.end(), group);
  }
  writer_->Wake();
  return {};
}

Status ObjectStore::Stage(std::vector<Staged>* all, size_t i, int64_t now) {
  Staged& staged = (*all)[i];
  const ObjectName& name = staged.change.name;
  for (size_t k = 0; k < i; ++k) {
    if ((*all)[k].change.name == name) {
      return InvalidArgument(
          fmt::format("the {} '{}' is changed twice", KindName(name.kind), name.id));
    }
  }
  if (staged.change.fixed) {
    if (Status status = StageNew(all, i, now); !status.ok()) return status;
  } else {
    staged.entry = index_.Find(ObjectKey(name));
    if (staged.entry == nullptr || staged.entry->head.hidden) return Missing(name);
    if (!staged.entry->lost.ok()) return ObjectLost(*staged.entry);
    const ObjectPart state = staged.head.state;
    staged.head = staged.entry->head;
    staged.head.state = state;
  }
  staged.head.open = staged.change.open;
  staged.head.expires_ms = now + ttl_ms_;
  ObjectEntry* const entry = staged.entry.get();
  staged.records.head = Shared(PackObjectHead(entry->key, staged.head));
  if (!staged.change.fixed) return {};
  entry->head = staged.head;
  entry->head_bytes = staged.records.head->size();
  return index_.TakeRoom(entry, now);
}

Status ObjectStore::StageNew(std::vector<Staged>* all, size_t i, int64_t now) {
  Staged& staged = (*all)[i];
  if (Status status = Unavailable(); !status.ok()) return status;
  auto entry = std::make_shared<ObjectEntry>();
  entry->name = staged.change.name;
  entry->key = ObjectKey(entry->name);
  entry->fresh = true;
  if (index_.Find(entry->key) != nullptr) {
    return InvalidArgument(
        fmt::format("there already is a {} '{}'", KindName(entry->name.kind), entry->name.id));
  }
  if (!staged.change.parent.empty()) {
    const StatusOr<EntryPtr> parent = FindParent(*all, i);
    if (!parent.ok()) return parent.status();
    entry->parent = parent->get();
  }
  staged.entry = std::move(entry);
  staged.head.order = index_.NextOrder() + i;
  staged.head.created_ms = now;
  staged.head.parent = staged.change.parent;
  return {};
}

StatusOr<ObjectIndex::EntryPtr> ObjectStore::FindParent(const std::vector<Staged>& all,
                                                        size_t i) const {
  const ObjectChange& change = all[i].change;
  const ObjectName name{ObjectKind::kResponse, change.name.tenant, change.parent};
  for (size_t k = 0; k < i; ++k) {
    if (all[k].change.fixed && all[k].change.name == name) return all[k].entry;
  }
  EntryPtr parent = index_.Find(ObjectKey(name));
  if (parent == nullptr || parent->head.hidden) return NoObject(name);
  if (!parent->lost.ok()) return ObjectLost(*parent);
  return parent;
}

Status ObjectStore::Delete(const ObjectName& name, DoneFn done) {
  const std::string key = ObjectKey(name);
  std::list<Group> group(1);
  group.front().changes = 1;
  group.front().done = std::move(done);
  {
    const std::lock_guard lock(mu_);
    index_.DeleteExpired(unix_ms_());
    const EntryPtr entry = index_.Find(key);
    if (entry == nullptr || entry->head.hidden) return Missing(name);
    index_.Delete(entry);
    groups_.splice(groups_.end(), group);
  }
  writer_->Wake();
  return {};
}

std::vector<ObjectInfo> ObjectStore::ListIf(const std::string* tenant, bool open_only) const {
  const int64_t now = unix_ms_();
  std::vector<ObjectInfo> all;
  const std::lock_guard lock(mu_);
  if (tenant == nullptr && !open_only) all.reserve(index_.size());
  for (const auto& [order, entry] : index_.by_order()) {
    if (tenant != nullptr && entry->name.tenant != *tenant) continue;
    if (entry->head.hidden || entry->IsExpired(now)) continue;
    if (open_only && !entry->head.open) continue;
    all.push_back({.name = entry->name,
                   .created_ms = entry->head.created_ms,
                   .expires_ms = entry->head.expires_ms,
                   .bytes = entry->size(),
                   .open = entry->head.open,
                   .lost = !entry->lost.ok()});
  }
  return all;
}

std::vector<ObjectInfo> ObjectStore::List(const std::string* tenant) const {
  return ListIf(tenant, false);
}

std::vector<ObjectInfo> ObjectStore::Opened() const { return ListIf(nullptr, true); }

bool ObjectStore::loaded() const {
  const std::lock_guard lock(mu_);
  return loaded_;
}

ObjectStoreStats ObjectStore::stats() const {
  const std::lock_guard lock(mu_);
  return {.objects = index_.size(),
          .bytes = index_.bytes(),
          .expired = index_.num_expired(),
          .lost = lost_,
          .failed_writes = failed_writes_};
}

bool ObjectStore::Collect(std::vector<StateChange>* changes) {
  {
    const std::lock_guard lock(mu_);
    try {
      index_.DeleteExpired(unix_ms_());
    } catch (const std::bad_alloc&) {  // Tried again in the next round.
    }
    if (!index_.dirty() && groups_.empty()) return false;
    settling_.swap(groups_);
    index_.TakeDirty(&writing_);
    written_.reserve(writing_.size());
    for (const EntryPtr& entry : writing_) {
      written_.push_back({entry, entry->version, entry->closed, entry->unwritten});
    }
  }
  // Records are immutable: they are copied without the lock. Removals first: another object may
  // have the same name since.
  for (const Written& each : written_) {
    if (!each.closed) continue;
    for (const std::string_view prefix : {kObjectHead, kObjectFixed, kObjectState}) {
      changes->push_back({ObjectDbKey(prefix, each.entry->key), std::nullopt});
    }
  }
  for (const Written& each : written_) {
    for (const auto& [prefix, record] : {std::pair(kObjectHead, each.records.head),
                                         {kObjectFixed, each.records.fixed},
                                         {kObjectState, each.records.state}}) {
      if (record != nullptr) changes->push_back({ObjectDbKey(prefix, each.entry->key), *record});
    }
  }
  return true;
}

void ObjectStore::Settle(const Status& status) {
  std::list<Group> ended;
  ended.swap(settling_);
  {
    const std::lock_guard lock(mu_);
    index_.ReturnDirty(&writing_, status.ok());
    if (status.ok()) {
      for (const Written& each : written_) {
        each.entry->fresh = false;
        if (each.records.fixed != nullptr) each.entry->unwritten.fixed = nullptr;
        if (each.entry->version == each.version) each.entry->unwritten = {};
      }
    } else {
      // Also those that came during the write: while none can be written, none is accepted.
      index_.RemoveFresh();
      for (auto it = groups_.begin(); it != groups_.end();) {
        const auto group = it++;
        if (group->fresh) ended.splice(ended.end(), groups_, group);
      }
      for (const Group& group : ended) failed_writes_ += group.changes;
    }
  }
  written_.clear();
  Status told;
  if (!status.ok()) {
    const StatusCode code =
        status.code() == StatusCode::kDataLoss ? StatusCode::kUnavailable : status.code();
    told = Status(code, "it cannot be stored now: " + ReasonOf(status));
  }
  for (const Group& group : ended) {
    if (group.done) group.done(told);
  }
}

ObjectStore::~ObjectStore() { writer_->Remove(this); }

StatusOr<std::unique_ptr<ObjectStore>> ObjectStore::Open(const SessionOptions& options,
                                                         StateWriter* writer,
                                                         std::function<int64_t()> unix_ms) {
  std::unique_ptr<ObjectStore> store(new ObjectStore(options, writer, std::move(unix_ms)));
  writer->Add(store.get());
  return store;
}

}  // namespace ropeway::store
