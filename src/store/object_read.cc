#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/object_store.h"

namespace ropeway::store {

const char* KindName(ObjectKind kind) {
  return kind == ObjectKind::kResponse ? "response" : "conversation";
}

Status NoObject(const ObjectName& name) {
  return {StatusCode::kNotFound, fmt::format("there is no {} '{}'", KindName(name.kind), name.id)};
}

Status ObjectLost(const ObjectEntry& entry) {
  return {StatusCode::kDataLoss,
          fmt::format("the {} '{}' is lost ({}); it can only be deleted", KindName(entry.name.kind),
                      entry.name.id, entry.lost.message())};
}

void ObjectStore::FoundDamage(const Status& status) {
  if (std::exchange(damaged_, true)) return;
  base::TryLog(spdlog::level::err,
               "stored responses and conversations are damaged ({}): those that can be read are "
               "served, and none is stored; stop the server, and move that directory away or "
               "restore it",
               status.message());
}

ObjectIndex::EntryPtr ObjectStore::LoadedEntry(std::string_view key,
                                               std::string_view record) const {
  auto entry = std::make_shared<ObjectEntry>();
  entry->key = key;
  if (!ParseObjectKey(key, &entry->name)) return nullptr;
  entry->head_bytes = record.size();
  StatusOr<ObjectHead> head = UnpackObjectHead(entry->key, record);
  if (head.ok()) {
    entry->head = *std::move(head);
  } else {
    entry->lost = head.status();
    entry->head.expires_ms = unix_ms_() + ttl_ms_;
    base::Log().error("the {} '{}' is lost: {}", KindName(entry->name.kind), entry->name.id,
                      entry->lost.message());
  }
  return entry;
}

Status ObjectStore::Load(const StateDb& db) {
  std::vector<EntryPtr> entries;
  size_t visited = 0;
  const Status status =
      db.Visit(std::string(kObjectHead), [&](std::string_view key, std::string_view record) {
        ++visited;
        EntryPtr entry = LoadedEntry(key.substr(kObjectHead.size()), record);
        if (entry != nullptr) entries.push_back(std::move(entry));
      });
  if (status.code() == StatusCode::kUnavailable && visited == 0) return status;
  Status damage = status;
  // A damaged head does not tell the sizes of the parts.
  for (const EntryPtr& entry : entries) {
    if (entry->lost.ok()) continue;
    for (const auto& [prefix, part] :
         {std::pair(kObjectFixed, &entry->head.fixed), {kObjectState, &entry->head.state}}) {
      const StatusOr<std::string> record = db.Read(ObjectDbKey(prefix, entry->key));
      part->bytes = record.ok() ? record->size() : 0;
      if (record.status().code() == StatusCode::kDataLoss) damage = record.status();
    }
  }
  const std::lock_guard lock(mu_);
  loaded_ = true;
  incomplete_ = !status.ok();
  if (!damage.ok()) FoundDamage(damage);
  AddLoaded(std::move(entries));
  if (!incomplete_) index_.RemoveOrphans();
  return {};
}

void ObjectStore::AddLoaded(std::vector<EntryPtr> entries) {
  // Parents first. Lost ones have no order; they become the newest.
  std::ranges::sort(entries, {}, [](const EntryPtr& entry) {
    return entry->lost.ok() ? entry->head.order : UINT64_MAX;
  });
  for (const EntryPtr& entry : entries) {
    if (index_.Find(entry->key) != nullptr) continue;  // By an attempt that ran out of memory.
    if (!entry->lost.ok()) ++lost_;
    // Where heads could not be read, new objects may have got their order.
    if (!entry->lost.ok() || index_.by_order().contains(entry->head.order)) {
      entry->head.order = index_.NextOrder();
    }
    if (!entry->head.parent.empty()) {
      const ObjectName parent{ObjectKind::kResponse, entry->name.tenant, entry->head.parent};
      entry->parent = index_.Find(ObjectKey(parent)).get();
    }
    index_.Insert(entry);
  }
}

StatusOr<ObjectStore::Seen> ObjectStore::Look(const ObjectName& name, const std::string& key,
                                              bool hidden_too) const {
  EntryPtr entry = index_.Find(key);
  if (entry == nullptr) return Missing(name);
  const bool expired = entry->IsExpired(unix_ms_());
  if (!hidden_too && (entry->head.hidden || expired)) return NoObject(name);
  if (expired && entry->successors == 0) return NoObject(name);  // Else it is not hidden yet.
  if (!entry->lost.ok()) return ObjectLost(*entry);
  return Seen{entry, entry->head, entry->version, entry->unwritten};
}

Status ObjectStore::LoadLate(const ObjectName& name, const std::string& key) {
  const StatusOr<std::string> record = db_.Read(ObjectDbKey(kObjectHead, key));
  if (record.status().code() == StatusCode::kNotFound) return NoObject(name);
  if (!record.ok()) {
    return {StatusCode::kUnavailable,
            fmt::format("the {} '{}' cannot be read now: {}", KindName(name.kind), name.id,
                        ReasonOf(record.status()))};
  }
  const std::lock_guard lock(mu_);
  AddLoaded({LoadedEntry(key, *record)});
  return {};
}

StatusOr<std::string> ObjectStore::ReadPart(
    std::string_view prefix, const Seen& seen, const ObjectPart& part,
    const std::shared_ptr<const std::string>& unwritten) const {
  const std::string& key = seen.entry->key;
  if (unwritten != nullptr) return UnpackObjectPart(prefix, key, part, *unwritten);
  const StatusOr<std::string> record = db_.Read(ObjectDbKey(prefix, key));
  if (record.status().code() == StatusCode::kNotFound) {
    return Status(StatusCode::kDataLoss, prefix == kObjectFixed
                                             ? "the record of its fixed part is gone"
                                             : "the record of its state is gone");
  }
  // A damaged file concerns more than this object.
  if (!record.ok()) return Status(StatusCode::kUnavailable, ReasonOf(record.status()));
  return UnpackObjectPart(prefix, key, part, *record);
}

StatusOr<Object> ObjectStore::Read(const ObjectName& name, bool hidden_too) {
  const std::string key = ObjectKey(name);
  while (true) {
    bool late = false;
    StatusOr<Seen> looked = Seen();
    {
      const std::lock_guard lock(mu_);
      late = incomplete_ && index_.Find(key) == nullptr;
      looked = Look(name, key, hidden_too);
    }
    if (late) {
      if (Status status = LoadLate(name, key); !status.ok()) return status;
      continue;
    }
    if (!looked.ok()) return looked.status();
    const Seen& seen = *looked;
    StatusOr<std::string> fixed =
        ReadPart(kObjectFixed, seen, seen.head.fixed, seen.unwritten.fixed);
    StatusOr<std::string> state =
        ReadPart(kObjectState, seen, seen.head.state, seen.unwritten.state);
    if (fixed.ok() && state.ok()) {
      return Object{*std::move(fixed), *std::move(state), seen.head.parent, seen.head.created_ms};
    }
    const Status& why = fixed.ok() ? state.status() : fixed.status();
    const std::lock_guard lock(mu_);
    // It was changed or removed meanwhile: the records need not match the head that was seen.
    if (seen.entry->closed || seen.entry->version != seen.version) continue;
    if (why.code() != StatusCode::kDataLoss) {
      return Status(why.code(), fmt::format("the {} '{}' cannot be read now: {}",
                                            KindName(name.kind), name.id, why.message()));
    }
    if (seen.entry->lost.ok()) {
      ++lost_;
      base::TryLog(spdlog::level::err, "the {} '{}' is lost: {}", KindName(name.kind), name.id,
                   why.message());
      index_.Lose(seen.entry.get(), Status(why.code(), why.message()), unix_ms_() + ttl_ms_);
    }
    return ObjectLost(*seen.entry);
  }
}

}  // namespace ropeway::store
