// Runs the executor over given token ids, one position a step, and writes what it computed, for
// tests/oracle.py:
//
//   forward_dump MODEL.gguf FULL OUT < ids
//
// OUT: float32; the log-probabilities of the whole vocabulary at each of the first FULL positions
// ([FULL][vocab]), then at each position but the last the log-probability of the id that follows.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <vector>

#include "executor/cpu_executor.h"
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/model.h"

namespace ropeway {
namespace {

int Fail(const std::string& message) {
  std::fprintf(stderr, "forward_dump: %s\n", message.c_str());
  return 1;
}

int Dump(const char* path, size_t full, const char* out_path) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; std::cin >> id;) ids.push_back(id);
  if (ids.size() < full) return Fail("fewer ids than FULL");

  auto file = GgufFile::Open(path);
  if (!file.ok()) return Fail(file.status().message());
  auto model = Model::Load(**file, 2);
  if (!model.ok()) return Fail(model.status().message());
  const std::shared_ptr<const Model> shared = *std::move(model);
  const auto vocab = static_cast<size_t>(shared->config().vocab_size);

  CpuExecutor executor(shared, ChooseKernels(nullptr), 2);
  const auto blocks = static_cast<int64_t>(ids.size() / kBlockTokens + 1);
  const auto block_bytes = static_cast<int64_t>(shared->config().kv_block_bytes());
  auto layout = executor.Init(blocks * block_bytes, 16, 1);
  if (!layout.ok()) return Fail(layout.status().message());

  std::ofstream out(out_path, std::ios::binary);
  std::vector<float> next;
  Batch batch;
  batch.items.resize(1);
  BatchItem& item = batch.items[0];
  for (BlockId b = 0; b < layout->num_blocks; ++b) item.blocks.push_back(b);
  item.sample = true;
  item.spec.params.temperature = 0;
  item.spec.prompt_len = 1;
  item.spec.num_logprobs = static_cast<int32_t>(vocab);
  for (size_t i = 0; i < ids.size(); ++i) {
    item.start = static_cast<int32_t>(i);
    item.tokens = {ids[i]};
    executor.Launch(batch);
    auto result = executor.Wait();
    if (!result.ok()) return Fail(result.status().message());
    std::vector<float> row(vocab);
    for (const TokenLogprob& t : result->sampled[0].top_logprobs) {
      row[static_cast<size_t>(t.id)] = t.logprob;
    }
    if (i < full) {
      out.write(reinterpret_cast<const char*>(row.data()),
                static_cast<std::streamsize>(vocab * sizeof(float)));
    }
    if (i + 1 < ids.size()) next.push_back(row[static_cast<size_t>(ids[i + 1])]);
  }
  out.write(reinterpret_cast<const char*>(next.data()),
            static_cast<std::streamsize>(next.size() * sizeof(float)));
  return out ? 0 : Fail("cannot write OUT");
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: forward_dump MODEL.gguf FULL OUT < ids\n");
    return 1;
  }
  return ropeway::Dump(argv[1], std::strtoul(argv[2], nullptr, 10), argv[3]);
}
