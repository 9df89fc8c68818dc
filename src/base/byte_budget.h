// A bound on the total bytes of many holders.
#ifndef ROPEWAY_BASE_BYTE_BUDGET_H_
#define ROPEWAY_BASE_BYTE_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <utility>

namespace ropeway::base {

// Thread-safe. Must outlive its Holds.
class ByteBudget {
 public:
  explicit ByteBudget(size_t bytes) : left_(bytes) {}

  // A part of the budget, returned by its destructor.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Hold() { Release(); }

    void Release() {
      if (budget_ != nullptr) std::exchange(budget_, nullptr)->left_ += bytes_;
    }

   private:
    friend class ByteBudget;
    ByteBudget* budget_ = nullptr;
    size_t bytes_ = 0;
  };

  // False, with nothing taken, if fewer than `bytes` are left. REQUIRES: `hold` is empty.
  bool Take(size_t bytes, Hold* hold) {
    size_t left = left_.load();
    do {
      if (left < bytes) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes));
    hold->budget_ = this;
    hold->bytes_ = bytes;
    return true;
  }

 private:
  std::atomic<size_t> left_;
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_BYTE_BUDGET_H_
