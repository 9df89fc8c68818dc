// Makes one allocation of the test program fail: test_failing_new.cc replaces operator new.
#ifndef ROPEWAY_ENGINE_TEST_FAILING_NEW_H_
#define ROPEWAY_ENGINE_TEST_FAILING_NEW_H_

#include <cstddef>
#include <cstdint>

namespace ropeway::engine {

// While it lives, allocation number `n` (1 is the first) and the `count` - 1 after it throw
// std::bad_alloc, on whatever thread they come. One at a time.
class FailingNew {
 public:
  // Of those of at least so many bytes.
  explicit FailingNew(int64_t n, int64_t count = 1, size_t least_bytes = 0);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  // Whether one has failed.
  bool fired() const;
  // Allocations since it began, those that failed included.
  int64_t seen() const;
};

// While it lives, this thread's allocations neither count nor fail.
class NeverFailingNew {
 public:
  NeverFailingNew();
  ~NeverFailingNew();
  NeverFailingNew(const NeverFailingNew&) = delete;
  NeverFailingNew& operator=(const NeverFailingNew&) = delete;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TEST_FAILING_NEW_H_
