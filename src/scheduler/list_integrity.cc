#include "scheduler/list_integrity.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "core/sequence_state.h"
#include "kvcache/kv_cache_manager.h"

namespace ropeway {
namespace {

const char* WhatIsBrokenInQueue(const Sequence& s) {
  if (s.state != SequenceState::kWaiting && s.state != SequenceState::kPreempted) {
    return "is in the queue";
  }
  return s.blocks.empty() && s.computed == 0 ? nullptr : "holds blocks";
}

const char* WhatIsBrokenRunning(const Sequence& s) {
  if (!s.running()) return "is on the running list";
  if (s.computed >= s.num_ids()) return "has computed all its ids and not ended";
  return static_cast<int32_t>(s.blocks.size()) >= BlocksFor(s.computed)
             ? nullptr
             : "has more positions computed than its blocks hold";
}

Status CheckCount(std::span<Sequence* const> list, SequenceState state, int counted) {
  const auto there = std::count_if(list.begin(), list.end(),
                                   [state](const Sequence* s) { return s->state == state; });
  if (there == counted) return {};
  return {StatusCode::kInternal, fmt::format("the scheduler counts {} {} sequences, {} are",
                                             counted, SequenceStateName(state), there)};
}

}  // namespace

Status CheckLists(const SchedulerLists& lists) {
  std::unordered_set<const Sequence*> seen;
  const auto check = [&seen](std::span<Sequence* const> list, auto* what_is_broken) -> Status {
    for (const Sequence* s : list) {
      const char* const what = seen.insert(s).second ? what_is_broken(*s) : "is listed twice";
      if (what == nullptr) continue;
      return {StatusCode::kInternal,
              fmt::format("sequence {} ({}) {}", s->id, SequenceStateName(s->state), what)};
    }
    return {};
  };
  if (Status s = check(lists.running, WhatIsBrokenRunning); !s.ok()) return s;
  if (Status s = check(lists.queue, WhatIsBrokenInQueue); !s.ok()) return s;
  Status counts = CheckCount(lists.running, SequenceState::kFetching, lists.fetching);
  if (counts.ok()) counts = CheckCount(lists.queue, SequenceState::kPreempted, lists.preempted);
  if (!counts.ok()) return counts;
  const auto running = static_cast<int>(lists.running.size());
  if (running <= lists.max_running) return {};
  return {StatusCode::kInternal,
          fmt::format("{} sequences run, more than {}", running, lists.max_running)};
}

}  // namespace ropeway
