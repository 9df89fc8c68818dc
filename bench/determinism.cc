#include "bench/determinism.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>
#include <utility>

#include "base/clock.h"
#include "engine/machine.h"
#include "executor/cpu_executor.h"
#include "policy/policies.h"

namespace ropeway::bench {
namespace {

constexpr RequestId kFirstCompany = RequestId{1} << 32;  // Asks have the ids from 1 on.
constexpr double kLeavesChance = 0.25;
constexpr int kMaxStay = 60;         // Most steps before a request that leaves early.
constexpr int kStepsPerTarget = 24;  // Steps between two targets for the number of requests.
constexpr int kExtraWaiting = 6;     // Beyond max_num_seqs, so that some wait.

// From low to high, small numbers as likely as large ones.
int LogUniform(double low, double high, base::Random* random) {
  const double part = static_cast<double>(random->Below(1 << 20)) / (1 << 20);
  return static_cast<int>(std::lround(low * std::pow(high / low, part)));
}

float Tenths(int64_t low, int64_t high, base::Random* random) {
  return static_cast<float>(random->Between(low, high)) / 10.0F;
}

// Passes everything on and notes what the steps were like.
class RecordingExecutor final : public executor::Executor {
 public:
  RecordingExecutor(executor::Executor* real, int prompt_tokens, DeterminismRound* round)
      : real_(real), prompt_tokens_(prompt_tokens), round_(round) {}

  StatusOr<executor::KvLayout> Init(int64_t bytes, int tokens, int seqs) override {
    return real_->Init(bytes, tokens, seqs);
  }
  void Launch(const core::Batch& batch) override {
    const int rows = batch.num_tokens();
    ++round_->steps;
    round_->rows += rows;
    round_->most_rows = std::max(round_->most_rows, rows);
    for (const core::BatchItem& item : batch.items) {
      const int end = item.start + static_cast<int>(item.tokens.size());
      const bool piece = item.start < prompt_tokens_ && (item.start > 0 || end < prompt_tokens_);
      if (piece && item.sequence < kFirstCompany) ++chunks_[item.sequence];
    }
    real_->Launch(batch);
  }
  StatusOr<core::StepResult> Wait() override { return real_->Wait(); }
  void ReadBlock(core::BlockId block, std::span<std::byte> bytes) override {
    real_->ReadBlock(block, bytes);
  }
  Status FinishReads() override { return real_->FinishReads(); }
  void WriteBlock(core::BlockId block, std::span<const std::byte> bytes) override {
    real_->WriteBlock(block, bytes);
  }

  // Pieces in which the ask's prompt was computed, if not at once; again after each preemption.
  int chunks(RequestId ask) const {
    const auto found = chunks_.find(ask);
    return found == chunks_.end() ? 0 : found->second;
  }

 private:
  executor::Executor* const real_;
  const int prompt_tokens_;
  DeterminismRound* const round_;
  std::map<RequestId, int> chunks_;
};

// One engine and its crowd.
class Crowd {
 public:
  Crowd(const std::shared_ptr<const executor::Weights>& model,
        const DeterminismEngineOptions& options, DeterminismRound* round, base::Random* random,
        std::vector<DeterminismOutput>* outputs)
      : model_(*model),
        options_(options),
        round_(round),
        random_(random),
        outputs_(outputs),
        cpu_(model, round->settings.kernels, round->settings.threads, options.kv_type),
        executor_(&cpu_, static_cast<int>(options.prompt.size()), round) {}

  // `company` per ask on average.
  Status Run(int asks, double company) {
    if (Status status = Open(); !status.ok()) return status;
    const double ask_chance = 1.0 / (1.0 + company);
    int target = 0;
    for (int64_t step = 0; round_->asks < asks; ++step) {
      if (step % kStepsPerTarget == 0) {
        target =
            static_cast<int>(random_->Between(1, round_->settings.max_num_seqs + kExtraWaiting));
      }
      while (in_flight_ < target && (started_ < asks || company > 0)) {
        const bool ask = started_ < asks && random_->Chance(ask_chance);
        if (Status status = ask ? AddAsk() : AddCompany(step); !status.ok()) return status;
        if (random_->Chance(0.3)) break;  // The others come with a later step.
      }
      SendAway(step);
      core_->Step();
      if (!failure_.ok()) return failure_;
    }
    SendAway(INT64_MAX);
    while (!core_->idle()) core_->Step();
    return core_->CheckIntegrity();
  }

 private:
  Status Open() {
    const RoundSettings& settings = round_->settings;
    engine::EngineCoreOptions core;
    // None is rejected, and a prompt may fill a step.
    core.queue.max_wait = std::chrono::hours(24 * 365);
    core.scheduler.long_prefill_threshold = 0;
    core.step.long_rope_above = model_.config().long_rope_above();
    core.scheduler.max_num_seqs = settings.max_num_seqs;
    core.scheduler.max_num_batched_tokens = settings.max_num_batched_tokens;
    core.scheduler.max_prefill_chunk = settings.max_prefill_chunk;
    core.cache.prefix_caching = settings.prefix_caching;
    core.max_model_len = DeterminismEngine::LongestRequest(options_);
    // `num_blocks` of each group of layers.
    const auto bytes =
        static_cast<int64_t>(model_.config().kv_bytes_of_all_groups(options_.kv_type));
    auto layout = executor_.Init(settings.num_blocks * bytes, settings.max_num_batched_tokens,
                                 settings.max_num_seqs);
    if (!layout.ok()) return layout.status();
    if (Status status = core.Validate(*layout); !status.ok()) return status;
    core_ = std::make_unique<engine::EngineCore>(core, *layout, &executor_, &policy_, &clock_,
                                                 [this](std::vector<engine::CoreEvent> events) {
                                                   for (engine::CoreEvent& event : events)
                                                     Note(&event);
                                                 });
    return {};
  }

  Status AddAsk() {
    core::CoreRequest request;
    request.id = static_cast<RequestId>(++started_);
    request.prompt = options_.prompt;
    request.max_tokens = options_.output_tokens;
    request.ignore_eos = true;
    request.spec.params.temperature = 0;
    request.spec.num_logprobs = 0;
    asks_[request.id] = {};
    ++in_flight_;
    return core_->Add(std::move(request));
  }

  Status AddCompany(int64_t step) {
    const RequestId id = kFirstCompany + static_cast<RequestId>(round_->company++);
    company_[id] =
        random_->Chance(kLeavesChance) ? step + random_->Between(1, kMaxStay) : INT64_MAX;
    ++in_flight_;
    return core_->Add(DrawCompany(id, model_.config().vocab_size, random_));
  }

  // Cancels the company whose time is over.
  void SendAway(int64_t step) {
    std::vector<RequestId> leaving;
    for (const auto& [id, until] : company_) {
      if (until <= step) leaving.push_back(id);
    }
    for (const RequestId id : leaving) {
      if (const auto found = company_.find(id); found != company_.end()) found->second = INT64_MAX;
      if (step != INT64_MAX) ++round_->left;
      core_->Abort(id, FinishReason::kCancelled);
    }
  }

  void Note(engine::CoreEvent* event) {
    if (event->kind == engine::CoreEvent::Kind::kFailed) {
      failure_ = event->status;
      return;
    }
    if (event->kind == engine::CoreEvent::Kind::kFinished) --in_flight_;
    if (event->id >= kFirstCompany) {
      if (event->kind == engine::CoreEvent::Kind::kFinished) company_.erase(event->id);
      return;
    }
    DeterminismOutput& answer = asks_[event->id];
    if (event->kind == engine::CoreEvent::Kind::kToken) {
      answer.tokens.push_back(event->sampled.token);
      answer.logprobs.push_back(event->sampled.logprob);
    } else if (event->kind == engine::CoreEvent::Kind::kFinished) {
      NoteEnd(*event, std::move(answer));
      asks_.erase(event->id);
    }
  }

  void NoteEnd(const engine::CoreEvent& event, DeterminismOutput answer) {
    const int chunks = executor_.chunks(event.id);
    ++round_->asks;
    round_->chunked += chunks > 0 ? 1 : 0;
    round_->most_chunks = std::max(round_->most_chunks, chunks);
    round_->preempted += event.preemptions > 0 ? 1 : 0;
    round_->preemptions += event.preemptions;
    const auto same = [&answer](const DeterminismOutput& other) {
      return other.tokens == answer.tokens &&
             std::ranges::equal(other.logprobs, answer.logprobs, {}, std::bit_cast<uint32_t, float>,
                                std::bit_cast<uint32_t, float>);
    };
    auto known = std::ranges::find_if(*outputs_, same);
    if (known == outputs_->end()) known = outputs_->insert(known, std::move(answer));
    ++known->count;
  }

  const executor::Weights& model_;
  const DeterminismEngineOptions& options_;
  DeterminismRound* const round_;
  base::Random* const random_;
  std::vector<DeterminismOutput>* const outputs_;
  const base::RealClock clock_;
  policy::FcfsPolicy policy_;
  executor::CpuExecutor cpu_;
  RecordingExecutor executor_;
  std::unique_ptr<engine::EngineCore> core_;

  std::map<RequestId, DeterminismOutput> asks_;  // Under way.
  std::map<RequestId, int64_t> company_;         // Under way, and the step in which each leaves.
  int started_ = 0;                              // Asks.
  int in_flight_ = 0;
  Status failure_;
};

}  // namespace

std::vector<const kernels::Kernels*> TablesToAsk() {
  const char* forced = std::getenv("ROPEWAY_ISA");
  const kernels::Kernels* chosen = kernels::ChooseKernels(nullptr);
  if (chosen == nullptr) return {};
  std::vector<const kernels::Kernels*> tables = {chosen};
  if (forced != nullptr && forced[0] != '\0') return tables;
  for (const char* name : {"avx512vnni", "avx2"}) {
    const kernels::Kernels* table = kernels::KernelsByName(name);
    if (table != nullptr && table != chosen) tables.push_back(table);
  }
  return tables;
}

RoundSettings DrawSettings(int round, const std::vector<const kernels::Kernels*>& tables,
                           int longest, int cores, base::Random* random) {
  RoundSettings settings;
  const auto index = static_cast<size_t>(round);
  settings.kernels = tables[index / 2 % tables.size()];
  settings.prefix_caching = (round + round / 2 + round / 4) % 2 == 1;
  const int most = std::max(2, cores);
  settings.threads = round % 2 == 0 ? static_cast<int>(random->Between(2, most)) : 1;
  settings.max_num_batched_tokens = LogUniform(16, 512, random);
  settings.max_prefill_chunk = random->Chance(0.75) ? LogUniform(1, 32, random) : 0;
  settings.max_num_seqs =
      std::min(static_cast<int>(random->Between(6, 32)), settings.max_num_batched_tokens);
  const int longest_blocks = (longest + base::kBlockTokens - 1) / base::kBlockTokens;
  const bool tight = round % 4 != 3;
  // Asks share their prompt's blocks, so that less than two sequences' worth is tight.
  settings.num_blocks = tight
                            ? longest_blocks + static_cast<int>(random->Between(1, longest_blocks))
                            : longest_blocks * settings.max_num_seqs;
  return settings;
}

core::CoreRequest DrawCompany(RequestId id, int32_t vocab_size, base::Random* random) {
  core::CoreRequest request;
  request.id = id;
  const int64_t length = random->Between(1, kMaxCompanyPrompt);
  for (int64_t i = 0; i < length; ++i) {
    const auto token = random->Below(static_cast<uint64_t>(vocab_size));
    request.prompt.push_back(static_cast<TokenId>(token));
  }
  request.max_tokens = static_cast<int32_t>(random->Between(1, kMaxCompanyTokens));
  request.ignore_eos = random->Chance(0.5);
  core::SampleSpec& spec = request.spec;
  spec.seed = random->Next64();
  if (random->Chance(0.3)) spec.num_logprobs = static_cast<int32_t>(random->Between(0, 20));
  if (random->Chance(0.1)) spec.num_prompt_logprobs = 0;
  SamplingParams& params = spec.params;
  params.temperature = random->Chance(0.4) ? 0.0F : Tenths(1, 20, random);
  if (random->Chance(0.3)) params.top_p = Tenths(1, 9, random);
  if (random->Chance(0.3)) params.top_k = static_cast<int32_t>(random->Between(1, 100));
  if (random->Chance(0.2)) params.min_p = Tenths(0, 5, random);
  if (random->Chance(0.1)) params.typical_p = Tenths(2, 9, random);
  if (random->Chance(0.2)) params.repetition_penalty = Tenths(8, 15, random);
  if (random->Chance(0.1)) params.presence_penalty = Tenths(-10, 10, random);
  return request;
}

DeterminismEngine::DeterminismEngine(std::shared_ptr<const executor::Weights> model,
                                     DeterminismEngineOptions options,
                                     std::vector<const kernels::Kernels*> tables)
    : model_(std::move(model)), options_(std::move(options)), tables_(std::move(tables)) {}

int DeterminismEngine::LongestRequest(const DeterminismEngineOptions& options) {
  const int ask = static_cast<int>(options.prompt.size()) + options.output_tokens;
  return std::max(ask, kMaxCompanyPrompt + kMaxCompanyTokens);
}

Status DeterminismEngine::Run(const std::function<void(const DeterminismRound&)>& on_round) {
  base::SeededRandom random(options_.seed);
  const int longest = LongestRequest(options_);
  int done = 0;
  for (int i = 0; i < options_.rounds; ++i) {
    DeterminismRound round;
    round.settings = DrawSettings(i, tables_, longest, engine::PhysicalCores(), &random);
    if (i == 0) {  // What all others must equal.
      if (Status status = Crowd(model_, options_, &round, &random, &outputs_).Run(1, 0);
          !status.ok()) {
        return status;
      }
      done = 1;
      round = {.settings = round.settings};
    }
    const int until = static_cast<int>(int64_t{options_.asks} * (i + 1) / options_.rounds);
    Crowd crowd(model_, options_, &round, &random, &outputs_);
    if (Status status = crowd.Run(until - done, options_.company); !status.ok()) return status;
    done = until;
    round.distinct = static_cast<int>(outputs_.size());
    on_round(round);
  }
  return {};
}

}  // namespace ropeway::bench
