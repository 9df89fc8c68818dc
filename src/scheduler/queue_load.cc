#include "scheduler/queue_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "policy/scheduling_policy.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {
namespace {

constexpr double kNeverEnds = std::numeric_limits<double>::infinity();

// Halvings of an interval; it ends before, once the interval is this part of its bound.
constexpr int kHalvings = 40;
constexpr double kPrecision = 1e-4;

size_t ClassIndex(Priority priority) { return static_cast<size_t>(priority); }

}  // namespace

// --- Pace.

void Pace::OnStep(const Work& work, base::Duration took) {
  const double seconds = base::ToSeconds(took);
  if (seconds <= 0.0 || work.prompt + work.output <= 0.0) return;
  if (known() && seconds > kOutlier * Seconds(work)) {
    if (++outliers_ < kMaxOutliers) return;
    sums_ = {};
  }
  outliers_ = 0;
  busy_seconds_ += seconds;
  const double keep = std::exp(-seconds / kSeconds);
  sums_.pp = keep * sums_.pp + work.prompt * work.prompt;
  sums_.po = keep * sums_.po + work.prompt * work.output;
  sums_.oo = keep * sums_.oo + work.output * work.output;
  sums_.pt = keep * sums_.pt + work.prompt * seconds;
  sums_.ot = keep * sums_.ot + work.output * seconds;
  Fit();
}

// Minimises the squared errors of the steps plus prior x (output_seconds - ratio x
// prompt_seconds)^2.
void Pace::Fit() {
  const double prior = kPrior * (sums_.pp / (ratio_ * ratio_) + sums_.oo);
  const double pp = sums_.pp + prior * ratio_ * ratio_;
  const double po = sums_.po - prior * ratio_;
  const double oo = sums_.oo + prior;
  const double determinant = pp * oo - po * po;
  if (determinant > 0.0) {
    prompt_seconds_ = (sums_.pt * oo - sums_.ot * po) / determinant;
    output_seconds_ = (sums_.ot * pp - sums_.pt * po) / determinant;
    if (prompt_seconds_ > 0.0 && output_seconds_ > 0.0) return;
  }
  // Noise has made one of them negative: the steps are too alike to tell the two apart.
  prompt_seconds_ = (sums_.pt + ratio_ * sums_.ot) /
                    (sums_.pp + 2.0 * ratio_ * sums_.po + ratio_ * ratio_ * sums_.oo);
  output_seconds_ = ratio_ * prompt_seconds_;
}

// --- LoadView.

struct LoadView::Ahead {
  WaitingWork all;        // The class and the higher ones.
  WaitingWork its_class;  // The class only.
  WaitingWork own;        // The asker's tenant in the class.
  double higher = 0.0;    // Seconds of the higher classes' work.
  double weights = 0.0;   // Sum over all tenants with work in the class, and the asker.
  int class_running = 0;  // Sequences of the class that run.
  int own_running = 0;    // Sequences of the class and the asker's tenant that run.
  size_t tenant = kNobody;
};

size_t LoadView::Find(std::string_view tenant) const {
  const auto sorted_end = tenants_.begin() + static_cast<std::ptrdiff_t>(num_sorted_);
  const auto found =
      std::lower_bound(tenants_.begin(), sorted_end, tenant,
                       [](const Tenant& one, std::string_view name) { return one.name < name; });
  if (found != sorted_end && found->name == tenant) {
    return static_cast<size_t>(found - tenants_.begin());
  }
  for (size_t i = num_sorted_; i < tenants_.size(); ++i) {
    if (tenants_[i].name == tenant) return i;
  }
  return kNobody;
}

bool LoadView::Runs(size_t tenant) const {
  const std::array<int, kNumPriorities>& running = tenants_[tenant].running;
  return std::any_of(running.begin(), running.end(), [](int count) { return count > 0; });
}

void LoadView::Book(std::string_view tenant, double weight, Priority priority,
                    const WaitingWork& work) {
  size_t index = Find(tenant);
  if (index == kNobody) {
    index = tenants_.size();
    Tenant added;
    added.name = tenant;
    added.weight = weight;
    tenants_.push_back(std::move(added));
  }
  tenants_[index].booked[ClassIndex(priority)] += work;
}

WaitingWork LoadView::WorkOf(const Tenant& tenant, size_t its_class, bool own,
                             const Counted& which) const {
  WaitingWork work = tenant.waiting[its_class];
  if (own && which.own != nullptr) {
    work += *which.own;
  } else if (which.booked) {
    work += tenant.booked[its_class];
  }
  return work;
}

LoadView::Ahead LoadView::LookAhead(const Asker* asker, Priority priority,
                                    const Counted& which) const {
  Ahead ahead;
  if (asker != nullptr) {
    ahead.tenant = Find(asker->tenant);
    ahead.weights = asker->weight;
  }
  for (size_t t = 0; t < tenants_.size(); ++t) {
    const Tenant& tenant = tenants_[t];
    bool active = false;
    for (size_t c = 0; c < kNumPriorities; ++c) {
      if (options_.has_classes && c > ClassIndex(priority)) continue;
      const bool same = !options_.has_classes || c == ClassIndex(priority);
      const WaitingWork work =
          WorkOf(tenant, c, t == ahead.tenant && c == ClassIndex(priority), which);
      ahead.all += work;
      if (!same) {
        ahead.higher += work.seconds;
        continue;
      }
      ahead.its_class += work;
      ahead.class_running += tenant.running[c];
      if (t == ahead.tenant) {
        ahead.own += work;
        ahead.own_running += tenant.running[c];
      }
      active = active || work.count > 0 || tenant.running[c] > 0;
    }
    if (active && t != ahead.tenant) ahead.weights += tenant.weight;
  }
  return ahead;
}

double LoadView::PartOf(Priority priority) const {
  const size_t its = ClassIndex(priority);
  double active = 0.0;
  for (size_t c = 0; c < kNumPriorities; ++c) {
    const bool has_work = std::any_of(tenants_.begin(), tenants_.end(), [c](const Tenant& tenant) {
      return tenant.waiting[c].count + tenant.booked[c].count + tenant.running[c] > 0;
    });
    if (has_work || c == its) active += options_.parts[c];
  }
  return active > 0.0 ? options_.parts[its] / active : 0.0;
}

int LoadView::SlotsOf(double part, int slots) {
  // Not one less for a product that is rounded down.
  return std::max(1, static_cast<int>(part * slots + 1e-9));
}

double LoadView::UntilTurn(const Ahead& ahead, const Asker& asker) const {
  double steps = kNeverEnds;
  for (size_t t = 0; t < tenants_.size(); ++t) {
    const Tenant& tenant = tenants_[t];
    int running = 0;
    for (size_t c = 0; c < kNumPriorities; ++c) {
      if (!options_.has_classes || c == ClassIndex(asker.priority)) running += tenant.running[c];
    }
    const bool more = running * asker.weight > ahead.own_running * tenant.weight;
    if (t == ahead.tenant || !more) continue;
    // One that keeps another slot gives one at once to a tenant without any.
    if (ahead.own_running == 0 && ahead.own.count == 0 && running > 1) return step_seconds_;
    // Until it has had a quantum more service than the one that waits.
    steps = std::min(steps, kMinRunSteps + policy::kQuantumSteps * tenant.weight / running);
  }
  return steps < kNeverEnds ? steps * step_seconds_ : kNeverEnds;
}

double LoadView::UntilKeptPlace(const Asker& asker, const Counted& which) const {
  const size_t tenant = Find(asker.tenant);
  WaitingWork before;  // Its tenant's own, of its class and the higher ones.
  int running = 0;
  int newcomers = 0;  // Other tenants that wait for such a place, or were told when to come again.
  for (size_t t = 0; t < tenants_.size(); ++t) {
    WaitingWork waiting;
    int its_running = 0;
    for (size_t c = 0; c < kNumPriorities; ++c) {
      its_running += tenants_[t].running[c];
      if (t != tenant) {
        waiting += WorkOf(tenants_[t], c, false, which);
      } else if (!options_.has_classes || c <= ClassIndex(asker.priority)) {
        before += WorkOf(tenants_[t], c, c == ClassIndex(asker.priority), which);
      }
    }
    if (t == tenant) {
      running = its_running;
    } else if (its_running == 0 && waiting.count > 0) {
      ++newcomers;
    }
  }
  const auto sharing = static_cast<double>(std::max<size_t>(1, running_.size()));
  // One after the other: each is a newcomer again when the one before it has ended.
  const double own =
      sharing * SlotTime(before, 1, [&](const Running& one) { return one.tenant == tenant; });
  if (running > 0) return own;
  // Any end frees such a place.
  const int ends = newcomers + 1 - newcomers_.free;
  if (ends <= 0) return own;
  if (ends > static_cast<int>(running_.size())) return kNeverEnds;  // Not told by what runs.
  std::vector<double> left;
  left.reserve(running_.size());
  for (const Running& one : running_) left.push_back(one.seconds);
  std::nth_element(left.begin(), left.begin() + (ends - 1), left.end());
  return sharing * left[static_cast<size_t>(ends - 1)] + own;
}

template <typename Counts>
double LoadView::SlotTime(const WaitingWork& waiting, int slots, Counts counts) const {
  int running = 0;
  double longest = 0.0;
  for (const Running& one : running_) {
    if (!counts(one)) continue;
    ++running;
    longest = std::max(longest, one.seconds);
  }
  if (running + waiting.count < slots) return 0.0;
  // All that wait count as equally long. The first take the free slots at once, each end starts the
  // next one, and the slots share the machine: `time` is what each of them has had.
  const double each = waiting.count > 0 ? waiting.seconds / waiting.count : kNeverEnds;
  const int at_once = std::clamp(slots - running, 0, waiting.count);
  const double needed = std::max(running - slots, 0) + waiting.count - at_once + 1;
  const auto ends = [&](double time) {
    double count = at_once > 0 ? at_once * std::floor(time / each) : 0.0;
    for (const Running& one : running_) {
      if (!counts(one) || one.seconds > time) continue;
      count += 1.0 + std::floor((time - one.seconds) / each);
    }
    return count;
  };
  double low = 0.0;
  double high = longest + (waiting.count > 0 ? each * needed : 0.0);
  for (int i = 0; i < kHalvings && high - low > kPrecision * high; ++i) {
    const double middle = (low + high) / 2.0;
    (ends(middle) >= needed ? high : low) = middle;
  }
  return high;
}

template <typename Counts>
double LoadView::UntilStart(const WaitingWork& waiting, int slots, Counts counts) const {
  const auto running = std::count_if(running_.begin(), running_.end(), counts);
  return std::max(static_cast<int>(running), slots) * SlotTime(waiting, slots, counts);
}

double LoadView::Predict(const Asker* asker, Priority priority, const Counted& which) const {
  if (!known()) return 0.0;
  const auto same_class = [&](const Running& one) {
    return !options_.has_classes || one.priority == priority;
  };
  // A lower class gives way, where it can.
  const auto stays = [&](const Running& one) {
    return !options_.has_classes || !options_.preempts || one.priority <= priority;
  };
  Ahead ahead = LookAhead(asker, priority, which);
  const bool has_tenants = asker != nullptr && options_.has_tenants;
  // Whose tenant runs something is no newcomer, and waits longest.
  const bool is_newcomer = has_tenants && (ahead.tenant == kNobody || !Runs(ahead.tenant));
  const int slots = is_newcomer ? slots_ : slots_ - newcomers_.slots;
  double wait = UntilStart(ahead.all, slots, stays);
  if (wait <= 0.0) return 0.0;
  if (has_tenants && newcomers_.kept) {
    const double kept = UntilKeptPlace(*asker, which);
    // Nothing is before it but other newcomers, which the rest does not tell from its own share.
    if (is_newcomer && ahead.own.count == 0) return std::min(wait, kept);
    wait = std::min(wait, kept);
  }
  // A tenant that has all slots of its part gets another when one of its own sequences ends.
  const double first_slot = UntilStart({}, slots, stays);
  double part = 1.0;
  if (options_.has_classes && options_.parts[ClassIndex(priority)] > 0.0) {
    part = PartOf(priority);
    const double slot = ahead.class_running < SlotsOf(part, slots) ? first_slot : 0.0;
    wait =
        std::min(wait, slot + UntilStart(ahead.its_class, SlotsOf(part, slots), same_class) / part);
    ahead.higher = 0.0;  // Whatever they have to do, the class has its part.
  }
  if (!has_tenants) return wait;
  double slot = first_slot;
  if (options_.preempts) slot = std::min(slot, UntilTurn(ahead, *asker));
  part *= asker->weight / ahead.weights;
  if (ahead.own_running >= SlotsOf(part, slots)) slot = 0.0;
  const auto own = [&](const Running& one) {
    return one.tenant == ahead.tenant && same_class(one);
  };
  return std::min(wait,
                  ahead.higher + slot + UntilStart(ahead.own, SlotsOf(part, slots), own) / part);
}

double LoadView::SecondsToEnd(std::string_view tenant) const {
  const size_t index = Find(tenant);
  if (!known() || index == kNobody) return 0.0;
  double first = kNeverEnds;
  double own_first = kNeverEnds;
  for (const Running& one : running_) {
    first = std::min(first, one.seconds);
    if (one.tenant == index) own_first = std::min(own_first, one.seconds);
  }
  const double sharing = std::max(1.0, static_cast<double>(running_.size()));
  if (own_first < kNeverEnds) return own_first * sharing;
  WaitingWork waiting;
  for (const WaitingWork& work : tenants_[index].waiting) waiting += work;
  if (waiting.count == 0) return 0.0;
  if (running_.empty()) first = 0.0;
  return (first + waiting.seconds / waiting.count) * sharing;
}

// --- QueueLoad.

void QueueLoad::Add(const core::Job& job) {
  Tenant& tenant = tenants_[job.request.tenant];
  ++tenant.jobs;
  tenant.weight = job.request.tenant_weight;
}

void QueueLoad::Remove(const core::Job& job) {
  const auto found = tenants_.find(job.request.tenant);
  if (--found->second.jobs == 0) tenants_.erase(found);
}

QueueLoad::Queued* QueueLoad::QueuedOf(const core::Job& job) {
  Tenant& tenant = tenants_.find(job.request.tenant)->second;
  return &tenant.queued[ClassIndex(job.request.priority)];
}

void QueueLoad::Enter(core::Job* job) {
  const Work work = WorkOf(*job);
  job->sched.queued_prompt_cost = work.prompt;
  job->sched.queued_output_cost = work.output;
  job->sched.queued_sampling = work.sampling;
  Queued* const queued = QueuedOf(*job);
  queued->work += work;
  ++queued->count;
  tokens_ += job->num_ids();
}

void QueueLoad::Leave(core::Job* job) {
  Queued* const queued = QueuedOf(*job);
  queued->work -= Work{job->sched.queued_prompt_cost, job->sched.queued_output_cost,
                       job->sched.queued_sampling};
  if (--queued->count == 0) queued->work = {};  // Drop what rounding has left.
  tokens_ -= job->num_ids();
}

void QueueLoad::OnFinished(const core::Job& job) {
  // A length that was prescribed tells nothing about others.
  if (policy::OutputPredictor::RunsToItsLimit(job.request)) return;
  predictor_.Learn(job.request.max_tokens, job.generated());
}

int32_t QueueLoad::OutputsOf(const core::Job& job, int32_t generated) const {
  const int32_t left = std::max(0, job.request.max_tokens - generated);
  return std::max(predictor_.Remaining(job.request, generated),
                  std::min(job.min_tokens - generated, left));
}

Work QueueLoad::WorkOf(const core::Job& job) const {
  const int32_t computed = job.running() ? job.computed : job.sched.cached_hint;
  const int32_t ids = std::max(0, job.num_ids() - computed);
  const int32_t outputs = OutputsOf(job, job.generated());
  const double known = costs_->step().Cost(computed, ids);
  const double coming = costs_->step().Cost(job.num_ids(), outputs);
  const double sampling = outputs * costs_->sampling().Sampling(job);
  // A decode's last id is computed with the step that generates the next one.
  if (job.state == core::SequenceState::kDecoding) return {0.0, known + coming, sampling};
  return {known, coming, sampling};
}

void QueueLoad::View(const Running& running, LoadView* view) const {
  view->options_ = options_;
  view->pace_ = pace_;
  view->slots_ = std::max(1, running.slots);
  view->step_seconds_ = running.step_seconds;
  view->newcomers_ = running.newcomers;
  view->running_.clear();
  view->tenants_.resize(tenants_.size());
  view->num_sorted_ = tenants_.size();
  size_t next = 0;
  for (const auto& [name, tenant] : tenants_) {
    LoadView::Tenant& its = view->tenants_[next++];
    its.name = name;
    its.weight = tenant.weight;
    its.booked = {};
    its.running = {};
    for (size_t c = 0; c < kNumPriorities; ++c) {
      its.waiting[c] = {tenant.queued[c].count, pace_.Seconds(tenant.queued[c].work)};
    }
  }
  view->running_.reserve(running.jobs.size());
  for (const core::Job& job : running.jobs) {
    const Priority priority = job.request.priority;
    const size_t tenant = view->Find(job.request.tenant);
    ++view->tenants_[tenant].running[ClassIndex(priority)];
    view->running_.push_back({pace_.Seconds(WorkOf(job)), tenant, priority});
  }
}

}  // namespace ropeway::scheduler
