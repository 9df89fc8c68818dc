#include "gateway_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/random.h"
#include "policy/policies.h"

namespace ropeway::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Load = GatewaySetup::Load;

constexpr std::array<std::pair<GatewayPlant, const char*>, 17> kPlantNames = {{
    {GatewayPlant::kNone, "none"},
    {GatewayPlant::kLost, "lost"},
    {GatewayPlant::kDouble, "double"},
    {GatewayPlant::kBudgetIgnored, "budget_ignored"},
    {GatewayPlant::kPlaceLeaked, "place_leaked"},
    {GatewayPlant::kOverfull, "overfull"},
    {GatewayPlant::kClassStarved, "class_starved"},
    {GatewayPlant::kShareIgnored, "share_ignored"},
    {GatewayPlant::kTenantUncharged, "tenant_uncharged"},
    {GatewayPlant::kPlaceNotKept, "place_not_kept"},
    {GatewayPlant::kRetryAfterByte, "retry_after_byte"},
    {GatewayPlant::kDeadGetsRequests, "dead_gets_requests"},
    {GatewayPlant::kHoldForever, "hold_forever"},
    {GatewayPlant::kOtherModel, "other_model"},
    {GatewayPlant::kDeadlineMissed, "deadline_missed"},
    {GatewayPlant::kGroupSplit, "group_split"},
    {GatewayPlant::kBatchForever, "batch_forever"},
}};

template <typename T>
T AnyOf(base::Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(values.size())];
}

// The policy as it is, except for what the plant forgets.
class PlantedOrder final : public policy::SchedulingPolicy {
 public:
  PlantedOrder(GatewayPlant plant, std::unique_ptr<policy::SchedulingPolicy> policy)
      : plant_(plant), policy_(std::move(policy)) {}

  const char* name() const override { return "planted"; }
  void BeginStep(const core::Jobs& queue, const core::Jobs& running, base::TimePoint now) override {
    policy_->BeginStep(queue, running, now);
    for (core::Job& job : queue) {
      if (IsStarved(job)) job.sched.aged = false;
    }
  }
  policy::Rank RankOf(const core::Job& job) const override {
    if (IsStarved(job)) return {{std::numeric_limits<int64_t>::max()}};
    policy::Rank rank = policy_->RankOf(job);
    if (plant_ == GatewayPlant::kShareIgnored) {
      rank.keys[0] = static_cast<int64_t>(job.request.priority);
    }
    return rank;
  }
  bool is_fair() const override { return policy_->is_fair(); }
  int64_t ServiceOf(const core::Job& job) const override { return policy_->ServiceOf(job); }
  bool has_classes() const override { return policy_->has_classes(); }
  policy::ClassParts class_parts() const override { return policy_->class_parts(); }
  int ClassOrderOf(const core::Job& job) const override { return policy_->ClassOrderOf(job); }
  void OnScheduled(const core::Job& job, const policy::ScheduledWork& work) override {
    const bool hostile = job.request.tenant == std::to_string(kHostileUser);
    if (plant_ == GatewayPlant::kTenantUncharged && hostile) return;
    policy_->OnScheduled(job, work);
  }
  void OnFinished(const core::Job& job, bool completed) override {
    policy_->OnFinished(job, completed);
  }

 private:
  bool IsStarved(const core::Job& job) const {
    return plant_ == GatewayPlant::kClassStarved && job.request.priority == Priority::kLow;
  }

  const GatewayPlant plant_;
  const std::unique_ptr<policy::SchedulingPolicy> policy_;
};

SimBackendSetup DrawBackend(base::Random& random) {
  SimBackendSetup backend;
  backend.slots = static_cast<int>(random.Between(1, 8));
  backend.line = AnyOf(random, {0, 2, 1000});
  backend.prompt_us = random.Between(10, 500);
  backend.output_us = random.Between(1000, 30000);
  backend.reports = random.Chance(0.4);
  backend.model = random.Chance(0.3) ? 1 : 0;
  backend.resumes = random.Chance(0.7);
  backend.preempts = backend.reports && backend.resumes;
  backend.shares = backend.preempts && random.Chance(0.5);
  if (random.Chance(0.3)) backend.breaks = AnyOf(random, {0.02, 0.2});
  if (random.Chance(0.7)) {
    backend.well = AnyOf<base::Duration>(random, {seconds(2), seconds(10), seconds(40)});
    backend.trouble = AnyOf<base::Duration>(random, {milliseconds(300), seconds(4), seconds(30)});
  }
  return backend;
}

void DrawDispatch(base::Random& random, GatewaySetup* setup) {
  gateway::DispatchOptions& options = setup->dispatch;
  options.queue.policy =
      AnyOf<const char*>(random, {"priority+fair", "priority+fair", "fcfs", "sjf", "fair",
                                  "priority", "length-balance", "cache-aware", "priority+sjf"});
  options.queue.strict_priority = random.Chance(0.2);
  options.queue.max_wait =
      AnyOf<milliseconds>(random, {milliseconds(200), seconds(5), seconds(30)});
  options.queue.max_queued_requests = AnyOf<int>(random, {4, 50, 1000});
  options.batching.dispatch = random.Chance(0.25) ? "batch" : "continuous";
  options.batching.enable_batching = random.Chance(0.9);
  options.batching.max_batch_size = static_cast<int>(random.Between(1, 10));
  options.batching.max_parallel_batches = static_cast<int>(random.Between(1, 3));
  options.failover.hold_timeout =
      AnyOf<milliseconds>(random, {seconds(0), seconds(3), seconds(20)});
  options.failover.idle_timeout = AnyOf<milliseconds>(random, {seconds(2), seconds(10)});
  options.failover.first_byte_timeout = AnyOf<milliseconds>(random, {seconds(5), seconds(60)});
  options.failover.max_retries = static_cast<int>(random.Between(0, 5));
  options.retries.part = AnyOf(random, {0.0, 0.1, 0.5});
  options.retries.per_second = AnyOf(random, {0.2, 1.0, 5.0});
  options.resume_wait = AnyOf<base::Duration>(random, {seconds(1), seconds(30)});
  options.affinity_wait = AnyOf<base::Duration>(random, {seconds(0), milliseconds(500)});
  options.rules.memory_control = random.Chance(0.2);
  options.rules.tenants = AnyOf(random, {1, 3});
}

// Nothing befalls anybody: what is measured is the order.
void MakeSteady(Load load, GatewaySetup* setup) {
  setup->load = load;
  const bool tenants = load == Load::kTenants || load == Load::kHostile;
  gateway::DispatchOptions options;
  options.failover.first_byte_timeout = options.failover.idle_timeout = {};
  options.queue.policy = tenants ? (setup->seed % 2 == 0 ? "fair" : "priority+fair")
                                 : (setup->seed % 2 == 0 ? "priority" : "priority+fair");
  options.queue.strict_priority = load == Load::kOverdue;
  options.queue.max_wait = load == Load::kOverdue ? milliseconds(5000) : std::chrono::hours(10);
  setup->dispatch = options;
  SimBackendSetup backend;
  backend.slots = 4;
  backend.line = 1000;
  backend.prompt_us = 100;
  backend.output_us = 8000;
  backend.reports = true;
  if (load == Load::kHostile) {
    setup->dispatch.queue.max_wait = seconds(30);
    setup->dispatch.rules.tenants = 2;
    backend.preempts = backend.shares = setup->seed % 2 == 0;
  }
  setup->backends.assign(setup->seed % 3 == 0 ? 1 : 2, backend);
  setup->duration = seconds(load == Load::kOverdue ? 40 : 60);
  setup->longest_prompt = 60;
  setup->longest_output = 60;
  setup->cancel_share = setup->deadline_share = setup->bad_share = setup->late_share = 0.0;
  setup->chat_share = setup->group_share = 0.0;
}

// What the plant needs to show.
void MakePlantable(GatewaySetup* setup) {
  gateway::DispatchOptions& options = setup->dispatch;
  switch (setup->plant) {
    case GatewayPlant::kClassStarved:
      return MakeSteady(Load::kOverdue, setup);
    case GatewayPlant::kShareIgnored:
      return MakeSteady(Load::kShares, setup);
    case GatewayPlant::kTenantUncharged:
      return MakeSteady(Load::kTenants, setup);
    case GatewayPlant::kPlaceNotKept:
      return MakeSteady(Load::kHostile, setup);
    case GatewayPlant::kBudgetIgnored:
      options.retries = {.part = 0.0, .per_second = 0.2};
      options.failover.max_retries = 5;
      for (SimBackendSetup& backend : setup->backends) backend.breaks = 0.5;
      return;
    case GatewayPlant::kHoldForever:
      setup->backends.resize(1);
      setup->backends[0].well = seconds(5);
      setup->backends[0].trouble = seconds(60);
      options.failover.hold_timeout = seconds(3);
      return;
    case GatewayPlant::kDeadGetsRequests:
      for (SimBackendSetup& backend : setup->backends) {
        backend.well = seconds(5);
        backend.trouble = seconds(60);
      }
      return;
    case GatewayPlant::kOtherModel:
      setup->backends.resize(std::max<size_t>(2, setup->backends.size()));
      for (size_t i = 0; i < setup->backends.size(); ++i) {
        setup->backends[i].model = static_cast<int>(i % 2);
        setup->backends[i].resumes = true;
        setup->backends[i].breaks = 0.3;
      }
      return;
    case GatewayPlant::kRetryAfterByte:
      for (SimBackendSetup& backend : setup->backends) backend.breaks = 0.3;
      options.failover.max_retries = 5;
      return;
    case GatewayPlant::kPlaceLeaked:
      setup->cancel_share = 0.5;
      return;
    case GatewayPlant::kDeadlineMissed:
      setup->deadline_share = 0.8;
      return;
    case GatewayPlant::kGroupSplit:
      setup->group_share = 0.5;
      setup->mean_gap_us = 5000;
      options.queue.max_queued_requests = 4;
      return;
    case GatewayPlant::kBatchForever:
      setup->mean_gap_us = 300'000;
      options.batching.dispatch = "batch";
      options.batching.enable_batching = true;
      options.batching.max_batch_size = 10;
      for (SimBackendSetup& backend : setup->backends) {
        backend.slots = 8;
        backend.reports = true;
        backend.breaks = 0.0;
        backend.well = backend.trouble = {};
      }
      return;
    default:
      return;
  }
}

GatewayRequest DrawRequest(const GatewaySetup& setup, int index, int user) {
  base::SeededRandom random(
      base::Mix64(base::Mix64(setup.seed, 103), static_cast<uint64_t>(index)));
  GatewayRequest made;
  gateway::DispatchRequest& request = made.request;
  auto prompt = static_cast<size_t>(random.Between(1, setup.longest_prompt));
  made.length = static_cast<int32_t>(random.Between(1, setup.longest_output));
  made.text = random.Next64();
  request.priority = static_cast<Priority>(random.Below(kNumPriorities));
  request.tenant = std::to_string(random.Below(3));
  request.tenant_weight = AnyOf(random, {1.0, 1.0, 4.0});
  request.ignore_eos = random.Chance(0.3);
  made.bad = random.Chance(setup.bad_share);
  if (random.Chance(setup.cancel_share)) {
    made.cancel_after = std::chrono::microseconds(random.Between(0, 4'000'000));
  }
  if (random.Chance(setup.deadline_share)) {
    made.deadline_after = std::chrono::microseconds(random.Between(1000, 8'000'000));
  }
  uint64_t dialogue = random.Next64();
  if (random.Chance(setup.chat_share)) dialogue = random.Below(8);
  if (setup.load != Load::kRandom) {
    request.tenant_weight = 1.0;
    request.tenant = "0";
    request.priority = Priority::kMedium;
    if (setup.load == Load::kShares) request.priority = static_cast<Priority>(user);
    if (setup.load == Load::kTenants) request.tenant = std::to_string(user);
    if (setup.load == Load::kHostile) {
      request.tenant = std::to_string(user);
      // No class helps it, where the backend does not let others wait for it by itself.
      const bool high = !setup.backends[0].preempts && user == kHostileUser;
      if (high) request.priority = Priority::kHigh;
      if (user == kHostileUser) made.length *= 40;
    }
    if (setup.load == Load::kOverdue)
      request.priority = user == 0 ? Priority::kHigh : Priority::kLow;
  }
  request.max_tokens = request.ignore_eos ? made.length : made.length + 20;
  request.prompt_tokens = static_cast<int32_t>(prompt);
  for (size_t i = 0; i < prompt / 16; ++i) {
    made.request.blocks.push_back(base::Mix64(base::Mix64(setup.seed, dialogue), i));
  }
  return made;
}

}  // namespace

const char* GatewayPlantName(GatewayPlant plant) {
  return kPlantNames[static_cast<size_t>(plant)].second;
}

std::string GatewayPlantNames() {
  std::string names;
  for (const auto& [plant, name] : kPlantNames)
    names += (names.empty() ? "" : " ") + std::string(name);
  return names;
}

std::optional<GatewayPlant> ParseGatewayPlant(std::string_view name) {
  for (const auto& [plant, its_name] : kPlantNames) {
    if (name == its_name) return plant;
  }
  return std::nullopt;
}

const char* TroubleName(Trouble trouble) {
  static constexpr const char* kNames[kNumTroubles] = {"none", "die",    "hang", "slow", "unready",
                                                       "busy", "broken", "liar", "drain"};
  return kNames[static_cast<size_t>(trouble)];
}

GatewaySetup MakeGatewaySetup(uint64_t seed, GatewayPlant plant) {
  GatewaySetup setup;
  setup.seed = seed;
  setup.plant = plant;
  base::SeededRandom random(base::Mix64(seed, 101));
  const auto backends = static_cast<size_t>(random.Between(1, 4));
  for (size_t i = 0; i < backends; ++i) setup.backends.push_back(DrawBackend(random));
  DrawDispatch(random, &setup);
  setup.num_requests = static_cast<int>(random.Between(40, 250));
  setup.mean_gap_us = AnyOf<int64_t>(random, {5000, 50000, 300000});
  setup.longest_prompt = AnyOf<int32_t>(random, {30, 400, 2000});
  setup.longest_output = AnyOf<int32_t>(random, {20, 100, 200});
  setup.cancel_share = AnyOf(random, {0.0, 0.1, 0.3});
  setup.deadline_share = AnyOf(random, {0.0, 0.2});
  setup.bad_share = AnyOf(random, {0.0, 0.05});
  setup.chat_share = AnyOf(random, {0.0, 0.7});
  setup.late_share = 0.3;
  setup.group_share = seed % 3 == 1 ? 0.3 : 0.0;
  if (plant == GatewayPlant::kNone) {
    if (seed % 16 == 5) MakeSteady(Load::kShares, &setup);
    if (seed % 16 == 9) MakeSteady(Load::kTenants, &setup);
    if (seed % 16 == 13) MakeSteady(Load::kOverdue, &setup);
    if (seed % 16 == 1 || seed % 16 == 2) MakeSteady(Load::kHostile, &setup);
  }
  MakePlantable(&setup);
  for (size_t i = 0; i < setup.backends.size(); ++i) {
    BackendOptions replica;
    replica.name = fmt::format("b{}", i);
    // A half of those that do not report have a number set.
    const bool steady = setup.load != Load::kRandom;
    if (!steady && !setup.backends[i].reports && random.Chance(0.5)) {
      replica.max_concurrency = static_cast<int>(random.Between(1, 10));
    }
    if (!steady) replica.weight = AnyOf(random, {1.0, 1.0, 3.0});
    setup.dispatch.replicas.push_back(replica);
  }
  setup.dispatch.rules.table_entries = 1 << 12;
  return setup;
}

gateway::DispatchOptions PlantedOptions(const GatewaySetup& setup) {
  gateway::DispatchOptions options = setup.dispatch;
  if (setup.plant == GatewayPlant::kBudgetIgnored) options.retries.per_second = 1000.0;
  if (setup.plant == GatewayPlant::kHoldForever) {
    options.failover.hold_timeout = std::chrono::hours(100);
  }
  if (setup.plant == GatewayPlant::kBatchForever) {
    options.batching.max_batch_wait = std::chrono::hours(100);
  }
  if (setup.plant == GatewayPlant::kPlaceNotKept) options.rules.tenants = 1;
  if (setup.plant == GatewayPlant::kOverfull) {
    for (size_t i = 0; i < options.replicas.size(); ++i) {
      BackendOptions& replica = options.replicas[i];
      const int bound = setup.backends[i].reports ? setup.backends[i].slots : 256;
      replica.max_concurrency = (replica.max_concurrency > 0 ? replica.max_concurrency : bound) + 1;
    }
  }
  return options;
}

std::unique_ptr<policy::SchedulingPolicy> MakePlantedPolicy(const GatewaySetup& setup) {
  return std::make_unique<PlantedOrder>(setup.plant, *policy::MakePolicy(setup.dispatch.queue));
}

std::string Describe(const GatewaySetup& setup) {
  const gateway::DispatchOptions& o = setup.dispatch;
  static constexpr const char* kLoads[] = {"random", "shares", "tenants", "overdue", "hostile"};
  const auto ms = [](base::Duration time) {
    return std::chrono::duration_cast<milliseconds>(time).count();
  };
  std::string line = fmt::format(
      "load {}, policy {}{}, {} tenants, max_wait {} ms, {}, hold {} ms, idle {} ms, first byte {} "
      "ms, retries "
      "{} "
      "({}, {}/s), resume_wait {} ms, {} requests every {} us, prompts to {}, outputs to {};",
      kLoads[static_cast<size_t>(setup.load)], o.queue.policy,
      o.queue.strict_priority ? " strict" : "", o.rules.tenants, ms(o.queue.max_wait),
      !o.batching.enable_batching ? std::string("serial")
      : o.in_batches() ? fmt::format("batches of {}, {} at once", o.batching.max_batch_size,
                                     o.batching.max_parallel_batches)
                       : std::string("continuous"),
      ms(o.failover.hold_timeout), ms(o.failover.idle_timeout), ms(o.failover.first_byte_timeout),
      o.failover.max_retries, o.retries.part, o.retries.per_second, ms(o.resume_wait),
      setup.num_requests, setup.mean_gap_us, setup.longest_prompt, setup.longest_output);
  for (size_t i = 0; i < setup.backends.size(); ++i) {
    const SimBackendSetup& b = setup.backends[i];
    line += fmt::format(
        " [{} slots, {} in line, {} us, model {}{}{}{}, max {}, breaks {}, well {} ms]", b.slots,
        b.line, b.output_us, b.model, b.reports ? ", reports" : "", b.resumes ? ", resumes" : "",
        b.preempts ? (b.shares ? ", preempts, shares" : ", preempts") : "",
        o.replicas[i].max_concurrency, b.breaks, ms(b.well));
  }
  return line;
}

std::vector<GatewayRequest> MakeGatewayRequests(const GatewaySetup& setup, int index, int user) {
  std::vector<GatewayRequest> made;
  made.push_back(DrawRequest(setup, index, user));
  base::SeededRandom random(
      base::Mix64(base::Mix64(setup.seed, 104), static_cast<uint64_t>(index)));
  if (!random.Chance(setup.group_share)) return made;
  const auto answers = static_cast<size_t>(random.Between(2, 5));
  while (made.size() < answers) {
    GatewayRequest next = made.front();
    next.text = random.Next64();
    if (!next.request.ignore_eos) {
      next.length = static_cast<int32_t>(random.Between(1, made.front().length));
    }
    made.push_back(std::move(next));
  }
  return made;
}

uint32_t AnswerToken(int model, uint64_t text, int32_t position) {
  const uint64_t of_text = base::Mix64(text, static_cast<uint64_t>(model));
  return static_cast<uint32_t>(base::Mix64(of_text, static_cast<uint64_t>(position)));
}

}  // namespace ropeway::sim
