#include "setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "engine/test_executor.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/policies.h"

namespace ropeway::sim {
namespace {

using std::chrono::milliseconds;

template <typename T>
T OneOf(base::Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(values.size())];
}

void DrawFaults(base::Random& random, Setup* setup) {
  const std::pair<const char*, double> points[] = {
      {"slow_step", 0.02},      {"device_lost", 0.003},
      {"wrong_answer", 0.003},  {"delayed_inbox", 0.1},
      {"burst", 0.1},           {"clock_jump", 0.01},
      {"cancel_at_once", 0.05}, {"cancel_twice", 0.5},
      {"cancel_at_end", 0.2},   {"cancel_after_end", 0.2},
      {"duplicate_id", 0.1},    {"cancel_preempted", 0.1},
      {"lost_in_need", 0.05},   {"short_of_memory", 0.05},
      {"memory_gone", 0.002},   {"cancel_fetching", 0.05},
      {"jump_fetching", 0.05},  {"kill", 0.004},
      {"tier_slow", 0.2},       {"tier_full", 0.1},
      {"tier_lossy", 0.1},      {"tier_torn", 0.1},
      {"tier_off", 0.01}};
  for (const auto& [name, p] : points) {
    // A lost device ends the run early: most seeds go without.
    const std::string point = name;
    const bool fatal = point == "device_lost" || point == "lost_in_need" || point == "wrong_answer";
    if (random.Chance(fatal ? 0.2 : 0.5)) setup->faults[point] = p;
  }
}

// What ends the request besides its length, and how early.
void DrawEnds(base::Random& random, core::CoreRequest* request) {
  for (TokenId id = 0; id < 1000 && !request->ignore_eos; ++id) {
    if (IsEnd(id)) request->spec.end_ids.push_back(id);
  }
  const uint64_t stops = random.Chance(0.3) ? random.Below(30) : 0;
  for (uint64_t i = 0; i < stops; ++i) {
    request->stop_ids.push_back(static_cast<TokenId>(random.Below(1000)));
    request->spec.end_ids.push_back(request->stop_ids.back());
  }
  if (random.Chance(0.3)) {
    request->spec.params.min_tokens = static_cast<int32_t>(random.Between(0, request->max_tokens));
  }
}

void DrawTier(base::Random& random, Setup* setup) {
  TierSetup& tier = setup->tier;
  tier.on = random.Chance(0.85);
  tier.blocks = static_cast<int32_t>(random.Between(1, 20 * setup->blocks));
  tier.most_pending = static_cast<int32_t>(random.Between(1, 2 * setup->blocks));
  tier.read_time = std::chrono::microseconds(OneOf<int64_t>(random, {0, 10, 300, 3000, 30000}));
  if (random.Chance(0.3)) setup->core.cache.preempt_checkpoint = "always";
}

// A load under which one request can be passed for ever: the queue always holds another one.
void MakeEndless(Setup* setup) {
  setup->users = setup->core.scheduler.max_num_seqs + 4;
  setup->num_requests = 100000;
  setup->cancel_share = 0;
  setup->stop_share = 0;
  setup->huge_share = 0;
  setup->deadline_share = 0;
  setup->faults.clear();
  setup->turn_share =
      0;  // No request waits for a leader: the check must be able to explain the order.
  setup->tier.on = false;
}

// Half the seeds keep the simplest order, which is checked most closely.
void DrawScheduling(base::Random& random, Setup* setup) {
  engine::EngineCoreOptions& core = setup->core;
  if (random.Chance(0.5)) {
    core.queue.policy =
        OneOf<const char*>(random, {"fcfs", "sjf", "length-balance", "cache-aware", "fair",
                                    "priority", "priority+fair", "priority+fair", "priority+sjf",
                                    "priority+cache-aware", "fair+sjf"});
    core.queue.strict_priority = random.Chance(0.3);
    core.queue.max_wait = OneOf(random, {kNoMaxWait, milliseconds(5), milliseconds(100),
                                         milliseconds(2000), milliseconds(30'000)});
    core.scheduler.batch_control.name =
        OneOf<const char*>(random, {"fixed", "fixed", "aimd", "memory"});
    core.step.mixed_prefill_budget = OneOf(random, {0, 1, 32});
    core.scheduler.long_prefill_threshold = OneOf(random, {0, 20, 100});
    core.scheduler.long_prefill_budget = OneOf(random, {1, 8, 64});
    core.scheduler.preempt_max_generated = OneOf(random, {1 << 30, 1 << 30, 10});
    core.step.attention_weight = OneOf(random, {0.0, 0.002, 0.06});
    core.step.learn_cost = random.Chance(0.5);
    if (random.Chance(0.3)) core.queue.max_queued_tokens = random.Between(100, 5000);
  }
  if (!random.Chance(0.25)) return;
  SchedulingOptions& batching = core.scheduler;
  batching.strategy = OneOf<const char*>(random, {"serial", "static", "dynamic"});
  batching.max_batch_size = static_cast<int>(random.Between(1, batching.max_num_seqs));
  batching.static_flush = batching.batch_timeout =
      OneOf(random, {milliseconds(1), milliseconds(50), milliseconds(5000)});
  if (batching.strategy == "dynamic" && random.Chance(0.5)) {
    batching.batch_timeout = milliseconds(-1);
  }
  batching.target_latency =
      OneOf(random, {milliseconds(20), milliseconds(300), milliseconds(2000)});
  batching.static_padding = batching.strategy == "static" && random.Chance(0.5);
  if (scheduler::IsPadded(batching)) ++setup->blocks;  // The block that padding reads.
  // Drawn apart, so that it changes nothing else of the seed.
  base::SeededRandom joins(base::Mix64(setup->seed, 4));
  batching.urgent_joins = joins.Chance(0.5);
}

// For so long that shares can be measured, nothing disturbs, and every class has more to do than
// can be done.
void MakeBacklog(Setup* setup) {
  const uint64_t seed = setup->seed;
  const engine::EngineCoreOptions before = setup->core;
  setup->core = PlainCore();
  setup->core.scheduler.max_num_seqs = before.scheduler.max_num_seqs < 8 ? 8 : 16;
  setup->core.scheduler.max_num_batched_tokens = 64;
  setup->core.max_model_len = 160;
  setup->core.check_integrity = false;
  setup->core.cache.prefix_caching = before.cache.prefix_caching;
  setup->blocks =
      setup->core.scheduler.max_num_seqs * kvcache::BlocksFor(setup->core.max_model_len);
  setup->users = 3 * (setup->core.scheduler.max_num_seqs + 6);
  setup->num_requests = 20000;
  setup->longest_prompt = 40;
  setup->longest_output = 60;
  setup->cancel_share = setup->stop_share = setup->huge_share = setup->deadline_share = 0;
  setup->score_share = setup->zero_share = setup->turn_share = 0;
  setup->tier.on = false;
  setup->faults.clear();
  setup->core.queue.policy = seed % 2 == 0 ? "priority" : "priority+fair";
  setup->backlog = true;
}

// A line in which one request is passed by all, and only its age helps it.
void MakeOverdue(Setup* setup) {
  MakeEndless(setup);
  setup->num_requests = 2000;
  setup->core.queue.policy = "fcfs";
  setup->core.scheduler.strategy = "continuous";
  setup->core.step.learn_cost = false;
  setup->core.queue.max_queued_tokens = kNoMaxQueuedTokens;
  setup->core.queue.max_wait = milliseconds(200);
}

// High ones come again and again while low ones run.
void MakeUrgent(Setup* setup) {
  setup->core.queue.policy = "priority";
  setup->core.queue.strict_priority = true;
  setup->core.scheduler.strategy = "continuous";
  setup->core.scheduler.batch_control.name = "fixed";
  setup->core.scheduler.max_num_seqs = std::max(2, setup->core.scheduler.max_num_seqs);
  setup->core.scheduler.max_num_batched_tokens =
      std::max(64, setup->core.scheduler.max_num_batched_tokens);
  setup->core.scheduler.preempt_max_generated = 1 << 30;
}

// The hostile tenant of a seed without a plant.
Hostile HostileOf(uint64_t seed) {
  if (seed % 200 == 100) return Hostile::kPrompts;
  if (seed % 50 != 25) return Hostile::kNone;
  constexpr auto kOthers = static_cast<uint64_t>(Hostile::kPrompts) - 1;
  return static_cast<Hostile>(1 + seed / 50 % kOthers);
}

// Two honest tenants beside one that takes what it can get, undisturbed.
void MakeHostile(Hostile kind, Setup* setup) {
  setup->core = PlainCore();
  setup->core.scheduler.max_num_seqs = 16;
  setup->core.scheduler.max_num_batched_tokens = 128;
  setup->core.queue.max_wait = milliseconds(kind == Hostile::kFlood ? 500 : 5000);
  scheduler::StepOptions& options = setup->core.step;
  options.mixed_prefill_budget = 32;
  const bool prompts = kind == Hostile::kPrompts;
  // Prompts are charged for attention as SimExecutor takes it: how well that is learned is not what
  // TenantChecks measures.
  options.learn_cost = !prompts;
  options.attention_weight = prompts ? 0.002 : 0.0;
  const bool long_ones = kind == Hostile::kMany || kind == Hostile::kLong || prompts;
  setup->core.max_model_len = long_ones ? 600 : 160;
  setup->core.check_integrity = false;
  const int32_t longest = kvcache::BlocksFor(setup->core.max_model_len);
  setup->blocks = kind == Hostile::kLong ? 2 * longest : 16 * longest;
  setup->users = 0;
  setup->num_requests = 0;
  setup->cancel_share = setup->stop_share = setup->huge_share = setup->deadline_share = 0;
  setup->score_share = setup->zero_share = setup->turn_share = 0;
  setup->longest_prompt = prompts ? 400 : 20;
  setup->longest_output = prompts ? 4 : 30;
  setup->tenants = kNumSimTenants;
  setup->tier.on = false;
  setup->faults.clear();
  setup->core.queue.policy = setup->seed / 200 % 2 == 0 ? "priority+fair" : "fair";
  setup->hostile = kind;
  setup->users_of = {kind == Hostile::kFlood ? 600 : 40, 1, 40};
  setup->obeys = kind != Hostile::kFlood;
}

// In some setups sequences that grow beyond a length are computed anew. Drawn by itself, so that
// the rest of a seed's setup is what it would be without.
void DrawLongRope(Setup* setup) {
  base::SeededRandom random(base::Mix64(setup->seed, 4));
  if (setup->plant != Plant::kShortRope && !random.Chance(0.3)) return;
  setup->core.step.long_rope_above =
      static_cast<int32_t>(random.Between(2, setup->core.max_model_len / 2));
}

// In some setups the device is no small CPU. It is drawn by itself, too; its speed is a CPU's all
// the same, for nothing that the checks promise may rest on what a profile says.
void DrawDevice(Setup* setup) {
  base::SeededRandom random(base::Mix64(setup->seed, 6));
  if (setup->plant != Plant::kNone || !random.Chance(0.3)) return;
  core::DeviceProfile& device = setup->device;
  device.mixed_prefill_budget = OneOf(random, {1, 8, 512});
  device.longest_step = OneOf(random, {milliseconds(1), milliseconds(10), milliseconds(1000)});
  device.attention_weight = OneOf(random, {0.0, 0.0001, 0.06});
  device.decode_ratio = OneOf(random, {0.5, 1.0, 30.0});
  device.spare = OneOf(random, {1.0, 4.0, 256.0});
  device.telling_rows = OneOf(random, {1, 4, 128});
  device.efficient_step = OneOf(random, {1.0, 8.0, 256.0});
  device.speed_range = OneOf(random, {4.0, 32.0, 1000.0});
  device.urgent_prompt = OneOf(random, {1, 16, 512});
  if (setup->core.step.mixed_prefill_budget > 0) {
    setup->core.step.mixed_prefill_budget = device.mixed_prefill_budget;
  }
  if (setup->core.step.attention_weight > 0) {
    setup->core.step.attention_weight = device.attention_weight;
  }
}

// With Hostile::kPrompts: the length of a prompt of this tenant.
int64_t PromptLength(const Setup& setup, int tenant, base::Random& random) {
  if (tenant == kHostile) return random.Between(setup.longest_prompt / 2, setup.longest_prompt);
  return tenant == kBusy ? random.Between(60, 120) : random.Between(1, 20);
}

// Makes a request of a setup with a hostile tenant what its tenant sends.
void ShapeForTenant(const Setup& setup, base::Random& random, core::CoreRequest* request) {
  request->priority = Priority::kMedium;
  request->tenant_weight = 1.0;
  request->stop_ids.clear();
  request->spec.end_ids.clear();
  request->spec.params.min_tokens = 0;
  request->ignore_eos = true;
  if (TenantOf(setup, request->id) != kHostile) {
    if (TenantOf(setup, request->id) == kLight) request->max_tokens = 8;
    return;
  }
  if (setup.hostile == Hostile::kMany) request->max_tokens = 500;
  if (setup.hostile == Hostile::kLong) {
    request->max_tokens = static_cast<int32_t>(random.Between(450, 560));
  }
  if (setup.hostile == Hostile::kSampling) request->spec.params.top_p = 0.9999F;
  if (setup.hostile == Hostile::kPrompts) request->max_tokens = 2;
}

// As long as two requests may have in common without one waiting for the other.
constexpr int64_t kShortFamily = 20;
// And for others a system prompt that they do.
constexpr int64_t kLongFamily = 150;

std::vector<TokenId> Prompt(const Setup& setup, int index, int64_t length, base::Random& random) {
  std::vector<TokenId> prompt;
  // A turn that goes on from an earlier request of the same tenant: its prompt and some of what it
  // generated.
  if (index >= setup.tenants && random.Chance(setup.turn_share)) {
    const auto back = static_cast<int>(random.Between(1, std::max(1, index / setup.tenants)));
    const SimRequest earlier = MakeRequest(setup, index - back * setup.tenants, {});
    prompt = earlier.request.prompt;
    const int64_t more = random.Between(0, earlier.request.max_tokens);
    for (const TokenId token : Generated(setup, earlier.request, more)) prompt.push_back(token);
    if (static_cast<int64_t>(prompt.size()) > length) prompt.resize(static_cast<size_t>(length));
  }
  // Few different first tokens: many prompts begin alike.
  const uint64_t family = random.Below(3);
  const int64_t common = family == 0 ? kLongFamily : kShortFamily;
  for (auto i = static_cast<int64_t>(prompt.size()); i < length; ++i) {
    const uint64_t token =
        i < common ? base::Mix64(family, static_cast<uint64_t>(i)) : random.Next64();
    prompt.push_back(static_cast<TokenId>(token % 1000));
  }
  return prompt;
}

}  // namespace

engine::EngineCoreOptions PlainCore() {
  engine::EngineCoreOptions core;
  core.queue.policy = "fcfs";
  core.queue.max_wait = kNoMaxWait;
  core.queue.max_queued_tokens = kNoMaxQueuedTokens;
  core.scheduler.long_prefill_threshold = 0;
  core.scheduler.preempt_max_generated = 1 << 30;
  return core;
}

base::Duration SamplingTime(const SamplingParams& params) {
  return params.top_p < 1.0F ? std::chrono::milliseconds(5) : std::chrono::milliseconds(0);
}

base::Duration EncodingTime(const Setup& setup, RequestId id) {
  const int tenant = TenantOf(setup, id);
  const bool is_long = setup.hostile == Hostile::kEncoding && tenant != kLight;
  if (!is_long) return std::chrono::microseconds(100);
  return std::chrono::milliseconds(tenant == kHostile ? 40 : 20);
}

int TenantOf(const Setup& setup, RequestId id) {
  return static_cast<int>((id - 1) % static_cast<uint64_t>(setup.tenants));
}

core::BlockName RootOf(int tenant) { return core::ChildName({}, std::vector<TokenId>{tenant}); }

std::vector<TokenId> Generated(const Setup& setup, const core::CoreRequest& request,
                               int64_t count) {
  // Of the context so far, with the short and with the long factors of RoPE.
  std::array<uint64_t, 2> hashes{};
  for (const bool is_long : {false, true}) {
    hashes[is_long] = engine::TestExecutor::SeedOf(request.spec.seed, is_long);
  }
  const auto add = [&hashes](TokenId id) {
    for (uint64_t& hash : hashes) hash = base::Mix64(hash, static_cast<uint64_t>(id) + 1);
  };
  for (const TokenId id : request.prompt) add(id);
  std::vector<TokenId> tokens;
  ConstrainedTokens constrained(request);
  while (static_cast<int64_t>(tokens.size()) < count) {
    const size_t length = request.prompt.size() + tokens.size();
    const bool is_long = length > static_cast<size_t>(setup.core.step.long_rope_above);
    const std::optional<TokenId> token =
        constrained.Next(static_cast<TokenId>(hashes[is_long] % engine::TestExecutor::kVocabSize));
    if (!token) break;
    tokens.push_back(*token);
    add(tokens.back());
  }
  return tokens;
}

Setup MakeSetup(uint64_t seed, Plant plant) {
  base::SeededRandom random(base::Mix64(seed, 1));
  Setup setup;
  setup.seed = seed;
  setup.plant = plant;
  engine::EngineCoreOptions& core = setup.core;
  core.scheduler.max_num_seqs = OneOf(random, {1, 2, 3, 5, 8, 16});
  core.scheduler.max_num_batched_tokens = OneOf(random, {1, 2, 7, 16, 33, 64, 256});
  core.scheduler.max_prefill_chunk = OneOf(random, {0, 0, 1, 7, 64});
  core.max_model_len = static_cast<int32_t>(random.Between(20, random.Chance(0.4) ? 500 : 160));
  core.check_integrity = false;  // The simulation checks, and names the seed.
  // From a pool that holds one longest sequence to one that holds three, small ones more often.
  const auto longest = static_cast<uint64_t>(kvcache::BlocksFor(core.max_model_len));
  setup.blocks = static_cast<int32_t>(longest + random.Below(1 + random.Below(2 * longest)));
  setup.num_requests = static_cast<int>(random.Between(5, 120));
  setup.users = random.Chance(0.4) ? static_cast<int>(random.Between(1, 20)) : 0;
  setup.mean_gap_us = OneOf<int64_t>(random, {10, 1000, 5000, 30000});
  // Short prompts with long outputs are what runs a pool dry.
  setup.longest_prompt =
      static_cast<int32_t>(random.Chance(0.4) ? 16 : random.Between(1, core.max_model_len - 1));
  setup.longest_output = static_cast<int32_t>(random.Between(1, core.max_model_len - 1));
  setup.cancel_share = OneOf(random, {0.0, 0.1, 0.5});
  setup.stop_share = OneOf(random, {0.0, 0.2});
  setup.huge_share = OneOf(random, {0.0, 0.1});
  setup.deadline_share = OneOf(random, {0.0, 0.0, 0.3});
  setup.score_share = OneOf(random, {0.0, 0.3});
  setup.zero_share = OneOf(random, {0.0, 0.1});
  setup.core.cache.prefix_caching = random.Chance(0.85);
  setup.core.eviction =
      random.Chance(0.3) ? kvcache::EvictionPolicy::kLru : kvcache::EvictionPolicy::kCost;
  setup.tenants = OneOf(random, {1, 1, 2, 3});
  setup.turn_share = OneOf(random, {0.0, 0.5, 0.8});
  DrawTier(random, &setup);
  DrawFaults(random, &setup);
  DrawScheduling(random, &setup);
  if (plant == Plant::kStarve) {
    MakeEndless(&setup);
    setup.core.queue.max_wait = kNoMaxWait;
  }
  if (plant == Plant::kAgingForgotten) MakeOverdue(&setup);
  if (plant == Plant::kVictimTwice) MakeUrgent(&setup);
  DrawLongRope(&setup);
  const bool shares = plant == Plant::kClassStarved || plant == Plant::kShareIgnored;
  if (shares || (plant == Plant::kNone && seed % 100 == 50)) MakeBacklog(&setup);
  if (plant == Plant::kTurnsForgotten) MakeHostile(Hostile::kMany, &setup);
  if (plant == Plant::kBlocksUncharged) MakeHostile(Hostile::kLong, &setup);
  if (plant == Plant::kSamplingUncharged) MakeHostile(Hostile::kSampling, &setup);
  if (plant == Plant::kEncodingUncharged) MakeHostile(Hostile::kEncoding, &setup);
  if (plant == Plant::kPromptsUncharged) MakeHostile(Hostile::kPrompts, &setup);
  if (plant == Plant::kNone && HostileOf(seed) != Hostile::kNone) {
    MakeHostile(HostileOf(seed), &setup);
  }
  if (!setup.backlog && setup.hostile == Hostile::kNone) {
    setup.masks = DrawMasks(seed, plant, setup.longest_output);
    DrawDevice(&setup);
  }
  return setup;
}

std::string Describe(const Setup& setup) {
  const SchedulingOptions& s = setup.core.scheduler;
  const QueueOptions& queue = setup.core.queue;
  const int32_t long_above = setup.core.step.long_rope_above;
  std::string text = fmt::format(
      "max_num_seqs={} max_num_batched_tokens={} max_prefill_chunk={} max_model_len={} blocks={} "
      "requests={} users={} mean_gap_us={} prompt<={} output<={} cancels={} stops={} huge={} "
      "deadlines={} scored={} no_tokens={} caching={} tenants={} turns={} tier={} policy={}{} "
      "max_wait_ms={} control={} batching={}/{}{}{}{} hostile={}{} masked={}/{} mixed={} faults=",
      s.max_num_seqs, s.max_num_batched_tokens, s.max_prefill_chunk, setup.core.max_model_len,
      setup.blocks, setup.num_requests, setup.users, setup.mean_gap_us, setup.longest_prompt,
      setup.longest_output, setup.cancel_share, setup.stop_share, setup.huge_share,
      setup.deadline_share, setup.score_share, setup.zero_share, setup.core.cache.prefix_caching,
      setup.tenants, setup.turn_share, setup.tier.on ? setup.tier.blocks : 0, queue.policy,
      queue.strict_priority ? " strict" : "", queue.max_wait.count(), s.batch_control.name,
      s.strategy, s.max_batch_size, scheduler::IsPadded(s) ? " padded" : "",
      s.urgent_joins ? " joins" : "", setup.backlog ? " backlog" : "",
      static_cast<int>(setup.hostile),
      long_above < core::kNoLongRope ? fmt::format(" long>{}", long_above) : "", setup.masks.share,
      setup.masks.group, setup.core.step.mixed_prefill_budget);
  for (const auto& [name, p] : setup.faults) text += name + ",";
  if (setup.faults.empty()) text += "none";
  return text;
}

SimRequest MakeRequest(const Setup& setup, int index, base::TimePoint previous) {
  base::SeededRandom random(base::Mix64(setup.seed, 1000 + static_cast<uint64_t>(index)));
  const int64_t limit = setup.core.max_model_len;
  SimRequest made;
  core::CoreRequest& request = made.request;
  request.id = static_cast<RequestId>(index) + 1;
  made.at = previous + std::chrono::microseconds(random.Between(0, 2 * setup.mean_gap_us));
  const int tenant = TenantOf(setup, request.id);
  int64_t prompt = random.Between(1, setup.longest_prompt);
  if (setup.hostile == Hostile::kPrompts) prompt = PromptLength(setup, tenant, random);
  int64_t output = random.Between(1, std::min<int64_t>(setup.longest_output, limit - prompt));
  if (random.Chance(setup.zero_share)) {
    output = 0;
    if (random.Chance(0.2)) prompt = limit;
  }
  made.can_fit = !random.Chance(setup.huge_share);
  if (!made.can_fit) (random.Chance(0.5) ? prompt : output) += limit + 1;
  made.request.prompt = Prompt(setup, index, prompt, random);
  request.tenant = "tenant " + std::to_string(tenant);
  request.cache_root = RootOf(tenant);
  request.priority = static_cast<Priority>(random.Below(kNumPriorities));
  request.tenant_weight = OneOf(random, {1.0, 1.0, 3.0});
  request.max_tokens = static_cast<int32_t>(output);
  request.spec.seed = random.Next64();
  request.spec.num_logprobs = random.Chance(0.5) ? 0 : -1;
  request.ignore_eos = random.Chance(0.3);
  if (random.Chance(setup.cancel_share)) {
    made.cancel_after = std::chrono::microseconds(random.Between(0, 300000));
  }
  if (random.Chance(setup.stop_share)) {
    made.stop_after = static_cast<int32_t>(random.Between(1, std::max<int64_t>(1, output)));
  }
  DrawEnds(random, &request);
  if (random.Chance(setup.score_share)) {
    request.spec.num_prompt_logprobs = static_cast<int32_t>(random.Below(3));
  }
  if (random.Chance(setup.deadline_share)) {
    made.deadline_after = std::chrono::microseconds(random.Between(0, 400000));
  }
  if (setup.hostile != Hostile::kNone) ShapeForTenant(setup, random, &request);
  Constrain(setup.masks, &request);
  return made;
}

std::unique_ptr<policy::SchedulingPolicy> MakeSimPolicy(const Setup& setup) {
  return PlantIn(setup.plant,
                 *policy::MakePolicy(setup.core.queue, setup.core.cache.prefix_caching));
}

}  // namespace ropeway::sim
