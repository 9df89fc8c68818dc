#include "base/fair_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace ropeway::base {
namespace {

// Where the processors do not suffice, the calling thread gets about a tenth of what others get.
// Linux alone has priorities of threads; a priority below the lowest is the lowest.
void YieldToOthers() {
  const auto thread = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + FairPool::kNice);
}

}  // namespace

const FairQueue::Handle& FairQueue::Account::next() const {
  if (waiting.empty()) return giving_way;
  return !giving_way.empty() && turn == kGivingWayTurn - 1 ? giving_way : waiting;
}

FairQueue::Account* FairQueue::AccountOf(const Flow& flow) {
  if (accounts_.size() >= sweep_at_) {
    // What an idle flow used is forgotten once it would begin at the virtual time anyway.
    std::erase_if(accounts_, [this](const auto& entry) {
      return entry.second.idle() && entry.second.start <= virtual_time_;
    });
    sweep_at_ = std::max<size_t>(64, 2 * accounts_.size());
  }
  const int cls = std::clamp(flow.cls, 0, kFlowClasses - 1);
  Account& account = accounts_.try_emplace(std::pair(flow.tenant, cls)).first->second;
  account.rate = flow.weight * kFlowClassShares[cls];
  return &account;
}

void FairQueue::Add(const Flow& flow, std::function<PieceEnd()> piece, SharedBudget::Hold place) {
  Handle one(1);
  std::string tenant = flow.tenant;
  Account* const account = AccountOf(flow);
  // From here on nothing throws.
  if (account->idle()) {
    account->start = std::max(account->start, virtual_time_);
    account->tenant = std::move(tenant);
  }
  Job& job = one.front();
  job.piece = std::move(piece);
  job.place = std::move(place);
  job.number = next_number_++;
  job.account = account;
  account->waiting.splice(account->waiting.end(), one);
  ++waiting_;
}

FairQueue::Handle FairQueue::Take(const std::function<bool(const std::string& tenant)>& barred) {
  Account* first = nullptr;
  const auto before = [](const Account& a, const Account& b) {
    return std::pair(a.start, a.next().front().number) <
           std::pair(b.start, b.next().front().number);
  };
  // Flows that wait are few: there are three for each API key.
  for (auto& [key, account] : accounts_) {
    if (!account.waits() || (first != nullptr && !before(account, *first))) continue;
    if (!barred || !barred(account.tenant)) first = &account;
  }
  Handle taken;
  if (first == nullptr) return taken;
  Handle& next = first->next();
  if (!first->waiting.empty() && !first->giving_way.empty()) {
    first->turn = (first->turn + 1) % kGivingWayTurn;
  }
  taken.splice(taken.end(), next, next.begin());
  virtual_time_ = std::max(virtual_time_, first->start);
  first->start += ToSeconds(kExpectedPiece) / first->rate;
  ++first->running;
  --waiting_;
  ++running_;
  return taken;
}

void FairQueue::Return(Handle* job, Duration took, PieceEnd end) {
  Account* const account = job->front().account;
  account->start += ToSeconds(took - kExpectedPiece) / account->rate;
  --account->running;
  --running_;
  if (!end.done) {
    Handle& waiting = end.gives_way ? account->giving_way : account->waiting;
    const auto later = std::find_if(
        waiting.begin(), waiting.end(),
        [number = job->front().number](const Job& other) { return other.number > number; });
    waiting.splice(later, *job);
    ++waiting_;
  } else {
    job->front().account = nullptr;
  }
  if (size() > 0) return;
  // Nothing is left to be compared with.
  accounts_.clear();
  virtual_time_ = 0;
}

FairQueue::Handle FairQueue::TakeAll() {
  Handle all;
  for (auto& [key, account] : accounts_) {
    all.splice(all.end(), account.waiting);
    all.splice(all.end(), account.giving_way);
  }
  waiting_ = 0;
  for (Job& job : all) job.account = nullptr;
  return all;
}

FairPool::FairPool(int threads, int64_t places, const std::string& name, const Clock* clock)
    : threads_wanted_(threads), clock_(clock != nullptr ? clock : &real_clock_), places_(places) {
  try {
    for (int i = 0; i < threads + kSpareThreads; ++i) {
      threads_.emplace_back([this] { Loop(); });
      pthread_setname_np(threads_.back().native_handle(), name.c_str());
    }
  } catch (...) {
    Stop();
    throw;
  }
}

FairPool::~FairPool() { Stop(); }

bool FairPool::TryAdd(const Flow& flow, std::function<PieceEnd()> piece) {
  SharedBudget::Hold place;
  if (!places_.Take(flow.tenant, 1, &place)) return false;
  {
    const std::lock_guard lock(mu_);
    if (stopping_) return false;
    queue_.Add(flow, std::move(piece), std::move(place));
  }
  changed_.notify_one();
  return true;
}

void FairPool::Stop() {
  FairQueue::Handle dropped;
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
    dropped = queue_.TakeAll();
  }
  changed_.notify_all();
  dropped.clear();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

size_t FairPool::size() const {
  const std::lock_guard lock(mu_);
  return queue_.size();
}

bool FairPool::Barred(const std::string& tenant, TimePoint now) const {
  return std::any_of(running_.begin(), running_.end(), [&](const FairQueue::Job& job) {
    return now - job.began >= kLongPiece && job.tenant() == tenant;
  });
}

FairQueue::Handle FairPool::Next(std::unique_lock<std::mutex>* lock) {
  while (!stopping_) {
    const TimePoint now = clock_->Now();
    int counted = 0;
    TimePoint oldest = now;
    for (const FairQueue::Job& job : running_) {
      if (now - job.began >= kLongPiece) continue;
      ++counted;
      oldest = std::min(oldest, job.began);
    }
    if (running_.size() < static_cast<size_t>(threads_wanted_)) {
      FairQueue::Handle job = queue_.Take();
      if (!job.empty()) return job;
    } else if (counted < threads_wanted_) {
      FairQueue::Handle job =
          queue_.Take([this, now](const std::string& tenant) { return Barred(tenant, now); });
      if (!job.empty()) return job;
    }
    if (counted < threads_wanted_ || queue_.empty()) {
      changed_.wait(*lock);
    } else {
      // The next look is when the oldest piece has become a long one.
      ++watching_;
      changed_.wait_for(*lock, oldest + kLongPiece - now);
      --watching_;
    }
  }
  return {};
}

void FairPool::Loop() {
  YieldToOthers();
  std::unique_lock lock(mu_);
  while (true) {
    FairQueue::Handle job = Next(&lock);
    if (job.empty()) return;
    running_.splice(running_.end(), job);
    const auto at = std::prev(running_.end());
    at->began = clock_->Now();
    // If it was this thread that watched, another one has to for what still waits.
    if (watching_ == 0 && !queue_.empty()) changed_.notify_one();
    lock.unlock();
    const PieceEnd end = at->piece();
    lock.lock();
    job.splice(job.end(), running_, at);
    const Duration took = clock_->Now() - at->began;
    queue_.Return(&job, took, stopping_ ? PieceEnd(true) : end);
    // Its tenant's other jobs were barred from the spare threads.
    if (took >= kLongPiece && !queue_.empty()) changed_.notify_all();
    lock.unlock();
    job.clear();
    lock.lock();
  }
}

}  // namespace ropeway::base
