// For what reads whole model files on several threads.
#ifndef ROPEWAY_MODEL_READ_IN_PARALLEL_H_
#define ROPEWAY_MODEL_READ_IN_PARALLEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::model {

// Calls run(i) once for each i in [0, count) on `threads` threads, one of them the caller's.
template <typename Run>
void ParallelFor(size_t count, int threads, const Run& run) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) run(i);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads && static_cast<size_t>(t) < count; ++t) others.emplace_back(work);
  work();
}

// The first failure of many jobs. Thread-safe.
class FirstFailure {
 public:
  void Note(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
    failed_ = true;
  }
  bool failed() const { return failed_; }
  // REQUIRES: all jobs have ended.
  const Status& status() const { return status_; }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;
};

// Part of a file in memory of its own.
class FilePart {
 public:
  // kResourceExhausted without memory for it; else as the file's Read.
  template <typename File>
  Status Read(const File& file, uint64_t begin, size_t bytes) {
    bytes_.reset(new (std::nothrow) std::byte[bytes]);
    if (bytes_ == nullptr) return {StatusCode::kResourceExhausted, "out of memory"};
    return file.Read(begin, {bytes_.get(), bytes});
  }
  const std::byte* data() const { return bytes_.get(); }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_READ_IN_PARALLEL_H_
