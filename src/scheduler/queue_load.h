// The waiting and the running work of each tenant, and the waits that follow from it.
#ifndef ROPEWAY_SCHEDULER_QUEUE_LOAD_H_
#define ROPEWAY_SCHEDULER_QUEUE_LOAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/device_profile.h"
#include "core/job.h"
#include "policy/output_predictor.h"
#include "policy/scheduling_policy.h"
#include "ropeway/request.h"
#include "scheduler/cost_model.h"

namespace ropeway::scheduler {

// How long work takes. A busy step takes
//
//     a x cost of its prompts' chunks + b x cost of its decodes
//
// by least squares over the busy steps, with exponential forgetting. A decode of a few dozen rows
// is bound by memory and a large chunk is not, so b is some times a: one speed for both, measured
// while a burst's prompts are computed, promises waits that are some times too short. While steps
// of one kind only were seen, the other follows by `decode_ratio`.
//
// Thread rule: the scheduler's.
class Pace {
 public:
  // The weight of the ratio against the steps. It decides only what these leave open.
  static constexpr double kPrior = 0.001;
  static constexpr double kSeconds = 10.0;  // Busy time that counts.
  // Nothing is known before so much busy time: the first steps of a burst are small and cold.
  static constexpr double kEvidence = 0.5;
  // A step that took so many times what was expected is left out, unless kMaxOutliers of them come
  // in a row: that is a change of the machine, and all begins anew.
  static constexpr double kOutlier = 8.0;
  static constexpr int kMaxOutliers = 8;

  // `decode_ratio`: b / a of the device, about (core::DeviceProfile); above 0.
  explicit Pace(double decode_ratio = core::DeviceProfile{}.decode_ratio) : ratio_(decode_ratio) {}

  // `took`: without sampling.
  void OnStep(const Work& work, base::Duration took);

  bool known() const { return busy_seconds_ >= kEvidence; }
  double Seconds(const Work& work) const {
    return prompt_seconds_ * work.prompt + output_seconds_ * work.output + work.sampling;
  }

 private:
  // Weighted sums over the steps; p, o: cost of the prompts and of the decodes, t: seconds.
  struct Sums {
    double pp = 0.0, po = 0.0, oo = 0.0, pt = 0.0, ot = 0.0;
  };

  void Fit();

  double ratio_;
  Sums sums_;
  double busy_seconds_ = 0.0;
  double prompt_seconds_ = 0.0;  // Per unit of cost.
  double output_seconds_ = 0.0;
  int outliers_ = 0;
};

// What decides which requests go before others.
struct LoadOptions {
  bool has_classes = false;  // A higher class goes first, within its part if there are parts.
  bool has_tenants = false;  // Tenants (of a class) have shares by their weights.
  bool preempts = false;     // A sequence of the queue may take a running one's slot.
  policy::ClassParts parts{};

  static LoadOptions Of(const policy::SchedulingPolicy& policy, bool preempts) {
    return {policy.has_classes(), policy.is_fair(), preempts, policy.class_parts()};
  }
};

// Waiting sequences, and the time that they would take alone.
struct WaitingWork {
  int count = 0;
  double seconds = 0.0;

  WaitingWork& operator+=(const WaitingWork& other) {
    count += other.count;
    seconds += other.seconds;
    return *this;
  }
};

// Places that are kept for newcomers: tenants without running sequences.
struct NewcomerPlaces {
  bool kept = false;  // There are some.
  int slots = 0;      // Slots that a tenant gets only as a newcomer.
  int free = 0;       // Places that newcomers may take now, within the slots or beyond.
};

// The load at one moment, and what it predicts: a plain value, for any thread.
//
// A predicted wait is the time until a request that comes now has a slot. It is the least of
//
//   - what all that goes before it takes: every tenant's work of its class and the higher ones;
//   - what its class's work takes with the class's part of slots and time alone;
//   - what its tenant's work takes with the tenant's part of that, by the weights of the tenants
//     that have work in the class, and until one that holds more gives it a slot.
//   - where places are kept for newcomers: the time to the next one of these, and until what its
//     tenant has before it has gone through that one place.
//
// So another tenant's backlog does not delay a tenant below its own share, and the request's own
// work is no part of its wait. Slots share the machine's time evenly: the running sequences end in
// the order of the work that they have left, and each end starts the next one of the queue.
class LoadView {
 public:
  // The request whose wait is asked for.
  struct Asker {
    std::string_view tenant;
    double weight = 1.0;
    Priority priority = Priority::kMedium;
  };

  // Adds work that is not queued and that no other request is to overtake: rejected requests that
  // were told when to come again. Throws std::bad_alloc.
  void Book(std::string_view tenant, double weight, Priority priority, const WaitingWork& work);

  // The predicted wait in seconds; 0 while no pace is measured.
  double Wait(const Asker& asker) const { return Predict(&asker, asker.priority, {true, nullptr}); }
  // The wait if nothing but `own` were booked of its tenant and class.
  double Wait(const Asker& asker, const WaitingWork& own) const {
    return Predict(&asker, asker.priority, {true, &own});
  }
  // The wait if nothing at all were booked.
  double WaitUnbooked(const Asker& asker) const {
    return Predict(&asker, asker.priority, {false, nullptr});
  }
  // The wait of the tenant that would wait longest.
  double LongestWait(Priority priority) const {
    return Predict(nullptr, priority, {true, nullptr});
  }

  // The predicted time until the first of the tenant's requests ends; 0: it has none, or no pace is
  // measured.
  double SecondsToEnd(std::string_view tenant) const;

  double Seconds(const Work& work) const { return pace_.Seconds(work); }
  bool known() const { return pace_.known(); }

 private:
  friend class QueueLoad;
  static constexpr size_t kNobody = static_cast<size_t>(-1);

  struct Tenant {
    std::string name;
    double weight = 1.0;
    std::array<WaitingWork, kNumPriorities> waiting;
    std::array<WaitingWork, kNumPriorities> booked;
    std::array<int, kNumPriorities> running{};
  };
  struct Running {
    double seconds = 0.0;  // The work that is left, if it had the machine alone.
    size_t tenant = 0;
    Priority priority = Priority::kMedium;
  };
  // Which booked work counts.
  struct Counted {
    bool booked = true;
    const WaitingWork* own =
        nullptr;  // The asker's tenant and class only, instead of all; or null.
  };
  // What a wait is predicted from, for one asker.
  struct Ahead;

  size_t Find(std::string_view tenant) const;
  bool Runs(size_t tenant) const;
  WaitingWork WorkOf(const Tenant& tenant, size_t its_class, bool own, const Counted& which) const;
  Ahead LookAhead(const Asker* asker, Priority priority, const Counted& which) const;
  double Predict(const Asker* asker, Priority priority, const Counted& which) const;
  // The class's guaranteed part, of those that have work.
  double PartOf(Priority priority) const;
  // At least one.
  static int SlotsOf(double part, int slots);
  // Seconds until a tenant of the class that holds more gives a slot in turn (Scheduler);
  // infinite: none does.
  double UntilTurn(const Ahead& ahead, const Asker& asker) const;
  // Seconds until a place that is kept for newcomers is the tenant's. REQUIRES: some are kept.
  double UntilKeptPlace(const Asker& asker, const Counted& which) const;
  // The time that each of `slots` has had when one is free for one more sequence, after `waiting`
  // have had theirs. Of the running sequences those count for which `counts` is true.
  template <typename Counts>
  double SlotTime(const WaitingWork& waiting, int slots, Counts counts) const;
  // The machine's time until then.
  template <typename Counts>
  double UntilStart(const WaitingWork& waiting, int slots, Counts counts) const;

  LoadOptions options_;
  Pace pace_;
  int slots_ = 1;
  double step_seconds_ = 0.0;  // Of a step, about.
  NewcomerPlaces newcomers_;
  std::vector<Tenant> tenants_;  // Sorted by name, except for those that Book has added.
  size_t num_sorted_ = 0;
  std::vector<Running> running_;
};

// The waiting work in units of cost, by tenant and class. Outputs are predicted from completed
// requests; one that ignores end tokens generates all that it may.
//
// Thread rule: the scheduler's.
class QueueLoad {
 public:
  // `decode_ratio`: see Pace.
  QueueLoad(const CostModel* costs, const LoadOptions& options,
            double decode_ratio = core::DeviceProfile{}.decode_ratio)
      : costs_(costs), options_(options), pace_(decode_ratio) {}

  // The job came; throws std::bad_alloc with nothing changed.
  void Add(const core::Job& job);
  // It ended. REQUIRES: it has left the queue.
  void Remove(const core::Job& job);

  // REQUIRES: it was added.
  void Enter(core::Job* job);
  void Leave(core::Job* job);

  void OnFinished(const core::Job& job);
  // A busy step.
  void OnStep(const Work& work, base::Duration took) { pace_.OnStep(work, took); }

  // Ids of all waiting jobs together.
  int64_t tokens() const { return tokens_; }

  // The predicted work that is left for the job.
  Work WorkOf(const core::Job& job) const;
  // The tokens that it is predicted to generate, once it has so many.
  int32_t OutputsOf(const core::Job& job, int32_t generated) const;

  // What runs.
  struct Running {
    core::Jobs jobs;
    int slots = 1;              // How many may run at once.
    double step_seconds = 0.0;  // Of a step, about.
    NewcomerPlaces newcomers = {};
  };
  // Fills in `view`. Throws std::bad_alloc.
  void View(const Running& running, LoadView* view) const;

 private:
  // For the jobs in the queue.
  struct Queued {
    int count = 0;
    Work work;
  };
  struct Tenant {
    int jobs = 0;  // In the queue and running.
    double weight = 1.0;
    std::array<Queued, kNumPriorities> queued;
  };

  Queued* QueuedOf(const core::Job& job);

  const CostModel* const costs_;
  const LoadOptions options_;
  Pace pace_;
  policy::OutputPredictor predictor_;
  std::map<std::string, Tenant, std::less<>> tenants_;  // Those that have a job.
  int64_t tokens_ = 0;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_QUEUE_LOAD_H_
