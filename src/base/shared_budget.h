// An amount that tenants share so that none of them shuts out another.
#ifndef ROPEWAY_BASE_SHARED_BUDGET_H_
#define ROPEWAY_BASE_SHARED_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace ropeway::base {

// Bytes, places in a queue, connections: whatever many holders take from one total. A tenant may
// hold at most as much as is still free (a dynamic threshold: Choudhury and Hahne, "Dynamic queue
// length thresholds for shared-memory packet switches", 1998). So one tenant alone gets half of the
// total, N greedy ones get N / (N + 1) of it together, and one that holds little finds room at
// once, whatever the others do. There is one exception: a holder may take the whole total while no
// other one holds anything, so that an empty machine rejects nothing that fits it.
//
// Thread rule: every method from any thread; a Hold from one thread at a time. Must outlive its
// Holds.
class SharedBudget {
 private:
  // What one tenant holds.
  struct Account {
    int64_t held = 0;
    int64_t holds = 0;  // The account goes away with the last one.
  };
  using Accounts = std::map<std::string, Account, std::less<>>;

 public:
  // REQUIRES: total >= 0.
  explicit SharedBudget(int64_t total) : total_(total) {}
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  // A part of the budget, returned by the destructor.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          account_(other.account_),
          amount_(std::exchange(other.amount_, 0)) {}
    Hold& operator=(Hold&& other) noexcept {
      if (this == &other) return *this;
      Release();
      budget_ = std::exchange(other.budget_, nullptr);
      account_ = other.account_;
      amount_ = std::exchange(other.amount_, 0);
      return *this;
    }
    ~Hold() { Release(); }

    // Takes `more` for the same tenant; false, with nothing taken, if that is too much.
    // REQUIRES: taken, more >= 0.
    bool Grow(int64_t more) { return budget_->Grow(this, more); }
    // Changes the amount, even beyond what the tenant may hold and what there is: for what must be
    // kept, however large it becomes. REQUIRES: taken, amount >= 0.
    void Resize(int64_t amount) noexcept { budget_->Resize(this, amount); }
    // Returns all of it. The Hold is empty then and may be taken again.
    void Release() {
      if (budget_ != nullptr) std::exchange(budget_, nullptr)->Release(this);
    }
    bool taken() const { return budget_ != nullptr; }
    int64_t amount() const { return amount_; }

   private:
    friend class SharedBudget;
    SharedBudget* budget_ = nullptr;  // Null: holds nothing, not even an account.
    Accounts::iterator account_{};    // Valid with budget_.
    int64_t amount_ = 0;
  };

  // Takes `amount`, which may be 0, for `tenant`; false, with nothing taken, if that is too much.
  // `spare`: what others hold and would give way to this tenant. It counts as free for how much the
  // tenant may hold, but room must be there. Throws std::bad_alloc, with nothing taken. REQUIRES:
  // `hold` is empty, amount >= 0, spare >= 0.
  bool Take(std::string_view tenant, int64_t amount, Hold* hold, int64_t spare = 0) {
    const std::lock_guard lock(mutex_);
    const auto account = accounts_.find(tenant);
    const int64_t held = account == accounts_.end() ? 0 : account->second.held;
    if (!Fits(held, 0, amount, spare)) return false;
    Give(tenant, amount, hold);
    return true;
  }

  // Takes `amount`, even if that is too much: for what is there already. Throws std::bad_alloc,
  // with nothing taken. REQUIRES: `hold` is empty, amount >= 0.
  void TakeAnyway(std::string_view tenant, int64_t amount, Hold* hold) {
    const std::lock_guard lock(mutex_);
    Give(tenant, amount, hold);
  }

  // Whether others than the present tenant may come, as at the beginning. While not, it may take
  // the whole total, too.
  void set_shared(bool shared) {
    const std::lock_guard lock(mutex_);
    shared_ = shared;
  }
  bool shared() const {
    const std::lock_guard lock(mutex_);
    return shared_;
  }
  int64_t total() const { return total_; }
  int64_t used() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }
  // What the Holds of `tenant` have together.
  int64_t held(std::string_view tenant) const {
    const std::lock_guard lock(mutex_);
    const auto account = accounts_.find(tenant);
    return account == accounts_.end() ? 0 : account->second.held;
  }
  // Tenants that hold something, for tests.
  size_t tenants() const {
    const std::lock_guard lock(mutex_);
    return accounts_.size();
  }

 private:
  // Whether a hold of `own` of a tenant that has `held` (with `own`) may take `more`. REQUIRES:
  // mutex_ is held.
  bool Fits(int64_t held, int64_t own, int64_t more, int64_t spare) const {
    if (more > total_ - used_) return false;
    return !shared_ || used_ == own || held + more <= total_ - used_ - more + spare;
  }

  // REQUIRES: mutex_ is held.
  void Give(std::string_view tenant, int64_t amount, Hold* hold) {
    auto account = accounts_.find(tenant);
    if (account == accounts_.end()) account = accounts_.emplace(tenant, Account()).first;
    account->second.held += amount;
    ++account->second.holds;
    used_ += amount;
    hold->budget_ = this;
    hold->account_ = account;
    hold->amount_ = amount;
  }

  void Resize(Hold* hold, int64_t amount) noexcept {
    const std::lock_guard lock(mutex_);
    const int64_t more = amount - std::exchange(hold->amount_, amount);
    hold->account_->second.held += more;
    used_ += more;
  }

  bool Grow(Hold* hold, int64_t more) {
    const std::lock_guard lock(mutex_);
    Account& account = hold->account_->second;
    if (!Fits(account.held, hold->amount_, more, 0)) return false;
    account.held += more;
    used_ += more;
    hold->amount_ += more;
    return true;
  }

  void Release(Hold* hold) {
    const std::lock_guard lock(mutex_);
    Account& account = hold->account_->second;
    const int64_t amount = std::exchange(hold->amount_, 0);
    account.held -= amount;
    used_ -= amount;
    if (--account.holds == 0) accounts_.erase(hold->account_);
  }

  const int64_t total_;
  mutable std::mutex mutex_;
  bool shared_ = true;  // GUARDED_BY(mutex_)
  int64_t used_ = 0;    // GUARDED_BY(mutex_)
  Accounts accounts_;   // One per tenant that has a Hold. GUARDED_BY(mutex_)
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_SHARED_BUDGET_H_
