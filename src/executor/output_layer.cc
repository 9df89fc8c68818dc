#include "executor/output_layer.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "executor/sample_row.h"

namespace ropeway::executor {
namespace {

constexpr size_t kMaxLogitsBytes = size_t{64} << 20;

int LogitsRows(int vocab_size, int max_rows) {
  const size_t row_bytes = Product(OddLines(vocab_size), sizeof(float));
  return static_cast<int>(std::clamp<size_t>(
      kMaxLogitsBytes / row_bytes, 1, static_cast<size_t>(std::min(max_rows, kMaxLogitsRows))));
}

}  // namespace

OutputLayer::Worker::Worker(const Weights& weights, const kernels::Kernels& kernels, int rows,
                            int part_floats)
    : packer(weights, kernels, rows),
      sampler(&kernels, weights.config().vocab_size),
      part(static_cast<size_t>(part_floats) + Product(rows, kernels::kPanelCols)),
      best(static_cast<size_t>(rows)) {}

OutputLayer::OutputLayer(const Weights& weights, const kernels::Kernels& kernels,
                         base::WorkerTeam* team, const base::Clock& clock, int max_rows,
                         std::vector<TokenId> absent, int part_floats)
    : weights_(weights),
      kernels_(kernels),
      team_(team),
      clock_(clock),
      absent_(std::move(absent)),
      part_floats_(part_floats),
      logits_rows_(LogitsRows(weights.config().vocab_size, max_rows)),
      logits_stride_(OddLines(weights.config().vocab_size)),
      hidden_(Product(max_rows, weights.config().hidden_size)),
      logits_(Product(logits_rows_, logits_stride_)) {
  workers_.reserve(static_cast<size_t>(team->size()));
  for (int i = 0; i < team->size(); ++i) {
    workers_.emplace_back(weights, kernels, logits_rows_, part_floats);
  }
}

OutputLayer::Panels OutputLayer::PanelsOf(int worker) const {
  const int panels = weights_.output().num_panels();
  return {ShareBegin(panels, worker, team_->size()), ShareBegin(panels, worker + 1, team_->size())};
}

int OutputLayer::PartPanels(int rows) const {
  return std::max(part_floats_ / (rows * kernels::kPanelCols), 1);
}

void OutputLayer::Compute(const core::Batch& batch, const StepPlan& plan, int worker,
                          core::StepResult* result) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  const kernels::Matrix& output = weights_.output();
  const int workers = team_->size();
  const Panels own = PanelsOf(worker);
  Chunk chunk = {&batch, &plan, result, 0, 0};
  Pool(plan, worker, result);
  for (; chunk.begin < plan.num_logits(); chunk.begin += logits_rows_) {
    chunk.rows = std::min(logits_rows_, plan.num_logits() - chunk.begin);
    team_->Barrier();  // hidden_ is complete, and the logits of the last chunk are used up.
    const float* x = hidden_.data() + Product(chunk.begin, output.k);
    const std::byte* packed = w.packer.NormAndPack(
        output.type, x, chunk.rows, weights_.output_norm(), weights_.output_norm_bias());
    const bool only_largest = OnlyLargestWanted(batch, plan, chunk.begin, chunk.rows);
    if (only_largest) {
      FindLargest(chunk, packed, worker);
    } else {
      kernels_.matmul(output, packed, chunk.rows, own.begin, own.end, logits_.data(),
                      logits_stride_);
      const int begin = own.begin * kernels::kPanelCols;
      const int end = std::min(own.end * kernels::kPanelCols, output.n);
      Finish(chunk.rows, begin, end - begin, logits_.data() + begin, logits_stride_);
    }
    team_->Barrier();
    const base::TimePoint begin = clock_.Now();
    for (int row = worker; row < chunk.rows; row += workers) {
      if (only_largest) {
        ReportBest(chunk, row);
      } else {
        const std::span<const float> logits(logits_.data() + row * logits_stride_,
                                            static_cast<size_t>(weights_.config().vocab_size));
        SampleOrScore(batch, plan, static_cast<size_t>(chunk.begin + row), logits, clock_,
                      &w.sampler, result);
      }
    }
    w.sampling += clock_.Now() - begin;
  }
}

// Each worker normalises some of the rows, if there is a norm at the end, then adds some of their
// columns: an element's sum is in the order of positions.
void OutputLayer::Pool(const StepPlan& plan, int worker, core::StepResult* result) {
  if (plan.pooled().empty()) return;
  const int hidden = weights_.config().hidden_size;
  const Worker& w = workers_[static_cast<size_t>(worker)];
  team_->Barrier();  // hidden_ is complete.
  const bool norm = weights_.output_norm() != nullptr;
  for (int row = plan.num_logits() + worker; norm && row < plan.outputs().size();
       row += team_->size()) {
    float* const x = hidden_.data() + Product(row, hidden);
    w.packer.Norm(x, weights_.output_norm(), weights_.output_norm_bias(), x);
  }
  team_->Barrier();
  const int begin = ShareBegin(hidden, worker, team_->size());
  const int columns = ShareBegin(hidden, worker + 1, team_->size()) - begin;
  for (size_t i = 0; i < plan.pooled().size(); ++i) {
    float* const sum = result->pooled[i].sum.data() + begin;
    for (int row = plan.pooled()[i].begin; row < plan.pooled()[i].end; ++row) {
      kernels_.add(sum, hidden_.data() + Product(row, hidden) + begin, columns);
    }
  }
}

void OutputLayer::FindLargest(const Chunk& chunk, const std::byte* packed, int worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  const Panels own = PanelsOf(worker);
  std::fill(w.best.begin(), w.best.end(), Best{-std::numeric_limits<float>::infinity(), 0});
  const int at_once = PartPanels(chunk.rows);
  const int64_t stride = OddLines(int64_t{at_once} * kernels::kPanelCols);
  for (int begin = own.begin; begin < own.end; begin += at_once) {
    const int end = std::min(begin + at_once, own.end);
    const kernels::Matrix part = weights_.output().PanelRange(begin, end);
    kernels_.matmul(part, packed, chunk.rows, 0, end - begin, w.part.data(), stride);
    Finish(chunk.rows, begin * kernels::kPanelCols, part.n, w.part.data(), stride);
    const base::TimePoint searched_from = clock_.Now();
    for (int row = 0; row < chunk.rows; ++row) {
      const float* logits = w.part.data() + row * stride;
      const int32_t largest = kernels_.argmax(logits, part.n);
      Best& best = w.best[static_cast<size_t>(row)];
      // Columns ascend, so the first of equal logits stays.
      if (logits[largest] > best.logit)
        best = {logits[largest], begin * kernels::kPanelCols + largest};
    }
    w.sampling += clock_.Now() - searched_from;
  }
}

// Caps also where only the largest is wanted: that may make equals of two.
void OutputLayer::Finish(int rows, int first, int cols, float* logits, int64_t stride) const {
  FinishLogits(kernels_, weights_.config().logit_soft_cap, absent_, rows, first, cols, logits,
               stride);
}

void OutputLayer::ReportBest(const Chunk& chunk, int row) const {
  Best best = workers_[0].best[static_cast<size_t>(row)];
  for (const Worker& w : workers_) {
    const Best& other = w.best[static_cast<size_t>(row)];
    if (other.logit > best.logit) best = other;
  }
  ReportLargest(*chunk.batch, *chunk.plan, static_cast<size_t>(chunk.begin + row), best.logit,
                best.token, chunk.result);
}

base::Duration OutputLayer::TakeSamplingTime() {
  base::Duration longest{};
  for (Worker& w : workers_) {
    longest = std::max(longest, w.sampling);
    w.sampling = {};
  }
  return longest;
}

}  // namespace ropeway::executor
