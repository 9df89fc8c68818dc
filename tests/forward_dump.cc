// Runs the executor over given token ids and writes what it computed, for tests/oracle.py:
//
//   forward_dump MODEL.gguf FULL OUT < ids
//
// OUT: float32; the log-probabilities of the whole vocabulary at each of the first FULL positions
// ([FULL][vocab]), computed one position a step; then at each position but the last the
// log-probability of the id that follows, scored as a prompt in chunks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <span>
#include <vector>

#include "executor/cpu_executor.h"
#include "executor/weights.h"
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/open_model.h"

namespace ropeway::test {
namespace {

int Fail(const std::string& message) {
  std::fprintf(stderr, "forward_dump: %s\n", message.c_str());
  return 1;
}

constexpr size_t kChunk = 16;

void Write(const std::vector<float>& floats, std::ofstream* out) {
  out->write(reinterpret_cast<const char*>(floats.data()),
             static_cast<std::streamsize>(floats.size() * sizeof(float)));
}

StatusOr<core::StepResult> Step(executor::Executor* executor, const core::Batch& batch) {
  executor->Launch(batch);
  return executor->Wait();
}

// The log-probs of the whole vocabulary after each of the first `full` ids.
Status DumpRows(const std::vector<TokenId>& ids, size_t full, size_t vocab,
                executor::Executor* executor, core::Batch* batch, std::ofstream* out) {
  core::BatchItem& item = batch->items[0];
  item.sample = true;
  core::SampleSpec spec;
  spec.params.temperature = 0;
  spec.num_logprobs = static_cast<int32_t>(vocab);
  item.spec = &spec;
  for (size_t i = 0; i < full; ++i) {
    item.start = static_cast<int32_t>(i);
    item.tokens = std::span(ids).subspan(i, 1);
    auto result = Step(executor, *batch);
    if (!result.ok()) return result.status();
    std::vector<float> row(vocab);
    for (const TokenLogprob& t : result->sampled[0].top_logprobs) {
      row[static_cast<size_t>(t.id)] = t.logprob;
    }
    Write(row, out);
  }
  item.spec = &core::kDefaultSampleSpec;
  return {};
}

// The log-prob of each id but the first.
Status DumpScores(const std::vector<TokenId>& ids, executor::Executor* executor, core::Batch* batch,
                  std::ofstream* out) {
  core::BatchItem& item = batch->items[0];
  item.sample = false;
  item.ids = ids;
  for (size_t begin = 0; begin + 1 < ids.size(); begin += kChunk) {
    const size_t end = std::min(begin + kChunk, ids.size());
    item.start = static_cast<int32_t>(begin);
    item.tokens = std::span(ids).subspan(begin, end - begin);
    item.score_begin = item.start + 1;
    item.score_end = static_cast<int32_t>(std::min(end + 1, ids.size()));
    auto result = Step(executor, *batch);
    if (!result.ok()) return result.status();
    std::vector<float> scores;
    for (const core::Scored& scored : result->scored) scores.push_back(scored.logprob);
    Write(scores, out);
  }
  return {};
}

int Dump(const char* path, size_t full, const char* out_path) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; std::cin >> id;) ids.push_back(id);
  if (ids.size() < full) return Fail("fewer ids than FULL");

  auto file = model::OpenModel(path);
  if (!file.ok()) return Fail(file.status().message());
  auto model = executor::Weights::Load(**file, 2);
  if (!model.ok()) return Fail(model.status().message());
  const std::shared_ptr<const executor::Weights> shared = *std::move(model);

  executor::CpuExecutor executor(shared, kernels::ChooseKernels(nullptr), 2);
  const auto blocks = static_cast<int64_t>(ids.size() / base::kBlockTokens + 1);
  const auto bytes =
      static_cast<int64_t>(shared->config().kv_bytes_of_all_groups(kernels::KvType::kF16));
  auto layout = executor.Init(blocks * bytes, kChunk, 1);
  if (!layout.ok()) return Fail(layout.status().message());

  std::ofstream out(out_path, std::ios::binary);
  core::Batch batch;
  core::BatchItem& item = batch.items.emplace_back();
  std::vector<core::BlockId> table(static_cast<size_t>(layout->num_blocks));
  std::iota(table.begin(), table.end(), 0);
  item.blocks = table;
  const auto vocab = static_cast<size_t>(shared->config().vocab_size);
  Status status = DumpRows(ids, full, vocab, &executor, &batch, &out);
  if (status.ok()) status = DumpScores(ids, &executor, &batch, &out);
  if (!status.ok()) return Fail(status.message());
  return out ? 0 : Fail("cannot write OUT");
}

}  // namespace
}  // namespace ropeway::test

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: forward_dump MODEL.gguf FULL OUT < ids\n");
    return 1;
  }
  return ropeway::test::Dump(argv[1], std::strtoul(argv[2], nullptr, 10), argv[3]);
}
