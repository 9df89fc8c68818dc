// The rows of a classic static batch that stand for nobody.
#ifndef ROPEWAY_SCHEDULER_STATIC_PADDING_H_
#define ROPEWAY_SCHEDULER_STATIC_PADDING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/sequence.h"
#include "scheduler/schedule.h"

namespace ropeway {

// In a classic static batch all rows have one length: shorter prompts are filled up to the longest,
// and a sequence that has ended goes on as padding until the last one has. This makes their rows,
// so that the strategy costs here what it costs there. Thread rule: the scheduler's.
class StaticPadding {
 public:
  // `places`: most sequences of a batch.
  explicit StaticPadding(size_t places) { shorter_.reserve(places); }

  // A batch begins with these members.
  void Begin(std::span<const Sequence* const> members);

  // Some prompt is not filled up yet: nobody decodes before.
  bool prefilling() const { return !shorter_.empty(); }

  // Adds padding to a planned step: at most `tokens` rows in at most `items` items of prompts that
  // are filled up; else, where `longest` > 0, a row for each member that has ended, at the position
  // of the longest that is left.
  void Add(int32_t tokens, int32_t items, int32_t ended, int32_t longest, Schedule* schedule);

 private:
  struct Shorter {
    int32_t next = 0;  // The first position that is still to be filled ...
    int32_t end = 0;   // ... up to here.
  };
  std::vector<Shorter> shorter_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_STATIC_PADDING_H_
