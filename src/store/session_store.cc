#include "store/session_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/log.h"
#include "store/state_db.h"

namespace ropeway::store {
namespace {

constexpr char kHeadPrefix[] = "h";
constexpr char kStatePrefix[] = "s";

Status Lost(const std::string& id, const Status& why) {
  return {StatusCode::kDataLoss,
          fmt::format("the session '{}' is lost ({}); it can only be closed", id, why.message()),
          "session_id"};
}

Status Unavailable(const Status& failure) {
  return {StatusCode::kUnavailable,
          fmt::format("sessions cannot be stored now: {}", failure.message()), "session_id"};
}

void AddRemoval(const std::string& key, std::vector<StateChange>* changes) {
  changes->push_back({kHeadPrefix + key, std::nullopt});
  changes->push_back({kStatePrefix + key, std::nullopt});
}

void AddRecords(const std::string& key, const SessionRecords& records,
                std::vector<StateChange>* changes) {
  changes->push_back({kHeadPrefix + key, records.head});
  changes->push_back({kStatePrefix + key, records.state});
}

}  // namespace

SessionStore::SessionStore(SessionStoreOptions options, std::shared_ptr<StateWriter> writer)
    : options_(std::move(options)),
      writer_(std::move(writer)),
      db_(writer_->db()),
      index_(static_cast<size_t>(options_.sessions.max_sessions),
             static_cast<uint64_t>(options_.sessions.store_bytes)) {}

SessionStore::~SessionStore() { writer_->Remove(this); }

int64_t SessionStore::Now() const { return options_.unix_ms ? options_.unix_ms() : SystemUnixMs(); }

Status SessionStore::Load(const StateDb& db) {
  size_t visited = 0;
  const std::lock_guard lock(mu_);
  const Status status = db.Visit(kHeadPrefix, [&](std::string_view key, std::string_view value) {
    ++visited;
    ReadHead(key.substr(sizeof(kHeadPrefix) - 1), value);
  });
  if (status.code() == StatusCode::kUnavailable && visited == 0) return status;
  if (status.ok()) return {};
  incomplete_ = true;
  base::Log().error("some sessions cannot be read: {}", status.message());
  return {};
}

void SessionStore::ReadHead(std::string_view key, std::string_view record) {
  auto entry = std::make_shared<Entry>();
  entry->key = key;
  if (!ParseSessionKey(key, &entry->tenant, &entry->id)) return;
  if (index_.Find(entry->key) != nullptr) return;  // By an attempt that ran out of memory.
  StatusOr<SessionHead> head = UnpackHead(entry->key, record);
  if (head.ok()) {
    entry->head = *head;
  } else {
    ++counts_.lost;
    entry->lost = head.status();
    entry->head.expires_ms = Now() + TtlMs(options_.sessions);
    base::Log().error("session '{}' is lost: {}", entry->id, entry->lost.message());
  }
  entry->head_bytes = record.size();
  index_.Insert(entry);
}

StatusOr<SessionTurn> SessionStore::Begin(const std::string& tenant, const std::string& id) {
  const std::string key = SessionKey(tenant, id);
  const int64_t now = Now();
  const std::lock_guard lock(mu_);
  if (const Status failure = writer_->failure(); !failure.ok()) return Unavailable(failure);
  RemoveExpired(now);
  std::shared_ptr<Entry> entry = index_.Find(key);
  if (incomplete_ && entry == nullptr && !removed_.contains(key) && !removing_.contains(key)) {
    // It may be one that Load could not read.
    const StatusOr<std::string> record = db_.Read(kHeadPrefix + key);
    if (record.ok()) ReadHead(key, *record);
    RemoveExpired(now);
    entry = index_.Find(key);
    if (!record.ok() && record.status().code() != StatusCode::kNotFound) {
      return Status(
          StatusCode::kDataLoss,
          fmt::format("the session '{}' cannot be read: {}", id, record.status().message()),
          "session_id");
    }
  }
  if (entry == nullptr) {
    if (Status status = index_.CheckBounds(true); !status.ok()) return status;
    entry = std::make_shared<Entry>();
    entry->tenant = tenant;
    entry->id = id;
    entry->key = key;
    entry->turn = ++turns_;
    entry->head.created_ms = now;
    index_.Insert(entry);
    return SessionTurn(this, std::move(entry));
  }
  if (!entry->lost.ok()) return Lost(id, entry->lost);
  if (entry->turn != 0) {
    return InvalidArgument(fmt::format("the session '{}' already has a turn in progress, and its "
                                       "turns must be sent one at a time",
                                       id),
                           "session_id");
  }
  if (Status status = index_.CheckBounds(false); !status.ok()) return status;
  entry->turn = ++turns_;
  return SessionTurn(this, std::move(entry));
}

void SessionStore::RemoveExpired(int64_t now) {
  if (now >= index_.next_expiry()) index_.RemoveExpired(now, &removed_);
}

void SessionStore::Abandon(Entry* entry, uint64_t turn) noexcept {
  const std::lock_guard lock(mu_);
  if (entry->turn != turn) return;
  entry->turn = 0;
  if (entry->closed) return;
  if (entry->head.turns > 0) {
    index_.NoteExpiry(*entry);  // RemoveExpired skipped it during the turn.
  } else if (entry->lost.ok()) {
    index_.Forget(entry);
  }
}

bool SessionStore::IsNew(const SessionTurn& turn) const {
  const std::lock_guard lock(mu_);
  return turn.entry_->head.turns == 0;
}

StatusOr<SessionState> SessionStore::Load(const SessionTurn& turn) {
  Entry* const entry = turn.entry_.get();
  std::shared_ptr<const SessionRecords> unwritten;
  SessionHead head;
  {
    const std::lock_guard lock(mu_);
    unwritten = entry->unwritten;
    head = entry->head;
  }
  StatusOr<SessionState> state = SessionState();
  if (unwritten != nullptr) {
    state = UnpackState(entry->key, head, unwritten->state);
  } else if (StatusOr<std::string> record = db_.Read(kStatePrefix + entry->key); record.ok()) {
    state = UnpackState(entry->key, head, *record);
  } else {
    state = record.status();
  }
  if (state.ok()) return state;
  const StatusCode code = state.status().code();
  if (code != StatusCode::kDataLoss && code != StatusCode::kNotFound) {
    return Status(
        code,
        fmt::format("the session '{}' cannot be read now: {}", entry->id, state.status().message()),
        "session_id");
  }
  {
    const std::lock_guard lock(mu_);
    // If it was closed or written by another turn meanwhile, head and record need not match.
    if (entry->closed || entry->turn != turn.number_) {
      return Status(StatusCode::kNotFound,
                    fmt::format("the session '{}' was closed, or its turn abandoned", entry->id),
                    "session_id");
    }
    if (entry->lost.ok()) ++counts_.lost;
    entry->lost = Status(StatusCode::kDataLoss, state.status().message());
  }
  base::Log().error("session '{}' is lost: {}", entry->id, state.status().message());
  return Lost(entry->id, state.status());
}

void SessionStore::Commit(SessionTurn* turn, const SessionState& next, DoneFn done) {
  const std::shared_ptr<Entry>& entry = turn->entry_;
  Work work;
  work.entry = entry;
  work.turn = turn->number_;
  {
    const std::lock_guard lock(mu_);
    work.head = entry->head;
  }
  auto records = std::make_shared<SessionRecords>();
  records->state = PackState(entry->key, next);
  work.head.last_used_ms = Now();
  work.head.expires_ms = work.head.last_used_ms + TtlMs(options_.sessions);
  ++work.head.turns;
  work.head.tokens = next.num_tokens();
  work.head.state_bytes = records->state.size();
  work.head.state_checksum = Checksum(records->state);
  records->head = PackHead(entry->key, work.head);
  work.records = std::move(records);
  work.done = std::move(done);
  {
    const std::lock_guard lock(mu_);
    work_.push_back(std::move(work));
    ++work_added_;
  }
  turn->entry_ = nullptr;
  writer_->Wake();
}

std::vector<SessionInfo> SessionStore::List(const std::string& tenant) const {
  const int64_t now = Now();
  std::vector<SessionInfo> all;
  {
    const std::lock_guard lock(mu_);
    all = index_.List(tenant, now, db_.durable());
  }
  std::sort(all.begin(), all.end(), [](const SessionInfo& a, const SessionInfo& b) {
    return std::tie(a.last_used, a.id) < std::tie(b.last_used, b.id);
  });
  return all;
}

Status SessionStore::Close(const std::string& tenant, const std::string& id) {
  const std::string key = SessionKey(tenant, id);
  // Shared with the callback, which may be called after the caller has returned.
  struct Ending {
    std::mutex mu;
    std::condition_variable ended;
    std::optional<Status> status;
  };
  const auto ending = std::make_shared<Ending>();
  const int64_t now = Now();
  {
    const std::lock_guard lock(mu_);
    const std::shared_ptr<Entry> entry = index_.Find(key);
    if (const Status failure = writer_->failure(); entry == nullptr && !failure.ok()) {
      return Unavailable(failure);
    }
    if (entry == nullptr || !entry->is_kept() ||
        (entry->turn == 0 && entry->head.expires_ms <= now)) {
      return {StatusCode::kNotFound, fmt::format("there is no session '{}'", id), "session_id"};
    }
    Work work;
    work.entry = entry;
    work.done = [ending](const Status& status) {
      const std::lock_guard lock(ending->mu);
      ending->status = status;
      ending->ended.notify_all();
    };
    work_.push_back(std::move(work));
    ++work_added_;
    index_.Forget(entry.get());
  }
  writer_->Wake();
  std::unique_lock lock(ending->mu);
  ending->ended.wait(lock, [&] { return ending->status.has_value(); });
  if (ending->status->ok()) return {};
  return {ending->status->code(),
          fmt::format("the session '{}' is closed, but its record cannot be removed now: {}", id,
                      ending->status->message())};
}

void SessionStore::WaitWritten() {
  std::unique_lock lock(mu_);
  const uint64_t goal = work_added_;
  work_done_.wait(lock, [&] { return work_ended_ >= goal; });
}

SessionStoreStats SessionStore::stats() const {
  const std::lock_guard lock(mu_);
  SessionStoreStats stats = counts_;
  stats.sessions = index_.size();
  stats.bytes = index_.bytes();
  stats.expired = index_.num_expired();
  stats.unwritten = index_.num_unwritten();
  return stats;
}

bool SessionStore::Collect(std::vector<StateChange>* changes) {
  std::vector<const Work*> wanted;
  {
    const std::lock_guard lock(mu_);
    try {
      RemoveExpired(Now());
    } catch (const std::bad_alloc&) {  // Tried again in the next round.
    }
    if (NothingToWrite()) return false;
    writing_.swap(work_);
    removing_.swap(removed_);
    for (const std::shared_ptr<Entry>& entry : index_.Unwritten()) {
      retried_.emplace_back(entry, entry->unwritten);
    }
    for (const Work& each : writing_) {
      if (each.records == nullptr || IsKept(each)) wanted.push_back(&each);
    }
  }
  // Records are immutable: they are copied without the lock. Removals first: a removed session may
  // have been started anew.
  for (const std::string& key : removing_) AddRemoval(key, changes);
  for (const auto& [entry, records] : retried_) AddRecords(entry->key, *records, changes);
  for (const Work* each : wanted) {
    if (each->records == nullptr) {
      AddRemoval(each->entry->key, changes);
    } else {
      AddRecords(each->entry->key, *each->records, changes);
    }
  }
  return true;
}

void SessionStore::Settle(const Status& status) {
  std::list<Work> work;
  work.swap(writing_);
  {
    const std::lock_guard lock(mu_);
    if (status.ok()) {
      for (const auto& [entry, records] : retried_) {
        if (entry->unwritten == records) index_.SetUnwritten(entry.get(), nullptr);
      }
    } else {
      removed_.merge(removing_);
    }
    removing_.clear();
    for (const Work& each : work) SettleWork(each, status);
  }
  retried_.clear();
  Tell(work, status);
}

void SessionStore::SettleWork(const Work& work, const Status& status) {
  Entry* const entry = work.entry.get();
  if (work.records == nullptr) {
    try {
      if (!status.ok()) removed_.insert(entry->key);
    } catch (const std::bad_alloc&) {  // Close has reported that it may come back.
    }
    return;
  }
  if (!IsKept(work)) return;
  entry->turn = 0;
  if (!status.ok()) ++counts_.failed_writes;
  index_.SetUnwritten(entry, status.ok() ? nullptr : work.records);
  index_.SetHead(entry, work.head, work.records->head.size());
}

void SessionStore::Tell(const std::list<Work>& work, const Status& status) {
  for (const Work& each : work) {
    if (each.done) each.done(status);
  }
  {
    const std::lock_guard lock(mu_);
    work_ended_ += work.size();
  }
  work_done_.notify_all();
}

SessionTurn& SessionTurn::operator=(SessionTurn&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  store_ = std::exchange(other.store_, nullptr);
  entry_ = std::move(other.entry_);
  number_ = std::exchange(other.number_, 0);
  return *this;
}

const std::string& SessionTurn::session_id() const { return entry_->id; }

void SessionTurn::Abandon() noexcept {
  if (entry_ != nullptr) store_->Abandon(entry_.get(), number_);
}

StatusOr<std::unique_ptr<SessionStore>> SessionStore::Open(SessionStoreOptions options,
                                                           std::shared_ptr<StateWriter> writer) {
  StateWriter* const added_to = writer.get();
  std::unique_ptr<SessionStore> store(new SessionStore(std::move(options), std::move(writer)));
  added_to->Add(store.get());
  return store;
}

Status CheckSessionOptions(const SessionOptions& options) {
  constexpr int64_t kLeastBytes = int64_t{1} << 20;  // Below, the database's files do not fit.
  const std::tuple<const char*, int64_t, int64_t> least[] = {
      {"session_ttl", options.ttl.count(), 1},
      {"max_sessions", options.max_sessions, 1},
      {"max_stored", options.max_stored, 1},
      {"session_store_bytes", options.store_bytes, kLeastBytes}};
  for (const auto& [name, value, bound] : least) {
    if (value >= bound) continue;
    return InvalidArgument(fmt::format("{} must be at least {}, not {}", name, bound, value), name);
  }
  return {};
}

StatusOr<std::shared_ptr<StateWriter>> OpenStateWriter(const SessionOptions& options) {
  std::unique_ptr<StateDb> db;
  if (options.state_path.empty()) {
    db = std::make_unique<MemoryStateDb>();
  } else {
    StatusOr<std::unique_ptr<RocksStateDb>> opened =
        RocksStateDb::Open(options.state_path + "/sessions",
                           static_cast<uint64_t>(options.store_bytes), options.fsync);
    if (!opened.ok()) return opened.status();
    db = *std::move(opened);
  }
  return std::make_shared<StateWriter>(std::move(db));
}

int64_t SystemUnixMs() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             system_clock::now().time_since_epoch())
      .count();
}

int64_t TtlMs(const SessionOptions& options) {
  const auto ttl = std::min<std::chrono::seconds>(options.ttl, std::chrono::hours(24 * 36500));
  return std::chrono::milliseconds(ttl).count();
}

int64_t ValueBytes(const SessionOptions& options) {
  if (options.state_path.empty()) return options.store_bytes;
  return static_cast<int64_t>(RocksStateDb::kValueShare * static_cast<double>(options.store_bytes));
}

StatusOr<std::unique_ptr<SessionStore>> OpenSessionStore(const SessionOptions& options,
                                                         std::shared_ptr<StateWriter> writer) {
  if (writer == nullptr) {
    StatusOr<std::shared_ptr<StateWriter>> opened = OpenStateWriter(options);
    if (!opened.ok()) return opened.status();
    writer = *std::move(opened);
  }
  SessionStoreOptions store{.sessions = options};
  store.sessions.store_bytes = ValueBytes(options);
  return SessionStore::Open(std::move(store), std::move(writer));
}

}  // namespace ropeway::store
