#include "scheduler/waiting_line.h"

#include <algorithm>

namespace ropeway {
namespace {

// The standard heap has its greatest element in front.
bool After(const Ranked& a, const Ranked& b) { return Before(b, a); }

}  // namespace

bool Before(const Ranked& a, const Ranked& b) {
  if (a.promoted != b.promoted) return a.promoted;
  if (!a.promoted && a.rank != b.rank) return a.rank < b.rank;
  return a.sequence->order < b.sequence->order;
}

void WaitingLine::Reserve(size_t count) {
  if (heap_.capacity() < count) heap_.reserve(2 * count);
}

void WaitingLine::Sort() { std::make_heap(heap_.begin(), heap_.end(), After); }

void WaitingLine::Pop() {
  std::pop_heap(heap_.begin(), heap_.end(), After);
  heap_.pop_back();
}

void WaitingLine::Settle(const SchedulingPolicy& policy) {
  while (!heap_.empty()) {
    const Rank rank = policy.RankOf(*heap_.front().sequence);
    if (heap_.front().promoted || rank <= heap_.front().rank) return;
    std::pop_heap(heap_.begin(), heap_.end(), After);
    heap_.back().rank = rank;
    std::push_heap(heap_.begin(), heap_.end(), After);
  }
}

}  // namespace ropeway
