// Threads that run jobs in pieces, in fair shares of their time.
#ifndef ROPEWAY_BASE_FAIR_POOL_H_
#define ROPEWAY_BASE_FAIR_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/shared_budget.h"

namespace ropeway::base {

// What a job's time is charged to: the jobs of one class of one tenant.
struct Flow {
  std::string tenant;
  int cls = 1;          // 0 is the highest class; the classes' shares are kFlowClassShares.
  double weight = 1.0;  // The tenant's, relative to other tenants; above 0.
};

inline constexpr int kFlowClasses = 3;
inline constexpr double kFlowClassShares[kFlowClasses] = {70, 20, 10};

// How a piece of a job ended.
struct PieceEnd {
  // Implicit: most pieces say no more.
  PieceEnd(bool is_done) : done(is_done) {}
  static PieceEnd GivingWay() {
    PieceEnd end(false);
    end.gives_way = true;
    return end;
  }

  bool done;
  bool gives_way = false;  // It is not done, and takes long: shorter jobs go first.
};

// The queue of a FairPool: start-time fair queueing (Goyal, Vin and Cheng, 1996). A flow's start
// tag, the time it has used over its weight, decides: the least goes first, then the job that was
// added first. A flow that was idle begins at the virtual time, the start tag of the newest piece,
// so quiet time earns nothing, and a newcomer waits for the pieces that run and no more. What a
// piece takes is known when it is over; until then it counts as kExpectedPiece.
//
// A job that gives way goes behind the jobs of its flow that do not, except for one piece in
// kGivingWayTurn. So it waits for them at most a few times its own time, and they hardly wait for
// it.
//
// Only Add allocates. Thread rule: one thread at a time.
class FairQueue {
 private:
  struct Account;

 public:
  static constexpr Duration kExpectedPiece = std::chrono::milliseconds(1);
  static constexpr int kGivingWayTurn = 4;

  struct Job {
    // Declared before `place`: it is destroyed after the place was given back.
    std::function<PieceEnd()> piece;
    SharedBudget::Hold place;
    TimePoint began{};    // When the piece that runs began; the caller's.
    uint64_t number = 0;  // In order of Add.
    const std::string& tenant() const { return account->tenant; }

   private:
    friend class FairQueue;
    Account* account = nullptr;  // Valid while the job waits or runs.
  };
  // One job, or none: handed on without an allocation.
  using Handle = std::list<Job>;

  // Throws std::bad_alloc, with nothing added.
  void Add(const Flow& flow, std::function<PieceEnd()> piece, SharedBudget::Hold place);

  // Takes the next job to run a piece of, of those whose tenants are not `barred`; none: there is
  // none.
  Handle Take(const std::function<bool(const std::string& tenant)>& barred = nullptr);

  // The piece took `took`. Unless the job is done it goes back to the head of its flow, in order of
  // Add, or of those that give way; else `job` keeps it. REQUIRES: `job` is from Take.
  void Return(Handle* job, Duration took, PieceEnd end);

  // Takes all that wait.
  Handle TakeAll();

  bool empty() const { return waiting_ == 0; }
  // Jobs that wait or run.
  size_t size() const { return waiting_ + running_; }
  // Flows that have jobs, or used more than their share a moment ago.
  size_t flows() const { return accounts_.size(); }

 private:
  struct Account {
    std::string tenant;
    double rate = 1;   // The weight with the class's share.
    double start = 0;  // The start tag of its next piece.
    Handle waiting;
    Handle giving_way;
    int turn = 0;  // Counts while both wait.
    int running = 0;
    bool waits() const { return !waiting.empty() || !giving_way.empty(); }
    bool idle() const { return !waits() && running == 0; }
    // The list whose first job is next. REQUIRES: waits().
    const Handle& next() const;
    Handle& next() { return const_cast<Handle&>(std::as_const(*this).next()); }
  };

  Account* AccountOf(const Flow& flow);

  std::map<std::pair<std::string, int>, Account> accounts_;  // By tenant and class.
  double virtual_time_ = 0;  // Seconds over weight, as the start tags.
  size_t waiting_ = 0;
  size_t running_ = 0;
  uint64_t next_number_ = 0;
  size_t sweep_at_ = 64;
};

// Jobs run in pieces of a few milliseconds, in the order of a FairQueue by the measured time of
// their pieces. So no tenant's jobs hold up another's, however many and however long they are.
//
// A piece that takes longer than kLongPiece (it cannot be cut: one JSON text) is left to the
// operating system beside the others: one of kSpareThreads takes its place, for the jobs of other
// tenants alone.
//
// Thread rule: TryAdd and size from any thread; Stop and the destructor from one, which is none of
// the pool's.
class FairPool {
 public:
  static constexpr Duration kLongPiece = std::chrono::milliseconds(10);
  static constexpr int kSpareThreads = 2;
  // What is added to the nice value of its threads: jobs must not slow the steps of the engine,
  // which all streams wait for.
  static constexpr int kNice = 10;

  // `places`: for jobs that wait or run, shared between tenants by SharedBudget: one tenant alone
  // gets half of them. `name`: of its threads, as tools like top show them; at most 15 bytes.
  // `clock` must outlive it; null: the machine's. REQUIRES: threads >= 1, places >= 1. Throws
  // std::system_error where the system gives no more threads.
  FairPool(int threads, int64_t places, const std::string& name, const Clock* clock = nullptr);
  ~FairPool();
  FairPool(const FairPool&) = delete;
  FairPool& operator=(const FairPool&) = delete;

  // Queues a job. `piece` does a part of it, a few milliseconds long, and returns whether the job
  // is done, or gives way to shorter ones of its flow; it must not throw. It is called from one
  // thread at a time. It is destroyed when the job is done or dropped, after the job's place is
  // free again. False, with `piece` destroyed, if the tenant has no place left, or after Stop.
  // Throws std::bad_alloc, with nothing queued.
  bool TryAdd(const Flow& flow, std::function<PieceEnd()> piece);

  // Waits for the pieces that run, drops all jobs, also the ones of these pieces, and joins the
  // threads.
  void Stop();

  // Jobs that wait or run.
  size_t size() const;

 private:
  void Loop();
  // The next job whose piece may run now, after waiting for it; none: the pool stops.
  FairQueue::Handle Next(std::unique_lock<std::mutex>* lock);
  // Of a tenant with a piece that runs for long at `now`. REQUIRES: mu_ is held.
  bool Barred(const std::string& tenant, TimePoint now) const;

  const int threads_wanted_;
  const RealClock real_clock_{};
  const Clock* const clock_;
  SharedBudget places_;  // Outlives the jobs.
  mutable std::mutex mu_;
  std::condition_variable changed_;
  FairQueue queue_;            // GUARDED_BY(mu_)
  FairQueue::Handle running_;  // The jobs with a piece that runs. GUARDED_BY(mu_)
  bool stopping_ = false;      // GUARDED_BY(mu_)
  // Threads that look again when the oldest piece has become a long one. GUARDED_BY(mu_)
  int watching_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_FAIR_POOL_H_
