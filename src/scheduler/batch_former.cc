#include "scheduler/batch_former.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace ropeway::scheduler {
namespace {

// 1 + floor(log2(value)), within the table.
size_t BucketOf(int32_t value, size_t buckets) {
  const int width = std::bit_width(static_cast<uint32_t>(std::max(value, 0)));
  return std::min(static_cast<size_t>(width), buckets - 1);
}

base::Duration ToDuration(double seconds) { return base::Duration(std::llround(seconds * 1e9)); }

}  // namespace

void BatchFormer::OnArrival(base::TimePoint now) {
  if (arrivals_++ > 0) {
    // Gaps beyond the target are all too long alike: a night without requests must not dominate the
    // mean for the next fifty arrivals.
    const double gap =
        base::ToSeconds(std::min<base::Duration>(now - last_arrival_, options_.target_latency));
    gap_ = arrivals_ == 2 ? gap : gap_ + (gap - gap_) * kNewestGap;
  }
  last_arrival_ = now;
}

int BatchFormer::MayStart(const QueueView& view, base::TimePoint now) {
  next_look_ = base::TimePoint::max();
  if (strategy_ == Strategy::kContinuous) return view.free_slots;
  const bool batch = strategy_ != Strategy::kSerial;
  const int size = std::min(batch ? options_.max_batch_size : 1, view.free_slots);
  if (view.running > 0 || view.waiting == 0 || size <= 0) {
    collecting_since_ = base::TimePoint::max();
    return 0;
  }
  if (view.waiting >= size || view.urgent || view.flush) return std::min(size, view.waiting);
  const base::TimePoint starts_at = StartsAt(view, size);
  if (now >= starts_at) return view.waiting;
  next_look_ = starts_at;
  collecting_since_ = std::min(collecting_since_, now);
  return 0;
}

base::TimePoint BatchFormer::StartsAt(const QueueView& view, int size) const {
  if (strategy_ == Strategy::kStatic) return view.oldest + options_.static_flush;
  if (options_.batch_timeout.count() >= 0) return view.oldest + options_.batch_timeout;
  if (arrivals_ < 2) return view.oldest;
  const double missing = size - view.waiting;
  // All times in seconds from the last arrival on.
  const base::Duration predicted = PredictedTime(view.waiting, view.prompt_tokens);
  const double latest =
      base::ToSeconds(view.oldest + options_.target_latency - predicted - last_arrival_);
  // The first time at which now + missing x gap > latest: by the mean gap, or, if earlier, by the
  // silence since the last arrival.
  const double by_mean = latest - missing * gap_;
  const double by_silence = latest / (1.0 + missing);
  return last_arrival_ + ToDuration(std::min(by_mean, by_silence));
}

void BatchFormer::OnStarted(int count, int32_t prompt_tokens, base::TimePoint now) {
  collecting_since_ = base::TimePoint::max();
  rows_ = count;
  prompt_tokens_ = prompt_tokens;
  began_ = now;
}

void BatchFormer::OnBatchEnded(base::TimePoint now) {
  if (rows_ == 0) return;
  double& mean = TimeOf(rows_, prompt_tokens_);
  const double took = base::ToSeconds(now - began_);
  mean = mean > 0.0 ? mean + (took - mean) * kNewestBatch : took;
  rows_ = 0;
}

double& BatchFormer::TimeOf(int rows, int32_t prompt_tokens) {
  return times_[BucketOf(rows, kRowBuckets)][BucketOf(prompt_tokens, kTokenBuckets)];
}

base::Duration BatchFormer::PredictedTime(int rows, int32_t prompt_tokens) const {
  const auto row = static_cast<int>(BucketOf(rows, kRowBuckets));
  const auto token = static_cast<int>(BucketOf(prompt_tokens, kTokenBuckets));
  double nearest = 0.0;
  int least = std::numeric_limits<int>::max();
  for (int r = 0; r < static_cast<int>(kRowBuckets); ++r) {
    for (int t = 0; t < static_cast<int>(kTokenBuckets); ++t) {
      const double time = times_[static_cast<size_t>(r)][static_cast<size_t>(t)];
      const int distance = std::abs(r - row) + std::abs(t - token);
      if (time > 0.0 && distance < least) {
        least = distance;
        nearest = time;
      }
    }
  }
  return ToDuration(nearest);
}

void StaticPadding::Begin(std::span<const core::Sequence* const> members) {
  shorter_.clear();
  int32_t longest = 0;
  for (const core::Sequence* member : members) longest = std::max(longest, member->num_ids());
  for (const core::Sequence* member : members) {
    if (member->num_ids() < longest) shorter_.push_back({member->num_ids(), longest});
  }
}

void StaticPadding::Add(int32_t tokens, int32_t items, int32_t ended, int32_t longest,
                        SchedulerOutput* output) {
  const auto add = [&](int32_t start, int32_t count, bool sample) {
    output->padding.push_back({start, count, sample});
    output->num_padding_tokens += count;
    tokens -= count;
    --items;
  };
  while (!shorter_.empty() && tokens > 0 && items > 0) {
    Shorter& last = shorter_.back();
    const int32_t count = std::min(tokens, last.end - last.next);
    add(last.next, count, false);
    last.next += count;
    if (last.next == last.end) shorter_.pop_back();
  }
  if (longest == 0) return;
  for (int32_t i = 0; i < ended && tokens > 0 && items > 0; ++i) add(longest - 1, 1, true);
}

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
  if (!urgent_joins_) {
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
  if (!pads_) return false;
  return padding_.prefilling() ||
         std::any_of(running.begin(), running.end(), [this](const core::Sequence* s) {
           return s->sched.batch.number == running_ && s->state == core::SequenceState::kPrefilling;
         });
}

bool Batches::MayJoin(const core::Sequence& sequence, Sequences running, int limit) const {
  if (!urgent_joins_ || running_ == 0) return false;
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
  if (!pads_ || running_ == 0) return;
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
  if (pads_) padding_.Begin(step.started);
}

}  // namespace ropeway::scheduler
