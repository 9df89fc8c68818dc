#include "store/session_store.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "store/record.h"
#include "store/session_index.h"

namespace ropeway {
namespace {

constexpr char kHeadPrefix[] = "h";
constexpr char kStatePrefix[] = "s";

int64_t SystemUnixMs() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             system_clock::now().time_since_epoch())
      .count();
}

Status Lost(const std::string& id, const Status& why) {
  return {StatusCode::kDataLoss,
          fmt::format("the session '{}' is lost ({}); it can only be closed", id, why.message()),
          "session_id"};
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

class SessionStore::Impl {
 public:
  using Entry = SessionEntry;
  using Records = SessionRecords;

  Impl(SessionStoreOptions options, std::unique_ptr<StateDb> db);
  ~Impl();

  void Find();
  void Start() {
    thread_ = std::thread([this] { Loop(); });
  }

  // With the turn's number.
  using Begun = std::pair<std::shared_ptr<Entry>, uint64_t>;
  StatusOr<Begun> Begin(const std::string& tenant, const std::string& id);
  void Abandon(Entry* entry, uint64_t turn) noexcept;
  bool IsNew(const Entry& entry) const;
  StatusOr<SessionState> Load(Entry* entry, uint64_t turn);
  void Commit(const std::shared_ptr<Entry>& entry, uint64_t turn, const SessionState& next,
              DoneFn done);
  std::vector<SessionInfo> List(const std::string& tenant) const;
  Status Close(const std::string& tenant, const std::string& id);
  void WaitWritten();
  SessionStoreStats stats() const;

 private:
  // One thing for the store's thread to do.
  struct Work {
    std::shared_ptr<Entry> entry;
    uint64_t turn = 0;
    std::shared_ptr<const Records> records;  // Null: the entry's session is to be removed.
    SessionHead head;
    DoneFn done;
  };

  int64_t Now() const { return options_.unix_ms ? options_.unix_ms() : SystemUnixMs(); }
  void FindOne(std::string_view key, std::string_view record);

  // These REQUIRE that mu_ is held.
  void RemoveExpired(int64_t now);
  bool NothingToWrite() const {
    return work_.empty() && removed_.empty() && index_.num_unwritten() == 0;
  }
  // Whether what a turn adds is still wanted.
  static bool IsKept(const Work& work) {
    return !work.entry->closed && work.entry->turn == work.turn;
  }

  void Loop();
  // What is to be written now, the older things first. Throws std::bad_alloc.
  std::vector<StateChange> Collect(const std::list<Work>& work);
  Status WriteAll(const std::list<Work>& work);
  // The outcome of WriteAll: for the entries, then for who waits.
  void Settle(const std::list<Work>& work, const Status& status);
  void Tell(const std::list<Work>& work, const Status& status);
  void Note(const Status& status);

  const SessionStoreOptions options_;
  const std::unique_ptr<StateDb> db_;

  mutable std::mutex mu_;  // Guards what follows, and all entries.
  std::condition_variable work_came_;
  std::condition_variable work_done_;
  SessionIndex index_;
  std::list<Work> work_;
  uint64_t turns_ = 0;       // Begun since the start.
  uint64_t work_added_ = 0;  // Since the start.
  uint64_t work_ended_ = 0;
  std::unordered_set<std::string> removed_;  // Keys of sessions whose records are to be removed.
  // Those of them in the write that is under way. The store's thread alone changes it, and so reads
  // it without mu_.
  std::unordered_set<std::string> removing_;
  SessionStoreStats counts_;
  bool incomplete_ = false;  // Some records could not be read at start.
  bool stop_ = false;

  // The store thread's.
  std::vector<std::pair<std::shared_ptr<Entry>, std::shared_ptr<const Records>>> retried_;
  bool failing_ = false;  // The last write failed, and that is logged.
  std::thread thread_;
};

SessionStore::Impl::Impl(SessionStoreOptions options, std::unique_ptr<StateDb> db)
    : options_(std::move(options)),
      db_(std::move(db)),
      index_(options_.max_sessions, options_.max_bytes) {}

SessionStore::Impl::~Impl() {
  {
    const std::lock_guard lock(mu_);
    stop_ = true;
  }
  work_came_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SessionStore::Impl::Find() {
  const Status status =
      db_->Visit(kHeadPrefix, [this](std::string_view key, std::string_view value) {
        FindOne(key.substr(sizeof(kHeadPrefix) - 1), value);
      });
  if (status.ok()) return;
  incomplete_ = true;
  Log().error("some sessions cannot be read: {}", status.message());
}

void SessionStore::Impl::FindOne(std::string_view key, std::string_view record) {
  auto entry = std::make_shared<Entry>();
  entry->key = key;
  if (!ParseSessionKey(key, &entry->tenant, &entry->id)) return;
  StatusOr<SessionHead> head = UnpackHead(entry->key, record);
  if (head.ok()) {
    entry->head = *head;
  } else {
    ++counts_.lost;
    entry->lost = head.status();
    entry->head.expires_ms = Now() + options_.ttl.count();
    Log().error("session '{}' is lost: {}", entry->id, entry->lost.message());
  }
  entry->head_bytes = record.size();
  index_.Insert(entry);
}

StatusOr<SessionStore::Impl::Begun> SessionStore::Impl::Begin(const std::string& tenant,
                                                              const std::string& id) {
  const std::string key = SessionKey(tenant, id);
  const int64_t now = Now();
  const std::lock_guard lock(mu_);
  RemoveExpired(now);
  std::shared_ptr<Entry> entry = index_.Find(key);
  if (incomplete_ && entry == nullptr && !removed_.contains(key) && !removing_.contains(key)) {
    // It may be one of those that the search at start did not reach.
    const StatusOr<std::string> record = db_->Read(kHeadPrefix + key);
    if (record.ok()) FindOne(key, *record);
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
    return Begun(entry, entry->turn);
  }
  if (!entry->lost.ok()) return Lost(id, entry->lost);
  if (entry->turn != 0) {
    return InvalidArgument(
        fmt::format("the session '{}' has a turn under way, and takes one after the other", id),
        "session_id");
  }
  if (Status status = index_.CheckBounds(false); !status.ok()) return status;
  entry->turn = ++turns_;
  return Begun(entry, entry->turn);
}

void SessionStore::Impl::RemoveExpired(int64_t now) {
  if (now >= index_.next_expiry()) index_.RemoveExpired(now, &removed_);
}

void SessionStore::Impl::Abandon(Entry* entry, uint64_t turn) noexcept {
  const std::lock_guard lock(mu_);
  if (entry->turn != turn) return;
  entry->turn = 0;
  if (entry->closed) return;
  if (entry->head.turns > 0) {
    index_.NoteExpiry(*entry);  // It was passed over while the turn lasted.
  } else if (entry->lost.ok()) {
    index_.Forget(entry);
  }
}

bool SessionStore::Impl::IsNew(const Entry& entry) const {
  const std::lock_guard lock(mu_);
  return entry.head.turns == 0;
}

StatusOr<SessionState> SessionStore::Impl::Load(Entry* entry, uint64_t turn) {
  std::shared_ptr<const Records> unwritten;
  SessionHead head;
  {
    const std::lock_guard lock(mu_);
    unwritten = entry->unwritten;
    head = entry->head;
  }
  StatusOr<SessionState> state = SessionState();
  if (unwritten != nullptr) {
    state = UnpackState(entry->key, head, unwritten->state);
  } else if (StatusOr<std::string> record = db_->Read(kStatePrefix + entry->key); record.ok()) {
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
    // Meanwhile it was closed, or another turn has written: head and record need not belong
    // together.
    if (entry->closed || entry->turn != turn) {
      return Status(StatusCode::kNotFound,
                    fmt::format("the session '{}' was closed, or its turn given up", entry->id),
                    "session_id");
    }
    if (entry->lost.ok()) ++counts_.lost;
    entry->lost = Status(StatusCode::kDataLoss, state.status().message());
  }
  Log().error("session '{}' is lost: {}", entry->id, state.status().message());
  return Lost(entry->id, state.status());
}

void SessionStore::Impl::Commit(const std::shared_ptr<Entry>& entry, uint64_t turn,
                                const SessionState& next, DoneFn done) {
  Work work;
  work.entry = entry;
  work.turn = turn;
  {
    const std::lock_guard lock(mu_);
    work.head = entry->head;
  }
  auto records = std::make_shared<Records>();
  records->state = PackState(entry->key, next);
  work.head.last_used_ms = Now();
  work.head.expires_ms = work.head.last_used_ms + options_.ttl.count();
  ++work.head.turns;
  work.head.tokens = static_cast<int64_t>(next.ids.size());
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
  work_came_.notify_one();
}

std::vector<SessionInfo> SessionStore::Impl::List(const std::string& tenant) const {
  const int64_t now = Now();
  std::vector<SessionInfo> all;
  {
    const std::lock_guard lock(mu_);
    all = index_.List(tenant, now, db_->durable());
  }
  std::sort(all.begin(), all.end(), [](const SessionInfo& a, const SessionInfo& b) {
    return std::tie(a.last_used, a.id) < std::tie(b.last_used, b.id);
  });
  return all;
}

Status SessionStore::Impl::Close(const std::string& tenant, const std::string& id) {
  const std::string key = SessionKey(tenant, id);
  // Shared with the callback, which may come after a caller that is gone.
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
  work_came_.notify_one();
  std::unique_lock lock(ending->mu);
  ending->ended.wait(lock, [&] { return ending->status.has_value(); });
  if (ending->status->ok()) return {};
  return {ending->status->code(),
          fmt::format("the session '{}' is closed, but its record is still there, for the state "
                      "cannot be written now: {}",
                      id, ending->status->message())};
}

void SessionStore::Impl::WaitWritten() {
  std::unique_lock lock(mu_);
  const uint64_t goal = work_added_;
  work_done_.wait(lock, [&] { return work_ended_ >= goal; });
}

SessionStoreStats SessionStore::Impl::stats() const {
  const std::lock_guard lock(mu_);
  SessionStoreStats stats = counts_;
  stats.sessions = index_.size();
  stats.bytes = index_.bytes();
  stats.expired = index_.num_expired();
  stats.unwritten = index_.num_unwritten();
  return stats;
}

void SessionStore::Impl::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-store");
  while (true) {
    std::list<Work> work;
    {
      std::unique_lock lock(mu_);
      work_came_.wait_for(lock, options_.period, [this] { return stop_ || !work_.empty(); });
      try {
        RemoveExpired(Now());
      } catch (const std::bad_alloc&) {  // Again at the next round.
      }
      if (NothingToWrite()) {
        if (stop_) return;
        continue;
      }
      work.swap(work_);
    }
    const Status status = WriteAll(work);
    Note(status);
    Settle(work, status);
    Tell(work, status);
    const std::lock_guard lock(mu_);
    // What cannot be written at the end is given up.
    if (stop_ && work_.empty() && !status.ok()) return;
  }
}

std::vector<StateChange> SessionStore::Impl::Collect(const std::list<Work>& work) {
  std::vector<const Work*> wanted;
  {
    const std::lock_guard lock(mu_);
    removing_.swap(removed_);
    for (const std::shared_ptr<Entry>& entry : index_.Unwritten()) {
      retried_.emplace_back(entry, entry->unwritten);
    }
    for (const Work& each : work) {
      if (each.records == nullptr || IsKept(each)) wanted.push_back(&each);
    }
  }
  // The records do not change: nobody waits for their copies.
  std::vector<StateChange> changes;
  // A session that was removed may have been begun anew since.
  for (const std::string& key : removing_) AddRemoval(key, &changes);
  for (const auto& [entry, records] : retried_) AddRecords(entry->key, *records, &changes);
  for (const Work* each : wanted) {
    if (each->records == nullptr) {
      AddRemoval(each->entry->key, &changes);
    } else {
      AddRecords(each->entry->key, *each->records, &changes);
    }
  }
  return changes;
}

Status SessionStore::Impl::WriteAll(const std::list<Work>& work) {
  retried_.clear();
  try {
    return db_->Write(Collect(work));
  } catch (const std::exception& e) {
    return {StatusCode::kResourceExhausted, e.what()};
  }
}

void SessionStore::Impl::Settle(const std::list<Work>& work, const Status& status) {
  const std::lock_guard lock(mu_);
  if (status.ok()) {
    removing_.clear();
    for (const auto& [entry, records] : retried_) {
      if (entry->unwritten == records) index_.SetUnwritten(entry.get(), nullptr);
    }
  } else {
    removed_.merge(removing_);
    removing_.clear();
  }
  retried_.clear();
  for (const Work& each : work) {
    Entry* const entry = each.entry.get();
    if (each.records == nullptr) {
      try {
        if (!status.ok()) removed_.insert(entry->key);
      } catch (const std::bad_alloc&) {  // Who closed it is told that it may come back.
      }
      continue;
    }
    if (!IsKept(each)) continue;
    entry->turn = 0;
    if (!status.ok()) ++counts_.failed_writes;
    index_.SetUnwritten(entry, status.ok() ? nullptr : each.records);
    index_.SetHead(entry, each.head, each.records->head.size());
  }
}

void SessionStore::Impl::Tell(const std::list<Work>& work, const Status& status) {
  for (const Work& each : work) {
    if (each.done) each.done(status);
  }
  {
    const std::lock_guard lock(mu_);
    work_ended_ += work.size();
  }
  work_done_.notify_all();
}

void SessionStore::Impl::Note(const Status& status) {
  if (!status.ok() && !failing_) {
    TryLog(spdlog::level::err, "sessions cannot be written, and go on in memory until they can: {}",
           status.message());
  } else if (status.ok() && failing_) {
    TryLog(spdlog::level::info, "sessions are written again");
  }
  failing_ = !status.ok();
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
  if (entry_ != nullptr) store_->impl_->Abandon(entry_.get(), number_);
}

StatusOr<std::unique_ptr<SessionStore>> SessionStore::Open(SessionStoreOptions options,
                                                           std::unique_ptr<StateDb> db) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(db));
  impl->Find();
  impl->Start();
  return std::unique_ptr<SessionStore>(new SessionStore(std::move(impl)));
}

SessionStore::SessionStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SessionStore::~SessionStore() = default;

StatusOr<SessionTurn> SessionStore::Begin(const std::string& tenant, const std::string& id) {
  StatusOr<Impl::Begun> entry = impl_->Begin(tenant, id);
  if (!entry.ok()) return entry.status();
  SessionTurn turn;
  turn.store_ = this;
  turn.entry_ = std::move(entry->first);
  turn.number_ = entry->second;
  return turn;
}

bool SessionStore::IsNew(const SessionTurn& turn) const { return impl_->IsNew(*turn.entry_); }

StatusOr<SessionState> SessionStore::Load(const SessionTurn& turn) {
  return impl_->Load(turn.entry_.get(), turn.number_);
}

void SessionStore::Commit(SessionTurn* turn, const SessionState& next, DoneFn done) {
  impl_->Commit(turn->entry_, turn->number_, next, std::move(done));
  turn->entry_ = nullptr;
}

std::vector<SessionInfo> SessionStore::List(const std::string& tenant) const {
  return impl_->List(tenant);
}

Status SessionStore::Close(const std::string& tenant, const std::string& id) {
  return impl_->Close(tenant, id);
}

void SessionStore::WaitWritten() { impl_->WaitWritten(); }

SessionStoreStats SessionStore::stats() const { return impl_->stats(); }

}  // namespace ropeway
