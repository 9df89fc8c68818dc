#include "simulation.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "kvcache/kv_cache_manager.h"
#include "scheduler/scheduler.h"

namespace ropeway::sim {
namespace {

// No run of any seed comes near it; a plant that stops all progress ends here.
constexpr uint64_t kMaxSteps = 200000;

// A hostile tenant, and the others beside it, send until then.
constexpr base::TimePoint kHostileTime = std::chrono::seconds(12);

const char* KindName(engine::CoreEvent::Kind kind) {
  static constexpr const char* kNames[] = {"started",   "is scored", "token",
                                           "preempted", "finished",  "failed"};
  return kNames[static_cast<size_t>(kind)];
}

// The setup without disturbance: every request meets an empty engine with room for all.
Setup Undisturbed(Setup setup) {
  setup.plant = Plant::kNone;
  setup.faults.clear();
  setup.core.scheduler.max_num_seqs = 4;
  setup.core.scheduler.max_num_batched_tokens = 512;
  setup.core.scheduler.max_prefill_chunk = 0;
  setup.blocks *= 100;
  setup.core.cache.prefix_caching = false;
  setup.core.queue.max_wait = kNoMaxWait;
  setup.core.queue.max_queued_tokens = kNoMaxQueuedTokens;
  setup.core.queue.policy = "fcfs";
  setup.core.scheduler.strategy = "continuous";
  setup.core.scheduler.batch_control.name = "fixed";
  setup.num_requests = 0;
  return setup;
}

// The complete outputs of the requests in `records`, alone in an undisturbed engine.
std::map<RequestId, std::vector<Output>> ReferenceOutputs(
    const Setup& original, const std::map<RequestId, Record>& records) {
  const Setup setup = Undisturbed(original);
  base::VirtualClock clock;
  base::SeededRandom random(0);
  base::FaultPoints faults(&random);
  SimExecutor executor(&clock, &faults, Plant::kNone, nullptr);
  const auto policy = MakeSimPolicy(setup);
  engine::EngineCoreOptions options = setup.core;
  options.is_end = IsEnd;
  const executor::KvLayout layout =
      *executor.Init(engine::TestExecutor::PoolBytes(setup.blocks),
                     options.scheduler.max_num_batched_tokens, options.scheduler.max_num_seqs);
  std::map<RequestId, std::vector<Output>> outputs;
  Checks checks(setup, [](RequestId) { return 0; });
  engine::EngineCore core(
      options, layout, &executor, policy.get(), &clock,
      [&](std::vector<engine::CoreEvent> events) { checks.OnEvents(events, {}, clock.Now()); });
  for (const auto& [id, record] : records) {
    SimRequest made = record.made;
    made.request.deadline = base::TimePoint::max();
    made.request.resume_ids.clear();
    checks.OnAdd(made, core.Add(made.request), {}, core.stats().steps);
    while (core.Step()) {
    }
    outputs[id] = checks.records().at(id).output;
  }
  return outputs;
}

void CompareTexts(const Setup& setup, const std::map<RequestId, Record>& records, Report* report) {
  const auto reference = ReferenceOutputs(setup, records);
  for (const auto& [id, record] : records) {
    const std::vector<Output>& whole = reference.at(id);
    for (const std::vector<Output>& cut : record.cut_outputs) {
      if (cut.size() <= whole.size() && std::equal(cut.begin(), cut.end(), whole.begin())) continue;
      report->violations.emplace(
          "same_text", "request " + std::to_string(id) + " had another text before a kill");
    }
    const bool complete =
        record.ended && !record.finish_asked &&
        (record.reason == FinishReason::kStop || record.reason == FinishReason::kLength);
    const bool same = record.output.size() <= whole.size() &&
                      std::equal(record.output.begin(), record.output.end(), whole.begin()) &&
                      (!complete || record.output.size() == whole.size());
    if (same) continue;
    report->violations.emplace("same_text", "request " + std::to_string(id) + " (" +
                                                std::to_string(record.preemptions) +
                                                " preemptions) has another text than undisturbed");
  }
}

}  // namespace

Report RunSeed(uint64_t seed, Plant plant, bool verbose) {
  const Setup setup = MakeSetup(seed, plant);
  Report report = Simulation(setup, verbose).Run();
  if (plant == Plant::kStarve) return report;  // Its line is endless: nothing to compare.
  const Report again = Simulation(setup, false).Run();
  if (again.digest != report.digest) {
    report.violations.emplace("same_trace", "two runs of one seed have different traces");
  }
  CompareTexts(setup, report.records, &report);
  return report;
}

Simulation::Simulation(const Setup& setup, bool verbose)
    : setup_(setup),
      verbose_(verbose),
      fault_random_(base::Mix64(setup.seed, 2)),
      check_random_(base::Mix64(setup.seed, 3)),
      late_random_(base::Mix64(setup.seed, 7)),
      faults_(&fault_random_),
      executor_(&clock_, &faults_, setup.plant,
                [this](uint64_t id) {
                  return static_cast<int32_t>(checks_.records().at(id).made.request.prompt.size());
                }),
      tier_(setup.tier, &clock_, &faults_, setup.plant,
            [this](const core::BlockName& name) {
              const auto found = partials_.find(name);
              return found == partials_.end() ? std::nullopt : std::optional(found->second);
            }),
      masks_(&clock_, setup.plant),
      policy_(MakeSimPolicy(setup)),
      checks_(setup_, [this](RequestId id) { return executor_.prompt_rows(id); }),
      scheduling_(
          setup_,
          [this](const std::string& check, const std::string& message) {
            checks_.Violate(check, message);
          },
          [this](RequestId id) { return checks_.MayFollow(id); }),
      tenants_(
          setup_,
          [this](const std::string& check, const std::string& message) {
            checks_.Violate(check, message);
          },
          [this](const core::StepContent::Item& item) {
            return SimExecutor::TimeOf(item, checks_.records().at(item.sequence).made.request);
          }),
      mask_checks_(setup_.core.scheduler.max_num_seqs,
                   [this](const std::string& check, const std::string& message) {
                     checks_.Violate(check, message);
                   }),
      encoder_(setup_, &clock_, &tenants_, [this](SimRequest made, base::TimePoint at) {
        inbox_.emplace(at, Input{.kind = Input::Kind::kArrival, .id = 0, .made = std::move(made)});
      }) {
  executor_.on_computed = [this](const core::Batch& batch) { mask_checks_.OnComputed(batch); };
  executor_.reads_late = [this] {
    const bool late = late_random_.Chance(0.5);
    Count("blocks whose bytes came late", late ? 1 : 0);
    return late;
  };
  executor_.device = setup_.device;
  executor_.scope_of = [this](uint64_t id) { return TenantOf(setup_, id); };
  for (const auto& [name, p] : setup.faults) faults_.Enable(name, p);
  StartEngine();
}

void Simulation::StartEngine() {
  engine::EngineCoreOptions options = setup_.core;
  options.is_end = IsEnd;
  if (setup_.plant == Plant::kAgingForgotten) options.queue.max_wait = kNoMaxWait;
  if (setup_.plant == Plant::kShortRope) options.step.long_rope_above = core::kNoLongRope;
  if (setup_.plant == Plant::kBatchJoined) options.scheduler.urgent_joins = true;
  if (setup_.tier.on) options.tier = &tier_;
  const executor::KvLayout layout =
      *executor_.Init(engine::TestExecutor::PoolBytes(setup_.blocks),
                      options.scheduler.max_num_batched_tokens, options.scheduler.max_num_seqs);
  options.step.device = layout.device;
  core_ = std::make_unique<engine::EngineCore>(options, layout, &executor_, policy_.get(), &clock_,
                                               [this](std::vector<engine::CoreEvent> events) {
                                                 Tamper(setup_.plant, &events);
                                                 Receive(std::move(events));
                                               });
  core_->NoteSteps(true);
}

void Add(const core::TransitionCounts& more, core::TransitionCounts* sum) {
  for (size_t s = 0; s < more.size(); ++s) {
    for (size_t e = 0; e < more[s].size(); ++e) (*sum)[s][e] += more[s][e];
  }
}

void Simulation::CountLife() {
  const engine::CoreStats& stats = core_->stats();
  Count("steps", stats.steps);
  Count("blocks evicted from the pool into the tier", stats.transfers.spilled_blocks);
  Count("prompt tokens found in the cache", stats.cached_prompt_tokens);
  Count("reads given up for being late", stats.transfers.late_reads);
  Count("preemptions", stats.preemptions);
  Count("preemptions for memory", stats.preemptions_by[0]);
  Count("preemptions for a slot", stats.preemptions_by[1]);
  Count("preemptions for blocks", stats.preemptions_by[2]);
  Count("preemptions for aging", stats.preemptions_by[3]);
  Count("preemptions for another tenant", stats.preemptions_by[4]);
  Count("preemptions for a length", stats.preemptions_by[5]);
  Count("masks", stats.masks);
  Count("masks put off to a later step", stats.deferred_masks);
  Add(core_->transitions(), &report_.transitions);
}

void Simulation::CountRequests() {
  for (const auto& [id, record] : checks_.records()) {
    const core::CoreRequest& request = record.made.request;
    const auto least = static_cast<size_t>(request.spec.params.min_tokens);
    const bool cut = std::any_of(record.cut_outputs.begin(), record.cut_outputs.end(),
                                 [](const auto& output) { return !output.empty(); });
    Count("requests", 1);
    Count("requests that timed out", record.timed_out);
    Count("requests preempted with a part of the prompt scored", record.preempted_scored);
    Count("requests that wanted no token", request.max_tokens == 0);
    Count("requests that went beyond min_tokens", least > 0 && record.output.size() > least);
    Count("requests cut in their output by a kill", cut);
    Count("requests that went on where a kill had cut them", !request.resume_ids.empty());
  }
}

// What was flushed is there in the next life; requests without an end are sent again, from their
// start or from where their output was cut.
void Simulation::Kill() {
  CountLife();
  core_.reset();
  tier_.Kill();
  Trace(0x6B111);
  if (verbose_) std::printf("%10.3f ms  killed\n", base::ToSeconds(clock_.Now()) * 1e3);
  StartEngine();
  scheduling_.OnKill();
  mask_checks_.OnKill();
  for (SimRequest& again : checks_.OnKill()) {
    again.at = clock_.Now();
    Arrive(std::move(again), true);
  }
}

void Simulation::NamePartials() {
  for (const auto& [id, record] : checks_.records()) {
    core::Sequence& named = named_[id];
    if (named.ids().empty()) {
      named.request.id = id;
      named.cache_root = record.made.request.cache_root;
      for (const TokenId id : record.made.request.prompt) named.Append(id);
    }
    // A kill cuts the output; it grows again, to the same tokens.
    const size_t prompt = record.made.request.prompt.size();
    for (size_t i = named.ids().size() - prompt; i < record.output.size(); ++i) {
      named.Append(record.output[i].token);
    }
    while (named.kv.parked < named.num_ids()) {
      ++named.kv.parked;
      const int32_t block = named.kv.parked / base::kBlockTokens;
      if (named.kv.parked % base::kBlockTokens != 0) {
        partials_[kvcache::KvCacheManager::PartialName(named)] = {id, block};
        continue;
      }
      const auto first = static_cast<size_t>(named.kv.parked - base::kBlockTokens);
      named.kv.names.push_back(
          core::ChildName(named.kv.names.empty() ? named.cache_root : named.kv.names.back(),
                          std::span(named.ids()).subspan(first, base::kBlockTokens)));
    }
  }
}

Report Simulation::Run() {
  if (setup_.hostile == Hostile::kNone) {
    for (int i = 0; i < std::max(setup_.users, 1); ++i) ScheduleArrival();
  }
  for (int tenant = 0; tenant < kNumSimTenants; ++tenant) {
    // The hostile one has all slots when the others come.
    const auto late = std::chrono::milliseconds(tenant == kHostile ? 0 : 200);
    for (int i = setup_.users_of[static_cast<size_t>(tenant)]; i > 0; --i) ScheduleOf(tenant, late);
  }
  while (!Hopeless()) {
    DeliverDue();
    if (!core_->idle()) {
      Step();
      continue;
    }
    checks_.OnIntegrity(core_->CheckIntegrity());
    while (core_->has_background() && core_->Background()) {
    }
    const base::TimePoint input = inbox_.empty() ? base::TimePoint::max() : inbox_.begin()->first;
    const base::TimePoint next = std::min(input, encoder_.next());
    if (next == base::TimePoint::max()) break;
    clock_.AdvanceTo(next);
  }
  // A run that was broken off leaves others without an end, which is not what is wrong with it.
  if (!Hopeless()) {
    checks_.AtEnd();
    scheduling_.AtEnd();
    tenants_.AtEnd();
  }
  CountLife();
  CountRequests();
  for (const auto& [what, n] : checks_.CountMasked()) Count(what, n);
  Count("blocks flushed before a kill and read after it", tier_.found_after_kill());
  Count("turns that ended before all ids were accepted again", mask_checks_.cut_turns());
  Count("urgent requests that joined a running batch", scheduling_.joined());
  report_.violations = checks_.violations();
  report_.digest = digest_;
  report_.records = checks_.records();
  report_.faults_fired = faults_.fired();
  return report_;
}

bool Simulation::Hopeless() const {
  return checks_.violations().contains("no_progress") ||
         checks_.violations().contains("waited_too_long") ||
         checks_.violations().contains("waiting_bound") ||
         checks_.violations().contains("tenant_turn") || core_->stats().steps > kMaxSteps;
}

// Puts the next request of the seed into the inbox, at its time.
void Simulation::ScheduleArrival(std::optional<Priority> priority) {
  // Once a backlog is long enough to be measured, no more is wanted.
  const bool enough = setup_.backlog && clock_.Now() > base::TimePoint(std::chrono::seconds(40));
  if (next_request_ >= setup_.num_requests || enough) return;
  SimRequest made = MakeRequest(setup_, next_request_, last_arrival_);
  if (setup_.backlog) {
    made.request.priority = priority.value_or(static_cast<Priority>(next_request_ % 3));
  }
  ++next_request_;
  if (burst_left_ > 0) {
    --burst_left_;
    made.at = last_arrival_;
  } else if (faults_.Fires("burst")) {
    burst_left_ = 5;
  }
  if (setup_.users > 0) made.at = clock_.Now();
  last_arrival_ = made.at;
  inbox_.emplace(made.at, Input{.kind = Input::Kind::kArrival, .id = 0, .made = std::move(made)});
}

void Simulation::ScheduleOf(int tenant, base::Duration after) {
  if (clock_.Now() > kHostileTime) return;
  const int index =
      kNumSimTenants * next_of_[static_cast<size_t>(tenant)]++ + tenant;  // See TenantOf.
  SimRequest made = MakeRequest(setup_, index, {});
  made.at = clock_.Now() + after;
  inbox_.emplace(made.at, Input{.kind = Input::Kind::kText, .id = 0, .made = std::move(made)});
}

void Simulation::ScheduleAgain(SimRequest made, const Status& answer) {
  if (clock_.Now() > kHostileTime) return;
  const bool obeys = setup_.obeys || TenantOf(setup_, made.request.id) != kHostile;
  base::Duration after = std::chrono::milliseconds(100);
  if (obeys) after = std::chrono::seconds(std::max(1, answer.retry_after_seconds()));
  made.at = clock_.Now() + after;
  inbox_.emplace(made.at, Input{.kind = Input::Kind::kText, .id = 0, .made = std::move(made)});
}

void Simulation::DeliverDue() {
  if (!core_->idle() && faults_.Fires("delayed_inbox")) return;
  encoder_.Run();
  while (!inbox_.empty() && inbox_.begin()->first <= clock_.Now()) {
    Input input = std::move(inbox_.begin()->second);
    inbox_.erase(inbox_.begin());
    Deliver(std::move(input));
  }
  encoder_.Run();
}

void Simulation::Deliver(Input input) {
  switch (input.kind) {
    case Input::Kind::kText:
      encoder_.Add(std::move(input.made));
      break;
    case Input::Kind::kArrival:
      Arrive(std::move(input.made), false);
      break;
    case Input::Kind::kStop:
      Finish(input.id, FinishReason::kStop);
      break;
    case Input::Kind::kCancel:
      Finish(input.id, FinishReason::kCancelled);
      if (faults_.Fires("cancel_twice")) Finish(input.id, FinishReason::kCancelled);
      break;
  }
}

void Simulation::Arrive(SimRequest made, bool again) {
  const bool hostile = setup_.hostile != Hostile::kNone;
  if (setup_.users == 0 && !again && !hostile)
    ScheduleArrival();  // Open loop: one is always under way.
  const RequestId id = made.request.id;
  if (verbose_) {
    std::printf("%10.3f ms  request %llu arrives: prompt %zu, max_tokens %d\n",
                base::ToSeconds(clock_.Now()) * 1e3, static_cast<unsigned long long>(id),
                made.request.prompt.size(), made.request.max_tokens);
  }
  made.request.arrival = clock_.Now();
  if (made.deadline_after.has_value()) made.request.deadline = clock_.Now() + *made.deadline_after;
  core::CoreRequest request = Forget(setup_.plant, made.request);
  request.constraint = masks_.Timed(id, std::move(request.constraint));
  const Status answer = core_->Add(std::move(request));
  Trace(base::Mix64(id, static_cast<uint64_t>(answer.code())));
  checks_.OnAdd(made, answer, core_->device_status(), core_->stats().steps);
  Count("requests rejected for their wait", answer.code() == StatusCode::kResourceExhausted);
  tenants_.OnAdd(made, answer);
  if (answer.ok()) {
    scheduling_.OnAdd(made, checks_.records().at(id).order, clock_.Now());
  } else {
    if (setup_.users > 0) ScheduleArrival();  // The user sends the next one.
    if (hostile) ScheduleAgain(std::move(made), answer);
    return;
  }
  if (made.cancel_after.has_value() && !again) {
    inbox_.emplace(clock_.Now() + *made.cancel_after,
                   Input{.kind = Input::Kind::kCancel, .id = id, .made = {}});
  }
  if (faults_.Fires("duplicate_id")) {
    checks_.OnDuplicate(core_->Add(made.request), core_->device_status());
  }
  if (faults_.Fires("cancel_at_once")) Finish(id, FinishReason::kCancelled);
}

void Simulation::Finish(RequestId id, FinishReason reason) {
  checks_.OnFinishAsked(id, reason, core_->stats().steps);
  core_->Abort(id, reason);
  const engine::CoreStats& stats = core_->stats();
  checks_.OnFinishReturned(id, stats.waiting + stats.running + stats.preempted == 0);
}

void Simulation::Step() {
  if (faults_.Fires("clock_jump")) clock_.Advance(std::chrono::hours(1));
  if (faults_.Fires("kill")) {
    Kill();
    return;
  }
  if (setup_.plant == Plant::kPartialName) NamePartials();
  const base::TimePoint begin = clock_.Now();
  core_->Step();
  const base::TimePoint end = clock_.Now();
  const engine::CoreStats& stats = core_->stats();
  const bool fills = stats.last_rows == 0 && stats.next_look != base::TimePoint::max();
  Count("steps with both decodes and prefill chunks",
        stats.last_prefill_rows > 0 && stats.last_prefill_rows < stats.last_rows);
  Count("steps whose head of the queue waited for a leader",
        stats.blocked_rule == scheduler::BlockedBy::kLeader);
  Count("rows of padding", static_cast<uint64_t>(stats.last_padding_rows));
  Count("steps in which a batch filled", fills);
  if (stats.fetching > 0) DisturbFetching();
  if (fills) {
    const base::TimePoint next = inbox_.empty() ? base::TimePoint::max() : inbox_.begin()->first;
    clock_.AdvanceTo(std::max(clock_.Now(), std::min(stats.next_look, next)));
  } else if (stats.last_rows == 0) {
    // Else time would stand still while all wait for a read.
    clock_.Advance(std::chrono::milliseconds(20));
  }
  Trace(static_cast<uint64_t>(clock_.Now().count()));
  Trace(base::Mix64(static_cast<uint64_t>(stats.last_rows),
                    static_cast<uint64_t>(stats.free_blocks)));
  checks_.AfterStep(stats, begin);
  scheduling_.AfterStep(stats, core_->last_step(), begin, end);
  tenants_.AfterStep(stats, core_->last_step(), end);
  mask_checks_.AfterStep(stats, masks_.TakeWork());
  if (!executor_.violation().empty()) checks_.Violate("kv", executor_.violation());
  if (!executor_.foreign_read().empty()) checks_.Violate("tenant", executor_.foreign_read());
  if (check_random_.Chance(0.2)) checks_.OnIntegrity(core_->CheckIntegrity());
}

// Those that may be fetching: started, and without a token.
void Simulation::DisturbFetching() {
  if (faults_.Fires("jump_fetching")) clock_.Advance(std::chrono::hours(1));
  for (const auto& [id, record] : checks_.records()) {
    if (!record.started || record.ended || !record.output.empty()) continue;
    if (!faults_.Fires("cancel_fetching")) continue;
    inbox_.emplace(clock_.Now(), Input{.kind = Input::Kind::kCancel, .id = id, .made = {}});
  }
}

void Simulation::Receive(std::vector<engine::CoreEvent> events) {
  checks_.OnEvents(events, core_->device_status(), clock_.Now());
  for (const engine::CoreEvent& event : events) {
    scheduling_.OnEvent(event);
    tenants_.OnEvent(event);
    mask_checks_.OnEvent(event);
    Trace(base::Mix64(event.id, static_cast<uint64_t>(event.kind)));
    for (const core::Scored& scored : event.scored) Trace(static_cast<uint64_t>(scored.position));
    Trace(base::Mix64(static_cast<uint64_t>(event.sampled.token),
                      static_cast<uint64_t>(event.reason)));
    if (verbose_) {
      std::printf("%10.3f ms  step %llu: request %llu %s\n", base::ToSeconds(clock_.Now()) * 1e3,
                  static_cast<unsigned long long>(event.step),
                  static_cast<unsigned long long>(event.id), KindName(event.kind));
    }
    React(event);
  }
}

// What the outside does because of an event: through the inbox, as the core must not be called from
// its own emit.
void Simulation::React(const engine::CoreEvent& event) {
  const auto it = checks_.records().find(event.id);
  if (it == checks_.records().end()) return;
  const SimRequest& made = it->second.made;
  const auto send = [&](Input::Kind kind) {
    inbox_.emplace(clock_.Now(), Input{.kind = kind, .id = event.id, .made = {}});
  };
  if (event.kind == engine::CoreEvent::Kind::kToken) {
    const auto length = static_cast<int32_t>(it->second.output.size());
    if (length == made.stop_after) send(Input::Kind::kStop);
    if (length == made.request.max_tokens - 1 && faults_.Fires("cancel_at_end")) {
      send(Input::Kind::kCancel);
    }
  } else if (event.kind == engine::CoreEvent::Kind::kPreempted) {
    if (faults_.Fires("cancel_preempted")) send(Input::Kind::kCancel);
    if (faults_.Fires("lost_in_need")) executor_.LoseDevice();
  } else if (event.kind == engine::CoreEvent::Kind::kFinished ||
             event.kind == engine::CoreEvent::Kind::kFailed) {
    if (faults_.Fires("cancel_after_end")) send(Input::Kind::kCancel);
    if (setup_.users > 0) ScheduleArrival(made.request.priority);
    if (setup_.hostile != Hostile::kNone) {
      const int tenant = TenantOf(setup_, event.id);
      // A person reads before the next question.
      const auto pause = static_cast<int64_t>(base::Mix64(setup_.seed, event.id) % 100'000);
      ScheduleOf(tenant, std::chrono::microseconds(tenant == kLight ? pause : 0));
    }
  }
}

}  // namespace ropeway::sim
