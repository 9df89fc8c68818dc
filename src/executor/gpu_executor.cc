#include "executor/gpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "executor/kv_pool.h"
#include "executor/sample_row.h"

namespace ropeway::executor {
namespace {

// What the device's memory is too small for, with the option that decides it. Other errors stay.
Status DoesNotFit(const std::string& what, const Status& status, const char* field) {
  if (status.code() != StatusCode::kResourceExhausted) return status;
  return Status(status.code(), fmt::format("{} cannot be allocated: {}", what, status.message()),
                field);
}

}  // namespace

GpuExecutor::GpuExecutor(std::unique_ptr<gpu::Gpu> gpu, std::shared_ptr<const Weights> weights,
                         const kernels::Kernels* kernels, int threads, kernels::KvType kv_type,
                         std::vector<TokenId> absent)
    : gpu_(std::move(gpu)),
      model_(weights->model()),
      host_weights_(std::move(weights)),
      kernels_(kernels),
      threads_(threads),
      kv_type_(kv_type),
      absent_(AbsentRows(std::move(absent), model_->config().vocab_size)) {}

// What the device still reads is freed after it.
GpuExecutor::~GpuExecutor() { static_cast<void>(gpu_->Finish()); }

Status GpuExecutor::MakePool(int64_t kv_cache_bytes) {
  const model::ModelConfig& config = model_->config();
  pool_.type = kv_type_;
  pool_.groups = config.kv_groups();
  pool_.block_bytes = config.kv_block_bytes(kv_type_);
  pool_.head_bytes = kernels::KvHeadBlockBytes(kv_type_, config.head_dim);
  pool_.num_blocks = KvPool::BlocksIn(kv_cache_bytes, pool_.block_bytes);
  const size_t size = static_cast<size_t>(pool_.num_blocks) * pool_.block_bytes;
  StatusOr<std::unique_ptr<gpu::Buffer>> memory = gpu_->Allocate(size);
  if (!memory.ok()) {
    return DoesNotFit(fmt::format("--kv-cache-size: a KV cache of {} bytes", size), memory.status(),
                      "kv_cache_bytes");
  }
  pool_.memory = *std::move(memory);
  return {};
}

StatusOr<KvLayout> GpuExecutor::Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                     int max_num_seqs) {
  if (Status bad = CheckLimits(kv_cache_bytes, threads_, max_num_batched_tokens, max_num_seqs);
      !bad.ok()) {
    return bad;
  }
  try {
    StatusOr<std::unique_ptr<gpu::Ops>> ops = gpu::Ops::Make(gpu_.get());
    if (!ops.ok()) return ops.status();
    ops_ = *std::move(ops);
    auto weights = GpuModel::Upload(*host_weights_, gpu_.get(), ops_.get());
    // The copies are done before anything of the model or the device is given up.
    Status done = gpu_->Finish();
    if (!weights.ok()) return DoesNotFit("the weights", weights.status(), "model_path");
    if (!done.ok()) return done;
    weights_ = *std::move(weights);
    host_weights_.reset();
    if (Status made = MakePool(kv_cache_bytes); !made.ok()) return made;
    PlanLimits limits;
    limits.max_rows = max_num_batched_tokens;
    limits.max_seqs = max_num_seqs;
    limits.vocab_size = model_->config().vocab_size;
    limits.max_positions = model_->max_positions();
    limits.num_blocks = pool_.num_blocks;
    limits.num_kv_heads = model_->config().num_kv_heads;
    limits.windows = pool_.groups.windows;
    limits.causal = model_->config().causal;
    plan_ = std::make_unique<StepPlan>(limits);
    auto pass = GpuPass::Make(*model_, *weights_, pool_, gpu_.get(), ops_.get(), limits, absent_);
    if (!pass.ok()) {
      return DoesNotFit(fmt::format("--max-num-batched-tokens: the memory of a step of {} tokens",
                                    max_num_batched_tokens),
                        pass.status(), "max_num_batched_tokens");
    }
    pass_ = *std::move(pass);
    team_ = std::make_unique<base::WorkerTeam>(threads_);
    for (int i = 0; i < threads_; ++i) samplers_.emplace_back(kernels_, limits.vocab_size);
    if (weights_->output()) {
      const auto rows = static_cast<size_t>(pass_->logits_rows());
      logits_.resize(rows * static_cast<size_t>(limits.vocab_size));
      largest_.resize(rows);
    }
    if (Status sent = gpu_->Finish(); !sent.ok()) return sent;
  } catch (const std::exception& e) {  // No memory, or no more threads.
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot set up the executor: ") + e.what());
  }
  // No GPU was measured: what its steps are is guessed as of the small CPU, and learned.
  core::DeviceProfile profile;
  profile.memory_bytes =
      static_cast<int64_t>(weights_->bytes() + pool_.memory->size()) + pass_->bytes();
  return KvLayout{pool_.num_blocks, pool_.block_bytes, pool_.groups.windows, profile};
}

void GpuExecutor::Launch(const core::Batch& batch) {
  // Where no Wait followed the last one, the device may still read what this one changes.
  if (batch_ != nullptr) static_cast<void>(Finish());
  batch_ = &batch;
  begun_ = clock_.Now();
  launched_ = plan_->Build(batch);
  if (launched_.ok() && !batch.items.empty()) pass_->Begin(batch, *plan_);
  asked_for_ = clock_.Now();
}

StatusOr<core::StepResult> GpuExecutor::Wait() {
  const core::Batch* batch = std::exchange(batch_, nullptr);
  if (batch == nullptr) return Status(StatusCode::kInternal, "Wait was called without Launch");
  if (!launched_.ok()) return launched_;
  const base::TimePoint waited_from = clock_.Now();
  Status done;
  try {
    core::StepResult result =
        PrepareResult(*batch, model_->config().hidden_size,
                      model_->config().vocab_size - static_cast<int32_t>(absent_.size()));
    done = Collect(*batch, &result);
    if (done.ok()) {
      const base::TimePoint now = clock_.Now();
      result.beside = waited_from - asked_for_;
      result.forward = now - begun_ - result.beside;
      result.device_busy = now - begun_ - result.sampling;
      result.experts_read = pass_->TakeExpertsRead();
      result.copied_bytes = pass_->TakeCopiedBytes() + std::exchange(copied_bytes_, 0);
      return result;
    }
  } catch (const std::bad_alloc&) {
    done = Status(StatusCode::kResourceExhausted, "out of memory");  // Needs none itself.
  } catch (const std::exception& e) {
    done = Status(StatusCode::kInternal, std::string("a step failed: ") + e.what());
  }
  // The device may still read what the next step changes.
  if (Status lost = Finish(); !lost.ok()) return lost;
  return done;
}

Status GpuExecutor::Collect(const core::Batch& batch, core::StepResult* result) {
  const int rows = plan_->num_logits();
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  base::Duration sampling{};
  for (int begin = 0; begin < rows; begin += pass_->logits_rows()) {
    const int count = std::min(pass_->logits_rows(), rows - begin);
    const auto size = static_cast<size_t>(count);
    const bool only_largest = OnlyLargestWanted(batch, *plan_, begin, count);
    if (only_largest) {
      pass_->GetLargest(begin, count, std::span(logits_).first(size),
                        std::span(largest_).first(size));
    } else {
      pass_->GetLogits(begin, count, std::span(logits_).first(size * vocab));
    }
    if (Status done = Finish(); !done.ok()) return done;
    const base::TimePoint sampled_from = clock_.Now();
    if (only_largest) {
      for (size_t row = 0; row < size; ++row) {
        // The one number of the device's that others use as an index.
        if (largest_[row] < 0 || static_cast<size_t>(largest_[row]) >= vocab) {
          return Status(StatusCode::kInternal, fmt::format("the device {} is lost: {} is no token",
                                                           gpu_->info().name, largest_[row]));
        }
        ReportLargest(batch, *plan_, static_cast<size_t>(begin) + row, logits_[row], largest_[row],
                      result);
      }
    } else {
      Sample(batch, begin, count, result);
    }
    sampling += clock_.Now() - sampled_from;
  }
  result->sampling = sampling;
  if (Status pooled = Pool(result); !pooled.ok()) return pooled;
  return Finish();
}

void GpuExecutor::Sample(const core::Batch& batch, int begin, int rows, core::StepResult* result) {
  const int vocab = model_->config().vocab_size;
  team_->Run([&](int worker) {
    for (int row = worker; row < rows; row += threads_) {
      const std::span<const float> logits = std::span(logits_).subspan(
          static_cast<size_t>(row) * static_cast<size_t>(vocab), static_cast<size_t>(vocab));
      SampleOrScore(batch, *plan_, static_cast<size_t>(begin + row), logits, clock_,
                    &samplers_[static_cast<size_t>(worker)], result);
    }
  });
}

Status GpuExecutor::Pool(core::StepResult* result) {
  const int begin = plan_->num_logits();
  const int rows = plan_->outputs().size() - begin;
  if (rows == 0) return {};
  const int hidden = model_->config().hidden_size;
  hidden_.resize(static_cast<size_t>(rows) * static_cast<size_t>(hidden));
  pass_->GetHidden(begin, rows, hidden_);
  if (Status done = Finish(); !done.ok()) return done;
  for (size_t i = 0; i < plan_->pooled().size(); ++i) {
    const PooledRows& own = plan_->pooled()[i];
    for (int row = own.begin; row < own.end; ++row) {
      kernels_->add(result->pooled[i].sum.data(),
                    hidden_.data() + static_cast<size_t>(row - begin) * static_cast<size_t>(hidden),
                    hidden);
    }
  }
  return {};
}

Status GpuExecutor::Finish() {
  Status done = gpu_->Finish();
  staged_.clear();
  return done;
}

void GpuExecutor::ReadBlock(core::BlockId block, std::span<std::byte> bytes) {
  const uint64_t at = static_cast<uint64_t>(block) * pool_.block_bytes;
  gpu_->Read({pool_.memory.get(), at}, bytes);
  copied_bytes_ += std::ssize(bytes);
}

void GpuExecutor::WriteBlock(core::BlockId block, std::span<const std::byte> bytes) {
  constexpr size_t kMostStagedBytes = size_t{16} << 20;
  const gpu::View to = {pool_.memory.get(), static_cast<uint64_t>(block) * pool_.block_bytes};
  copied_bytes_ += std::ssize(bytes);
  if (staged_.size() * bytes.size() >= kMostStagedBytes) static_cast<void>(Finish());
  try {
    gpu_->Write(to, staged_.emplace_back(bytes.begin(), bytes.end()));
  } catch (const std::bad_alloc&) {  // Without a copy it waits.
    gpu_->Write(to, bytes);
    static_cast<void>(Finish());
  }
}

}  // namespace ropeway::executor
