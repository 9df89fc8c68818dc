#include "determinism_harness.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/clock.h"
#include "executor/cpu_executor.h"
#include "model/open_model.h"
#include "policy/policies.h"

namespace ropeway::test::testing {
namespace {

class StoppedClock final : public base::Clock {
 public:
  base::TimePoint Now() const override { return std::chrono::seconds(1); }
};

// Passes everything on to the real executor and notes each batch's shape.
class RecordingExecutor final : public executor::Executor {
 public:
  RecordingExecutor(executor::Executor* real, const CrowdOptions& options, RunShape* shape)
      : real_(real), options_(options), shape_(shape) {}

  StatusOr<executor::KvLayout> Init(int64_t bytes, int tokens, int seqs) override {
    return real_->Init(bytes, tokens, seqs);
  }
  void Launch(const core::Batch& batch) override {
    bool prefill = false;
    bool decode = false;
    for (const core::BatchItem& item : batch.items) {
      const int rows = static_cast<int>(item.tokens.size());
      const bool is_decode = item.start >= item.spec->prompt_len && rows == 1;
      (is_decode ? decode : prefill) = true;
      if (!is_decode) shape_->chunks.insert(rows);
      shape_->rows += rows;
    }
    ++shape_->steps;
    if (prefill && decode) ++shape_->mixed_steps;
    real_->Launch(batch);
  }
  StatusOr<core::StepResult> Wait() override { return real_->Wait(); }
  void ReadBlock(core::BlockId block, std::span<std::byte> bytes) override {
    real_->ReadBlock(block, bytes);
  }
  Status FinishReads() override { return real_->FinishReads(); }
  void WriteBlock(core::BlockId block, std::span<const std::byte> bytes) override {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (options_.spoil_write) options_.spoil_write(copy);
    ++shape_->written_blocks;
    real_->WriteBlock(block, copy);
  }

 private:
  executor::Executor* real_;
  const CrowdOptions& options_;
  RunShape* shape_;
};

void Record(const std::vector<engine::CoreEvent>& events, RunResult* result) {
  const auto note = [](float logprob, const std::vector<TokenLogprob>& tops,
                       std::vector<uint32_t>* bits) {
    bits->push_back(std::bit_cast<uint32_t>(logprob));
    for (const TokenLogprob& top : tops) {
      bits->push_back(static_cast<uint32_t>(top.id));
      bits->push_back(std::bit_cast<uint32_t>(top.logprob));
    }
  };
  for (const engine::CoreEvent& event : events) {
    Output& output = result->outputs[event.id];
    if (event.kind == engine::CoreEvent::Kind::kFailed) ADD_FAILURE() << event.status.message();
    if (event.kind == engine::CoreEvent::Kind::kFinished) {
      result->cached_tokens[event.id] = event.cached_tokens;
    }
    if (event.kind == engine::CoreEvent::Kind::kToken) {
      EXPECT_FALSE(event.sampled.invalid);
      output.tokens.push_back(event.sampled.token);
      note(event.sampled.logprob, event.sampled.top_logprobs, &output.logprob_bits);
    }
    for (const core::Scored& scored : event.scored) {
      EXPECT_EQ(scored.position, static_cast<int32_t>(output.scored.size()));
      output.scored.push_back(scored.token);
      note(scored.logprob, scored.top_logprobs, &output.scored_bits);
    }
  }
}

}  // namespace

std::shared_ptr<const executor::Weights> TestModel() {
  static const std::shared_ptr<const executor::Weights> model = [] {
    const char* path = std::getenv("ROPEWAY_DETERMINISM_MODEL");
    if (path == nullptr) path = std::getenv("ROPEWAY_TEST_MODEL");
    if (path == nullptr) {
      ADD_FAILURE() << "ROPEWAY_TEST_MODEL must name the default model's file";
      std::abort();
    }
    auto file = model::OpenModel(path);
    if (!file.ok()) {
      ADD_FAILURE() << file.status().message();
      std::abort();
    }
    auto loaded = executor::Weights::Load(**file, 2, kMaxModelLen);
    if (!loaded.ok()) {
      ADD_FAILURE() << loaded.status().message();
      std::abort();
    }
    return std::shared_ptr<const executor::Weights>(*std::move(loaded));
  }();
  return model;
}

namespace {

// All that a request can ask of the sampler beyond temperature, top_k, top_p and min_p.
void AddRareParameters(int i, core::CoreRequest* request) {
  SamplingParams& params = request->spec.params;
  if (i % 6 == 2) {
    params.repetition_penalty = 1.2F;
    params.presence_penalty = 0.5F;
    params.frequency_penalty = -0.3F;
  }
  if (i % 7 == 4) {
    for (TokenId id = 5; id < 40000; id += 97) params.logit_bias.push_back({id, 0.03F * 97});
  }
  if (i % 9 == 5) {
    request->ignore_eos = false;
    request->spec.end_ids = {2, 198};
    request->stop_ids = {198};
    params.min_tokens = request->max_tokens / 2;
  }
  if (i % 10 == 7) params.typical_p = 0.9F;
  if (i % 5 == 1) request->spec.num_prompt_logprobs = i % 4;
  if (i == 11) request->max_tokens = 0;  // Only scores its prompt.
}

}  // namespace

std::vector<core::CoreRequest> DifferentRequests(int count) {
  std::mt19937_64 random(20261121);
  auto pick = [&](int low, int high) {
    return static_cast<int32_t>(static_cast<uint64_t>(low) +
                                random() % static_cast<uint64_t>(high - low + 1));
  };
  std::vector<core::CoreRequest> requests;
  for (int i = 0; i < count; ++i) {
    core::CoreRequest request;
    request.id = static_cast<RequestId>(i + 1);
    const int length = i == 0 ? 1 : i % 15 == 3 ? pick(513, 560) : pick(60, 120 + 6 * i);
    for (int t = 0; t < length; ++t) request.prompt.push_back(pick(300, 20000));
    request.max_tokens = pick(24, 64);
    request.ignore_eos = i % 3 != 0;
    core::SampleSpec& spec = request.spec;
    spec.seed = random();
    spec.params.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    if (i % 4 == 1) spec.params.top_p = 0.9F;
    if (i % 4 == 3) spec.params.top_k = 40;
    if (i % 8 == 5) spec.params.min_p = 0.05F;
    spec.num_logprobs = i % 5;
    AddRareParameters(i, &request);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<core::CoreRequest> ChoicesOf(core::CoreRequest request, uint32_t n) {
  std::vector<core::CoreRequest> choices;
  for (uint32_t choice = 0; choice < n; ++choice) {
    request.spec.choice = choice;
    choices.push_back(request);
    ++request.id;
  }
  return choices;
}

namespace {

void RunSteps(const std::vector<core::CoreRequest>& requests, const CrowdOptions& options,
              engine::EngineCore* core) {
  std::mt19937_64 random(options.arrival_seed);
  size_t next = 0;
  const auto arrives = [&] {
    return core->idle() ||
           (!options.one_by_one && (options.arrival_seed == 0 || random() % 3 != 0));
  };
  for (int step = 1; next < requests.size() || !core->idle(); ++step) {
    while (next < requests.size() && arrives()) {
      const Status added = core->Add(requests[next++]);
      EXPECT_TRUE(added.ok()) << added.message();
    }
    core->Step();
    if (step == options.max_steps) return;
    // All that run wait for a tier that has threads of its own.
    if (core->stats().fetching > 0 && core->stats().last_rows == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  // As EngineLoop does between requests.
  while (core->has_background()) {
    if (!core->Background()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace

RunResult RunCrowd(const std::vector<core::CoreRequest>& requests, const CrowdOptions& options,
                   const kernels::Kernels* kernels) {
  RunResult result;
  const std::shared_ptr<const executor::Weights> model =
      options.model != nullptr ? options.model : TestModel();
  executor::CpuExecutor cpu(model, kernels, options.threads, options.kv_type);
  RecordingExecutor executor(&cpu, options, &result.shape);
  engine::EngineCoreOptions core_options;
  core_options.scheduler.max_num_seqs = options.max_num_seqs;
  core_options.scheduler.max_num_batched_tokens = 576;
  core_options.scheduler.max_prefill_chunk = options.chunk;
  // None is rejected, and a prompt may fill a step.
  core_options.queue.max_wait = std::chrono::hours(24 * 365);
  core_options.scheduler.long_prefill_threshold = 0;
  core_options.step.long_rope_above = model->config().long_rope_above();
  core_options.max_model_len = options.max_model_len;
  core_options.cache.prefix_caching = options.prefix_caching;
  if (options.checkpoint_always) core_options.cache.preempt_checkpoint = "always";
  core_options.tier = options.tier;
  core_options.is_end = [](TokenId id) { return id == 2; };
  const auto bytes = static_cast<int64_t>(model->config().kv_block_bytes(options.kv_type));
  auto layout =
      executor.Init(options.pool_blocks * bytes, core_options.scheduler.max_num_batched_tokens,
                    core_options.scheduler.max_num_seqs);
  if (!layout.ok()) {
    ADD_FAILURE() << layout.status().message();
    return result;
  }

  const StoppedClock clock;
  policy::FcfsPolicy policy;
  engine::EngineCore core(core_options, *layout, &executor, &policy, &clock,
                          [&](std::vector<engine::CoreEvent> events) { Record(events, &result); });
  RunSteps(requests, options, &core);
  const Status sound = core.CheckIntegrity();
  EXPECT_TRUE(sound.ok()) << sound.message();
  result.stats = core.stats();
  result.transitions = core.transitions();
  result.shape.preemptions = core.stats().preemptions;
  return result;
}

std::map<RequestId, Output> RunAlone(const std::vector<core::CoreRequest>& requests,
                                     const kernels::Kernels* kernels, kernels::KvType kv_type,
                                     const std::shared_ptr<const executor::Weights>& model) {
  std::map<RequestId, Output> outputs;
  for (const core::CoreRequest& request : requests) {
    RunResult result =
        RunCrowd({request}, {.model = model, .kv_type = kv_type, .prefix_caching = false}, kernels);
    outputs.merge(result.outputs);
  }
  return outputs;
}

}  // namespace ropeway::test::testing
