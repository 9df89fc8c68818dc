#include "executor/test_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <stdexcept>

#include "model/open_model.h"

namespace ropeway::executor::testing {

std::shared_ptr<const Weights> LoadTiny(const model::TinyLlamaOptions& options) {
  return LoadGguf(model::TinyLlama(options));
}

std::shared_ptr<const Weights> LoadGguf(const model::GgufWriter& writer) {
  const model::TempFile file(writer.Bytes());
  auto gguf = model::OpenModel(file.path());
  if (!gguf.ok()) throw std::runtime_error(gguf.status().message());
  auto weights = Weights::Load(**gguf, 1);
  if (!weights.ok()) throw std::runtime_error(weights.status().message());
  return std::move(*weights);
}

const std::shared_ptr<const Weights>& TinyModel() {
  static const auto& model = *new std::shared_ptr<const Weights>(LoadTiny());
  return model;
}

model::TinyLlamaOptions EveryWeightType() {
  model::TinyLlamaOptions options;
  options.types.assign(std::begin(kernels::kWeightTypes), std::end(kernels::kWeightTypes));
  options.embedding = kernels::WeightType::kQ6_K;
  options.tied = false;
  options.layers = 3;
  options.hidden = 256;  // A whole stored block of the K types.
  options.head_dim = 64;
  options.ffn = 256;
  return options;
}

const kernels::Kernels* Best() { return kernels::ChooseKernels(nullptr); }

Sequence MakeSequence(int prompt_len, int generate, uint64_t seed, float temperature) {
  Sequence sequence;
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int i = 0; i < prompt_len; ++i) {
    sequence.ids.push_back(static_cast<TokenId>(random() % model::kTinyVocab));
  }
  sequence.prompt_len = prompt_len;
  sequence.generate = generate;
  sequence.spec.params.temperature = temperature;
  sequence.spec.params.top_p = seed % 3 == 0 ? 0.9F : 1.0F;
  sequence.spec.params.top_k = seed % 4 == 0 ? 20 : 0;
  sequence.spec.seed = seed;
  sequence.spec.prompt_len = prompt_len;
  sequence.spec.num_logprobs = 5;
  return sequence;
}

std::vector<uint32_t> MaskAt(const Sequence& s, size_t num_ids) {
  std::mt19937 random(s.mask_seed * 1000 + static_cast<uint32_t>(num_ids));
  std::vector<uint32_t> words((model::kTinyVocab + 31) / 32);
  for (uint32_t& word : words) {
    const auto bits = static_cast<uint32_t>(random());
    word = bits & static_cast<uint32_t>(random());
  }
  return words;
}

// Twelve requests of all kinds.
std::vector<Sequence> Crowd() {
  std::vector<Sequence> crowd;
  const std::vector<int> prompts = {1, 5, 16, 17, 33, 64, 90, 2, 130, 31, 48, 7};
  for (size_t i = 0; i < prompts.size(); ++i) {
    crowd.push_back(MakeSequence(prompts[i], 9, i + 1, i % 3 == 0 ? 0.0F : 0.9F));
    crowd.back().joins = static_cast<int32_t>(i / 2);
  }
  return crowd;
}

std::unique_ptr<Executor> MakeCpuExecutor(const std::shared_ptr<const Weights>& model,
                                          const How& how) {
  return std::make_unique<CpuExecutor>(model, how.kernels != nullptr ? how.kernels : Best(),
                                       how.threads, how.kv_type, how.absent);
}

Runner::Runner(std::shared_ptr<const Weights> model, const How& how, int max_seqs)
    : how_(how),
      long_rope_above_(model->config().long_rope_above()),
      causal_(model->config().causal),
      executor_(how.make(model, how)) {
  auto layout = executor_->Init(kPoolBytes, how.max_rows, max_seqs);
  if (!layout.ok()) throw std::runtime_error(layout.status().message());
  layout_ = *layout;
  free_.resize(static_cast<size_t>(layout_.num_blocks));
  std::iota(free_.begin(), free_.end(), 0);
  if (how.shuffle != 0) std::shuffle(free_.begin(), free_.end(), std::mt19937(how.shuffle));
  if (!how.poison) return;
  const std::vector<std::byte> nan(layout_.block_bytes, std::byte{0xFF});
  for (core::BlockId block = 0; block < layout_.num_blocks; ++block)
    executor_->WriteBlock(block, nan);
}

double Runner::Run(std::vector<Sequence>* sequences) {
  int steps = 0;
  int rows = 0;
  for (int step = 0;; ++step) {
    core::Batch batch;
    std::vector<Sequence*> in_batch;
    bool left = false;
    int budget = how_.max_rows;
    for (Sequence& s : *sequences) {
      left = left || !s.done();
      if (s.done() || step < s.joins || budget == 0) continue;
      if (!causal_ && budget < s.prompt_len) continue;
      AddItem(&s, &budget, &batch);
      in_batch.push_back(&s);
    }
    if (!left) break;
    if (batch.items.empty()) continue;
    ++steps;
    rows += batch.num_tokens();
    executor_->Launch(batch);
    for (Sequence* s : in_batch) {
      s->mask_words = MaskAt(*s, s->ids.size());
      s->mask = {s->mask_words, true};
    }
    auto result = executor_->Wait();
    if (!result.ok()) throw std::runtime_error(result.status().message());
    Take(*result, in_batch, batch);
  }
  return static_cast<double>(rows) / steps;
}

// Results come in the order of items, and carry no index of theirs.
void Runner::Take(const core::StepResult& result, const std::vector<Sequence*>& in_batch,
                  const core::Batch& batch) {
  size_t sampled = 0;
  size_t scored = 0;
  size_t pooled = 0;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const core::BatchItem& item = batch.items[i];
    for (int32_t position = item.score_begin; position < item.score_end; ++position) {
      in_batch[i]->scored.push_back(result.scored.at(scored++));
    }
    if (item.pool_begin < item.pool_end) in_batch[i]->pool_sum = result.pooled.at(pooled++).sum;
    if (!item.sample) continue;
    in_batch[i]->sampled.push_back(result.sampled.at(sampled++));
    in_batch[i]->ids.push_back(in_batch[i]->sampled.back().token);
  }
  EXPECT_EQ(sampled, result.sampled.size());
  EXPECT_EQ(scored, result.scored.size());
  EXPECT_EQ(pooled, result.pooled.size());
}

std::vector<std::byte> Runner::KvBytes(const Sequence& s) {
  std::vector<std::byte> all;
  const size_t groups = layout_.windows.size();
  for (int b = 0; b < s.computed / base::kBlockTokens; ++b) {
    for (size_t g = 0; g < groups; ++g) {
      if (b < FirstBlock(g, s.computed)) continue;
      std::vector<std::byte> bytes(layout_.block_bytes);
      executor_->ReadBlock(s.blocks[static_cast<size_t>(b) * groups + g], bytes);
      EXPECT_TRUE(executor_->FinishReads().ok());
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  return all;
}

void Runner::DropUnseen(Sequence* s) {
  const size_t groups = layout_.windows.size();
  const std::vector<std::byte> nan(layout_.block_bytes, std::byte{0xFF});
  for (size_t g = 0; g < groups; ++g) {
    for (int b = 0; b < FirstBlock(g, s->computed); ++b) {
      core::BlockId& block = s->blocks[static_cast<size_t>(b) * groups + g];
      if (block == core::kNoBlock) continue;
      executor_->WriteBlock(block, nan);
      block = core::kNoBlock;
    }
  }
}

void Runner::AddItem(Sequence* s, int* budget, core::Batch* batch) {
  const auto left = static_cast<int32_t>(s->ids.size()) - s->computed;
  const int32_t count = causal_ ? std::min({left, how_.chunk, *budget}) : left;
  *budget -= count;
  if (how_.drop_unseen) DropUnseen(s);
  core::BatchItem item;
  item.start = s->computed;
  item.tokens = std::span<const TokenId>(s->ids).subspan(static_cast<size_t>(s->computed),
                                                         static_cast<size_t>(count));
  s->computed += count;
  const size_t groups = layout_.windows.size();
  while (static_cast<int32_t>(s->blocks.size() / groups) * base::kBlockTokens < s->computed) {
    for (size_t g = 0; g < groups; ++g) s->blocks.push_back(free_.at(next_free_++));
  }
  item.blocks = s->blocks;
  item.sample = count == left && s->generate > 0;
  item.ids = s->ids;
  // Sequences that grow beyond it are the engine core's matter.
  item.long_rope = static_cast<int32_t>(s->ids.size()) > long_rope_above_;
  item.sequence = static_cast<uint64_t>(batch->items.size());
  if (s->spec.num_prompt_logprobs >= 0) {
    item.score_begin = std::max(item.start + 1, static_cast<int32_t>(s->scored.size()) + 1);
    item.score_end = std::min(item.start + count + 1, s->prompt_len);
    if (item.score_begin >= item.score_end) item.score_begin = item.score_end = 0;
  }
  if (s->spec.pooling) {
    const bool last = *s->spec.pooling == Pooling::kLast;
    item.pool_begin = std::max(item.start, last ? s->prompt_len - 1 : 0);
    item.pool_end =
        std::min(item.start + count, *s->spec.pooling == Pooling::kFirst ? 1 : s->prompt_len);
    if (item.pool_begin >= item.pool_end) item.pool_begin = item.pool_end = 0;
    item.pool_sum = s->pool_sum;
  }
  item.spec = &s->spec;
  s->mask = {};
  if (s->mask_seed != 0) item.mask = &s->mask;
  batch->items.push_back(item);
}

std::vector<Outcome> RunTogether(const std::shared_ptr<const Weights>& model, const How& how,
                                 std::vector<Sequence> sequences, double* mean_rows) {
  Runner runner(model, how, static_cast<int>(sequences.size()));
  const double rows = runner.Run(&sequences);
  if (mean_rows != nullptr) *mean_rows = rows;
  std::vector<Outcome> outcomes;
  for (const Sequence& s : sequences) {
    outcomes.push_back({s.sampled, s.scored, runner.KvBytes(s), s.pool_sum});
  }
  return outcomes;
}

std::vector<Outcome> RunAlone(const std::shared_ptr<const Weights>& model, const How& how,
                              const std::vector<Sequence>& sequences) {
  std::vector<Outcome> outcomes;
  for (Sequence s : sequences) {
    s.joins = 0;
    outcomes.push_back(RunTogether(model, how, {s})[0]);
  }
  return outcomes;
}

uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }

namespace {

bool SameLogprobs(float a, const std::vector<TokenLogprob>& a_top, float b,
                  const std::vector<TokenLogprob>& b_top) {
  return Bits(a) == Bits(b) && std::equal(a_top.begin(), a_top.end(), b_top.begin(), b_top.end(),
                                          [](const TokenLogprob& x, const TokenLogprob& y) {
                                            return x.id == y.id &&
                                                   Bits(x.logprob) == Bits(y.logprob);
                                          });
}

bool SameSampled(const core::Sampled& a, const core::Sampled& b) {
  return a.token == b.token && a.invalid == b.invalid &&
         SameLogprobs(a.logprob, a.top_logprobs, b.logprob, b.top_logprobs);
}

bool SameScored(const core::Scored& a, const core::Scored& b) {
  return a.token == b.token && a.position == b.position &&
         SameLogprobs(a.logprob, a.top_logprobs, b.logprob, b.top_logprobs);
}

}  // namespace

bool Same(const std::vector<Outcome>& a, const std::vector<Outcome>& b, std::string* where) {
  *where = "the number of sequences";
  if (a.size() != b.size()) return false;
  for (size_t s = 0; s < a.size(); ++s) {
    const std::string sequence = "sequence " + std::to_string(s);
    *where = sequence;
    if (a[s].sampled.size() != b[s].sampled.size()) return false;
    if (a[s].scored.size() != b[s].scored.size()) return false;
    for (size_t t = 0; t < a[s].scored.size(); ++t) {
      *where = sequence + ", score " + std::to_string(t);
      if (!SameScored(a[s].scored[t], b[s].scored[t])) return false;
    }
    for (size_t t = 0; t < a[s].sampled.size(); ++t) {
      *where = sequence + ", token " + std::to_string(t);
      if (!SameSampled(a[s].sampled[t], b[s].sampled[t])) return false;
    }
    *where = "the KV bytes of " + sequence;
    if (a[s].kv != b[s].kv) return false;
    *where = "the sum of hidden states of " + sequence;
    if (!std::ranges::equal(a[s].pool_sum, b[s].pool_sum, {}, Bits, Bits)) return false;
  }
  return true;
}

void ExpectSame(const std::vector<Outcome>& a, const std::vector<Outcome>& b,
                const std::string& what) {
  std::string where;
  EXPECT_TRUE(Same(a, b, &where)) << what << ": differs at " << where;
}

}  // namespace ropeway::executor::testing
