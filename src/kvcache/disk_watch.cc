#include "kvcache/disk_watch.h"

#include <ctime>
#include <utility>

namespace ropeway {
namespace {

// When the job that this thread works at began, by its CPU clock.
thread_local double began = 0;

}  // namespace

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

DiskWatch::DiskWatch(DiskDirectory* directory, std::function<void()> on_error)
    : directory_(directory), on_error_(std::move(on_error)) {}

std::string DiskWatch::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

void DiskWatch::Begin(DiskDirectory::Work work) {
  began = ThreadCpuSeconds();
  directory_->Mark(work, true);
}

void DiskWatch::End(DiskDirectory::Work work) {
  directory_->Mark(work, false);
  cpu_nanos_ += static_cast<int64_t>((ThreadCpuSeconds() - began) * 1e9);
}

void DiskWatch::OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) {
  Begin(DiskDirectory::Work::kWriting);
}

void DiskWatch::OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) {
  End(DiskDirectory::Work::kWriting);
}

void DiskWatch::OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) {
  Begin(DiskDirectory::Work::kCompacting);
}

void DiskWatch::OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) {
  End(DiskDirectory::Work::kCompacting);
}

void DiskWatch::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_.empty()) error_ = error->ToString();
  }
  on_error_();
}

}  // namespace ropeway
