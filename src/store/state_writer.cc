#include "store/state_writer.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"

namespace ropeway::store {

StateWriter::StateWriter(std::unique_ptr<StateDb> db, std::chrono::milliseconds period)
    : db_(std::move(db)), period_(period), thread_([this] { Loop(); }) {}

StateWriter::~StateWriter() {
  {
    const std::lock_guard lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StateWriter::Add(Client* client) {
  const Status status = client->Load(*db_);
  {
    const std::lock_guard lock(mu_);
    joining_.push_back({client, status.ok()});
  }
  // A round that began before does not know it, and must not clear this.
  if (!status.ok()) Note(status);
}

void StateWriter::Remove(Client* client) {
  std::unique_lock lock(mu_);
  const auto find = [&]() -> Member* {
    for (std::list<Member>* list : {&members_, &joining_}) {
      for (Member& member : *list) {
        if (member.client == client) return &member;
      }
    }
    return nullptr;
  };
  Member* const member = find();
  if (member == nullptr) return;
  member->last_round = rounds_ + 1;  // The round that runs may have asked it already.
  woken_ = true;
  wake_.notify_all();
  round_ended_.wait(lock, [&] { return find() == nullptr; });
}

void StateWriter::Wake() {
  {
    const std::lock_guard lock(mu_);
    woken_ = true;
  }
  wake_.notify_all();
}

Status StateWriter::failure() const {
  const std::lock_guard lock(mu_);
  return failure_;
}

void StateWriter::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-store");
  std::unique_lock lock(mu_);
  while (true) {
    wake_.wait_for(lock, period_, [this] { return stop_ || woken_; });
    if (stop_) return;
    woken_ = false;
    members_.splice(members_.end(), joining_);
    ++rounds_;
    lock.unlock();
    Round();
    lock.lock();
    std::erase_if(members_, [this](const Member& m) { return m.last_round <= rounds_; });
    round_ended_.notify_all();
  }
}

void StateWriter::Round() {
  bool wanted = !failure().ok();
  Status status;
  try {
    std::vector<StateChange> changes;
    for (const Member& member : members_) wanted |= member.client->Collect(&changes);
    if (!wanted) return;
    status = db_->Write(changes);
    if (status.ok()) status = LoadRest();
  } catch (const std::exception& e) {
    status = Status(StatusCode::kResourceExhausted, e.what());
  }
  Note(status);
  for (const Member& member : members_) member.client->Settle(status);
}

Status StateWriter::LoadRest() {
  for (Member& member : members_) {
    if (member.loaded) continue;
    if (Status status = member.client->Load(*db_); !status.ok()) return status;
    const std::lock_guard lock(mu_);
    member.loaded = true;
  }
  return {};
}

void StateWriter::Note(const Status& status) {
  bool changed = false;
  {
    const std::lock_guard lock(mu_);
    const bool all_loaded = std::ranges::all_of(members_, &Member::loaded) &&
                            std::ranges::all_of(joining_, &Member::loaded);
    if (status.ok() && !all_loaded) return;
    // A damaged database may be opened anew and written for a while, until it meets the damage.
    if (failure_.code() == StatusCode::kDataLoss) return;
    changed = status.code() == StatusCode::kDataLoss || status.ok() != failure_.ok();
    failure_ = status;
  }
  if (!changed) return;
  if (status.ok()) {
    base::TryLog(spdlog::level::info, "state can be stored again");
  } else if (status.code() == StatusCode::kDataLoss) {
    base::TryLog(spdlog::level::err,
                 "what is stored is damaged ({}), and nothing new is stored; stop the server, and "
                 "move that directory away or restore it",
                 status.message());
  } else {
    base::TryLog(spdlog::level::err,
                 "state cannot be stored, and what would be new is rejected until it can: {}",
                 status.message());
  }
}

}  // namespace ropeway::store
