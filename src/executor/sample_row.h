// The last step of a row on any device: its logits into a token, or into the score of a known one.
#ifndef ROPEWAY_EXECUTOR_SAMPLE_ROW_H_
#define ROPEWAY_EXECUTOR_SAMPLE_ROW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "executor/step_plan.h"
#include "kernels/kernels.h"
#include "sampling/sampler.h"

namespace ropeway::executor {

// The ids that are rows of the vocabulary, ascending, each once.
std::vector<TokenId> AbsentRows(std::vector<TokenId> ids, int32_t vocab_size);

// Room for all that the batch's items ask for: what StepResult has of each, with the tokens yet to
// be drawn. `tokens`: of the vocabulary, without those that are none. Throws std::bad_alloc.
core::StepResult PrepareResult(const core::Batch& batch, int hidden_size, int32_t tokens);

// Whether nothing is sampled for the item, since its mask is not filled.
inline bool WaitsForMask(const core::BatchItem& item) {
  return item.mask != nullptr && !item.mask->ready;
}

// Whether of the output rows [begin, begin + rows) only the largest logit matters, or nothing.
bool OnlyLargestWanted(const core::Batch& batch, const StepPlan& plan, int begin, int rows);

// Writes to `result` that output row `index` has its largest logit, `logit`, at `token`; minus
// infinity: it has none.
void ReportLargest(const core::Batch& batch, const StepPlan& plan, size_t index, float logit,
                   TokenId token, core::StepResult* result);

// Finishes the logits of the columns [first, first + cols) of each row: caps them where `soft_cap`
// is above 0, and makes those of `absent` (ascending ids) minus infinity. `logits` begins with
// column `first`.
void FinishLogits(const kernels::Kernels& kernels, float soft_cap,
                  const std::vector<TokenId>& absent, int rows, int first, int cols, float* logits,
                  int64_t stride);

// Writes to `result` what output row `index` of the plan asks for. `logits`: of the row, finished.
// One sampler a thread.
void SampleOrScore(const core::Batch& batch, const StepPlan& plan, size_t index,
                   std::span<const float> logits, const base::Clock& clock,
                   sampling::Sampler* sampler, core::StepResult* result);

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_SAMPLE_ROW_H_
