// Whether a model can be run here, and what that takes: the one answer of `inspect`, `serve`, `run`
// and `models show`.
#ifndef ROPEWAY_ENGINE_MODEL_CHECK_H_
#define ROPEWAY_ENGINE_MODEL_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "model/model_config.h"
#include "ropeway/options.h"
#include "ropeway/status.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// Memory that an engine takes, foreseen from the tables alone; in bytes.
struct MemoryForecast {
  uint64_t weights = 0;       // As the kernels keep them.
  uint64_t rope = 0;          // The tables of RoPE once every position was used.
  uint64_t kv_per_token = 0;  // In the type that the options ask for; behind windows less is kept.
  uint64_t kv_cache = 0;      // The whole pool.
  int64_t available = 0;      // What this machine, or a GPU, has free; 0: unknown.
};

struct ModelCheck {
  std::string path;
  std::vector<Status> reasons;        // Why it cannot be run; empty: it can.
  std::vector<std::string> advice;    // What to do about them.
  std::vector<std::string> warnings;  // It can be run, but ...
  // What could be read of it, also where it cannot be run.
  std::optional<model::ModelConfig> config;
  MemoryForecast memory;
  SamplingDefaults sampling;  // The model's own, too.
  std::string chat_template;  // The model's own.
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;

  bool ok() const { return reasons.empty(); }
  // Adds a reason, unless it is there already, and what to do about it: `advice`, or what goes with
  // the reason's code if that is empty.
  void Add(const Status& reason, std::string_view advice = {});

  // OK; or the only reason; or all of them, a line each. Names the file and what to do.
  Status status() const;
};

// Looks at all of architecture, types, tensors, vocabulary and memory, and does not stop at the
// first thing that is missing. A model that passes it can be loaded, unless numbers in its weights
// are not finite: these are read once, when it is loaded. `available`: memory of this machine, 0 if
// that is unknown.
ModelCheck CheckModel(const model::GgufFile& file, const EngineOptions& options, int64_t available);

// Opens the model that the options name into `file`, and checks it. What cannot be opened is null,
// and the reasons are those for that.
ModelCheck OpenAndCheckModel(const EngineOptions& options, int64_t available,
                             std::unique_ptr<model::GgufFile>* file);

// What `inspect` ends with: that the model can be run, what it is and what memory it takes, or why
// not and what to do. Ends in a line feed.
std::string VerdictText(const ModelCheck& check);

// general.sampling.* of a model. What is out of range is left out, and named in `warnings`.
SamplingDefaults ReadSamplingDefaults(const model::GgufFile& file,
                                      std::vector<std::string>* warnings);

// The KV pool's default size: a quarter of `available_bytes` (0: unknown, taken as 1 GiB), at most
// 4 GiB, at most what max_num_seqs sequences of max_model_len tokens can fill, at least one block.
// `windows`: of the groups of layers that have blocks of their own (KvWindows).
int64_t DefaultKvCacheBytes(int64_t available_bytes, int max_num_seqs, int32_t max_model_len,
                            size_t block_bytes, const std::vector<int32_t>& windows = {0});

// The same for this model with these options, of at most `positions` in a sequence; of an encoder,
// what the inputs of a step fill.
int64_t DefaultKvCacheBytesOf(const model::ModelConfig& config, const EngineOptions& options,
                              int64_t available_bytes, int32_t positions);

// "3.5 GiB", "253.0 MiB", "12 KiB".
std::string MemoryText(uint64_t bytes);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_MODEL_CHECK_H_
