#include "scheduler/batches.h"

#include <algorithm>

namespace ropeway::scheduler {

void Batches::BeginStep(Sequences queue, Sequences running, int limit, int64_t prompt_tokens,
                        base::TimePoint now, SchedulerOutput* step) {
  if (continuous()) return;
  const int32_t members = running_ != 0 ? NumMembers(queue, running) : 0;
  if (members == 0 && running_ != 0) {
    former_.OnBatchEnded(now);
    padding_.End();
    running_ = 0;
  }
  BatchFormer::QueueView view{.waiting = 0,
                              .oldest = base::TimePoint::max(),
                              .urgent = false,
                              .running = members,
                              .free_slots = limit - static_cast<int>(running.size()),
                              .prompt_tokens = static_cast<int32_t>(prompt_tokens),
                              .flush = flush_};
  for (const core::Sequence* sequence : queue) {
    if (sequence->state != core::SequenceState::kWaiting) continue;
    ++view.waiting;
    view.oldest = std::min(view.oldest, sequence->sched.queued_since);
    view.urgent = view.urgent || sequence->request.priority == Priority::kHigh;
  }
  new_slots_ = former_.MayStart(view, now);
  if (running.empty() && members == 0 && new_slots_ == 0) step->next_look = former_.next_look();
}

int32_t Batches::NumMembers(Sequences queue, Sequences running) const {
  const auto count = [](Sequences list, auto is_counted) {
    return static_cast<int32_t>(std::count_if(list.begin(), list.end(), is_counted));
  };
  if (!options_.urgent_joins) {
    return static_cast<int32_t>(running.size()) + count(queue, [](const core::Sequence* s) {
             return s->state == core::SequenceState::kPreempted;
           });
  }
  const auto is_member = [this](const core::Sequence* s) {
    return s->sched.batch.number == running_;
  };
  return count(running, is_member) + count(queue, is_member);
}

bool Batches::PrefillsFirst(Sequences running) const {
  if (!options_.padding) return false;
  return padding_.prefilling() ||
         std::any_of(running.begin(), running.end(), [this](const core::Sequence* s) {
           return s->sched.batch.number == running_ && s->state == core::SequenceState::kPrefilling;
         });
}

bool Batches::MayJoin(const core::Sequence& sequence, Sequences running, int limit) const {
  if (!options_.urgent_joins || running_ == 0) return false;
  if (sequence.request.priority != Priority::kHigh) return false;
  const auto joined =
      std::count_if(running.begin(), running.end(),
                    [this](const core::Sequence* s) { return s->sched.batch.number != running_; });
  return joined < limit / 2;
}

void Batches::OnStart(core::Sequence* sequence, base::TimePoint now) {
  if (new_slots_ > 0) --new_slots_;
  const base::TimePoint since = std::max(sequence->sched.queued_since, former_.collecting_since());
  sequence->sched.batch.formation = std::max(base::Duration{}, now - since);
}

void Batches::EndStep(Sequences queue, Sequences running, int32_t rows_left, base::TimePoint now,
                      SchedulerOutput* step) {
  if (!step->started.empty()) Number(static_cast<int32_t>(running.size()), now, *step);
  if (!options_.padding || running_ == 0) return;
  const int32_t members = NumMembers(queue, running);
  if (members == 0) return;
  int32_t longest = 0;
  for (const ScheduledItem& item : step->items) {
    const core::Sequence& its = *item.sequence;
    if (its.state == core::SequenceState::kDecoding && its.sched.batch.number == running_) {
      longest = std::max(longest, its.num_ids());
    }
  }
  const auto items = slots_ - static_cast<int32_t>(step->items.size());
  padding_.Add(rows_left, items, size_ - members, longest, step);
}

void Batches::Number(int32_t running, base::TimePoint now, const SchedulerOutput& step) {
  ++newest_;
  const int32_t size = continuous() ? running : static_cast<int32_t>(step.started.size());
  int32_t tokens = 0;
  for (core::Sequence* sequence : step.started) {
    sequence->sched.batch.number = newest_;
    sequence->sched.batch.size = size;
    tokens += sequence->num_ids();
  }
  // Urgent sequences that start beside a running batch do not extend it.
  if (continuous() || running_ != 0) return;
  running_ = newest_;
  size_ = size;
  former_.OnStarted(size, tokens, now);
  if (options_.padding) padding_.Begin(step.started);
}

}  // namespace ropeway::scheduler
