// The reads that the disk tier was asked for: by ticket, in order, and what has come of them.
#ifndef ROPEWAY_KVCACHE_DISK_READS_H_
#define ROPEWAY_KVCACHE_DISK_READS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/block_name.h"
#include "kvcache/kv_tier.h"

namespace ropeway {

// Thread rule: guarded by its owner.
class DiskReads {
 public:
  // One read. Its own memory holds all that may come of it, so that nothing can get lost later.
  struct Job {
    uint64_t ticket = 0;
    std::vector<BlockName> names;
    std::vector<KvRead> reads;  // reserved to names.size()
    size_t taken = 0;           // Of `reads`.
    bool ended = false;         // Nothing more is added to `reads`.
  };

  // Throws std::bad_alloc, and then has changed nothing.
  void Begin(uint64_t ticket, std::vector<BlockName> names);
  void Cancel(uint64_t ticket);

  // The block to be read next is job->names[job->reads.size()]; nullptr: there is none.
  std::shared_ptr<Job> Next() const;
  // Hands in the next block of `job`; no bytes: it cannot be had. Nothing where the job has ended
  // meanwhile.
  void Deliver(Job* job, std::vector<std::byte> bytes, Duration took = {});
  // All reads end here.
  void EndAll();

  // At most `max_blocks` of what was delivered. Throws std::bad_alloc, and then nothing is taken.
  std::vector<KvRead> Take(size_t max_blocks);

  // Of what was delivered and not taken.
  uint64_t bytes() const { return bytes_; }
  bool any() const { return ready_ > 0; }

 private:
  std::deque<std::shared_ptr<Job>> jobs_;  // In the order of Begin; the ended ones come first.
  size_t ready_ = 0;                       // Delivered and not taken.
  uint64_t bytes_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_DISK_READS_H_
