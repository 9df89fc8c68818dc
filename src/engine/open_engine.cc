#include "engine/open_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "answer/generic_tools.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/split_name.h"
#include "base/words.h"
#include "core/parameters.h"
#include "engine/engine_options.h"
#include "engine/machine.h"
#include "engine/model_check.h"
#include "engine/session_text.h"
#include "executor/devices.h"
#include "executor/weights.h"
#include "kernels/kernels.h"
#include "kvcache/disk_tier.h"
#include "model/describe.h"
#include "model/file_digest.h"
#include "model/gguf.h"
#include "model/model.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/make_tokenizer.h"

namespace ropeway::engine {

ChatRenderer RenderWith(tokenizer::ChatTemplate chat_template,
                        const tokenizer::Tokenizer& tokenizer, const RenderOptions& options) {
  const auto text_of = [&tokenizer](std::optional<TokenId> id) {
    return id ? std::string(tokenizer.Bytes(*id, true)) : std::string();
  };
  return [chat_template = std::move(chat_template), bos = text_of(tokenizer.bos()),
          eos = text_of(tokenizer.eos()), options](const Chat& chat, const StoppedFn& stopped) {
    const auto render = [&](const Chat& shown) {
      return chat_template.Render(shown, bos, eos, std::chrono::system_clock::now(), stopped);
    };
    StatusOr<tokenizer::RenderedChat> rendered =
        options.generic_tools && answer::MentionsTools(chat)
            ? render(answer::WithoutTools(chat, chat_template.traits().reads_system))
            : render(chat);
    if (rendered.ok() && options.parse_special) rendered->quoted.clear();
    return rendered;
  };
}

namespace {

std::string ServedName(const EngineOptions& options) {
  if (!options.model.served_name.empty()) return options.model.served_name;
  std::filesystem::path path = options.model.path;
  if (const auto split = base::ParseSplitName(path.string())) path = split->prefix + ".gguf";
  if (path.filename().empty()) path = path.parent_path();  // "folder/"
  const std::filesystem::path name = path.filename();
  return name.extension() == ".gguf" ? name.stem().string() : name.string();
}

// Says what the model needs and what else is to know about it, before it is loaded.
void LogCheck(const ModelCheck& check, const std::string& name) {
  const MemoryForecast& memory = check.memory;
  base::Log().info(
      "{}: {} for weights and {} for the KV cache; free memory: {}", name,
      MemoryText(memory.weights), MemoryText(memory.kv_cache),
      memory.available > 0 ? MemoryText(static_cast<uint64_t>(memory.available)) : "unknown");
  for (const std::string& warning : check.warnings) base::Log().warn("the model {}", warning);
}

// What only loading finds (numbers of weights), said as what the check finds.
Status LoadFailure(ModelCheck* check, const Status& failure) {
  check->Add(failure);
  return check->status();
}

// Sets how chats are rendered and their answers read.
//
// With a template that the user gave and that cannot be used, the engine does not start. If Ropeway
// cannot read the model's own, completions are served all the same, and chats are rejected with the
// template's error. (ModelCheck's warning says it.)
Status AddChats(const std::string& own_template, LlmEngineConfig* config) {
  const ModelOptions& options = config->options.model;
  const bool given = !options.chat_template.empty();
  config->chat_template = given ? options.chat_template : own_template;
  bool reads_tools = true;
  StatusOr<tokenizer::ChatTemplate> parsed = InvalidArgument("there is no template");
  if (!config->chat_template.empty()) {
    parsed = given ? tokenizer::ChatTemplate::Parse(config->chat_template,
                                                    "chat_template (--chat-template)")
                   : tokenizer::ChatTemplate::Parse(config->chat_template);
    if (!parsed.ok() && given) return InvalidArgument(parsed.status().message(), "chat_template");
  }
  if (parsed.ok()) reads_tools = parsed->traits().reads_tools;
  StatusOr<answer::AnswerFormat> format = answer::DetectFormat(
      config->chat_template, reads_tools,
      {.tool_parser = options.tool_parser, .reasoning = options.reasoning_format});
  if (!format.ok()) return format.status();
  if (parsed.ok()) {
    config->render_chat = RenderWith(
        *std::move(parsed), *config->tokenizer,
        {.parse_special = options.parse_special,
         .generic_tools = !reads_tools && format->calls.syntax == answer::CallSyntax::kTagged});
  } else if (!config->chat_template.empty()) {
    config->render_chat = [status = parsed.status()](const auto&, const StoppedFn&) {
      return StatusOr<tokenizer::RenderedChat>(status);
    };
  }
  config->answers = std::make_shared<const ModelAnswers>(*std::move(format), *config->tokenizer);
  return {};
}

// All parameters of the cosines and sines that are not in the file. What few models have is named
// only where they have it, so that the others' blocks keep their names.
std::string DescribeRope(const model::RopeParams& rope) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {}", static_cast<int>(rope.scaling), rope.dim,
                  rope.freq_base, rope.factor, rope.original_context_length, rope.attention_factor,
                  rope.beta_fast, rope.beta_slow);
  if (!rope.yarn_whole_pairs) text += " exact bounds";
  // Earlier builds chose the factors by the maximum length.
  if (rope.scaling == model::RopeScaling::kLongRope) text += " factors by length";
  return text;
}

// The same of all layers, and how they are divided into groups: a block holds a group's layers.
std::string DescribePositions(const model::ModelConfig& config) {
  std::string text = DescribeRope(config.rope);
  if (config.window_rope.has_value()) text += "; " + DescribeRope(*config.window_rope);
  const model::KvGroups groups = config.kv_groups();
  if (groups.windows != std::vector<int32_t>{0}) {
    text += fmt::format("; {} layers a group, windows {}", groups.layers,
                        fmt::join(groups.windows, " "));
  }
  return text;
}

// What decides an answer beside the model's files: the prompt's ids, the bits behind them, and what
// a request gets that does not say.
std::string DescribeLimits(const LlmEngineConfig& config) {
  const ModelOptions& options = config.options.model;
  const std::string& text = config.chat_template;
  const SamplingParams sampling = config.sampling.Params();
  std::string limits =
      fmt::format("KV {}; positions {}; vocabulary {}; chat template {}{}; answers {} {}; sampling",
                  config.cache_root.kv_dtype, config.cache_root.rope_scaling,
                  VocabularyDigest(*config.tokenizer),
                  base::HexText(base::Sha256(text.data(), text.size())).substr(0, 16),
                  options.parse_special ? ", control tokens in messages" : "",
                  config.answers->format().reasoning.name, config.answers->format().calls.name);
  for (const core::Parameter& row : core::Parameters()) {
    core::VisitDefault(row,
                       [&](auto, auto member) { limits += fmt::format(" {}", sampling.*member); });
  }
  return limits;
}

// OpenAI's "system_fingerprint": clients compare it to see whether an answer may be another one.
std::string Fingerprint(const model::GgufFile& file) {
  const std::string text =
      model::TableDigest(file) + " numerics " + std::to_string(kernels::kNumericsVersion);
  return "fp_" + base::HexText(base::Sha256(text.data(), text.size())).substr(0, 12);
}

// What the model is, by its tables.
service::ModelDetails DetailsOf(const model::GgufFile& file, const model::ModelConfig& shape,
                                const answer::AnswerFormat& answers) {
  service::ModelDetails details;
  details.architecture = shape.architecture;
  details.bytes = file.file_bytes();
  details.hidden_size = shape.hidden_size;
  details.layers = shape.num_layers;
  details.calls_tools = answers.calls.syntax != answer::CallSyntax::kNone;
  details.thinks = std::string_view(answers.reasoning.name) != "none";
  std::map<uint32_t, uint64_t> bytes_of_types;
  for (const model::GgufTensor& tensor : file.tensors()) {
    uint64_t elements = 1;
    for (const uint64_t size : tensor.shape) elements *= size;
    details.parameters += elements;
    bytes_of_types[tensor.type] += tensor.bytes;
  }
  const auto most = std::ranges::max_element(
      bytes_of_types, {}, [](const auto& type_and_bytes) { return type_and_bytes.second; });
  if (most != bytes_of_types.end()) details.quantization = model::GgmlTypeName(most->first);
  return details;
}

// The model's rows that are no token of its vocabulary.
std::vector<TokenId> RowsWithoutToken(const tokenizer::Tokenizer& tokenizer, int rows) {
  std::vector<TokenId> absent;
  for (TokenId id = 0; id < rows; ++id) {
    if (id >= tokenizer.vocab_size() || tokenizer.IsUnused(id)) absent.push_back(id);
  }
  return absent;
}

// Opens what the options name beside the model, and makes sure that the KV cache can be as they
// say: before the weights are read, which takes long.
Status AddCacheAndFiles(const model::ModelConfig& shape, kernels::KvType kv_type,
                        LlmEngineConfig* config) {
  const EngineOptions& options = config->options;
  const size_t least_bytes = shape.kv_bytes_of_all_groups(kv_type);
  if (options.cache.kv_bytes != 0 && options.cache.kv_bytes < static_cast<int64_t>(least_bytes)) {
    return InvalidArgument(fmt::format("--kv-cache-size: {} is too small, one block takes {} bytes",
                                       base::Counted(options.cache.kv_bytes, "byte"), least_bytes),
                           "kv_cache_bytes");
  }
  if (Status status = OpenFiles(config); !status.ok()) return status;
  if (options.cache.disk_path.empty()) return {};
  StatusOr<std::unique_ptr<kvcache::DiskTier>> tier =
      kvcache::DiskTier::Open({.cache = options.cache,
                               .block_bytes = shape.kv_block_bytes(kv_type),
                               .cores = PhysicalCores(),
                               .clock = config->clock});
  if (!tier.ok()) return tier.status();
  config->tier = *std::move(tier);
  return {};
}

// Free memory of what computes. Of a GPU it is all: drivers do not say what others have of it.
int64_t DeviceMemory(const gpu::Gpu* gpu) {
  return gpu == nullptr ? AvailableMemoryBytes() : static_cast<int64_t>(gpu->info().memory_bytes);
}

// The same once the weights are there.
int64_t MemoryForKv(const gpu::Gpu* gpu, const executor::Weights& weights) {
  if (gpu == nullptr) return AvailableMemoryBytes();
  return std::max<int64_t>(DeviceMemory(gpu) - static_cast<int64_t>(weights.bytes()), 0);
}

// The host has the weights, too, until the device has them.
Status CheckHostMemory(const MemoryForecast& memory) {
  const int64_t available = AvailableMemoryBytes();
  const uint64_t needed = memory.weights + memory.rope;
  if (available <= 0 || needed <= static_cast<uint64_t>(available)) return {};
  return Status(StatusCode::kResourceExhausted,
                fmt::format("needs {} of this machine's memory beside the device's; {} are free",
                            MemoryText(needed), MemoryText(static_cast<uint64_t>(available))),
                "model_path");
}

StatusOr<std::unique_ptr<LlmEngine>> Open(const EngineOptions& options, const base::Clock* clock,
                                          base::Random* random) {
  if (options.model.path.empty()) return InvalidArgument("no model is given", "model_path");
  if (Status status = ValidateEngineOptions(options); !status.ok()) return status;
  const char* error = "";
  const kernels::Kernels* kernels = kernels::ChooseKernels(&error);
  if (kernels == nullptr) return InvalidArgument(error, "ROPEWAY_ISA");
  // First: the model is read in vain where there is no such device.
  std::string device;
  StatusOr<std::unique_ptr<gpu::Gpu>> gpu = executor::OpenDevice(options.device, &device);
  if (!gpu.ok()) return gpu.status();
  LlmEngineConfig config;
  config.options = options;
  if (options.threads == 0) config.options.threads = PhysicalCores();
  const int threads = config.options.threads;
  if (threads > PhysicalCores()) {
    base::Log().warn(
        "threads (--threads) is {}, more than the {} physical cores: threads that share a "
        "core wait for each other in every step",
        threads, PhysicalCores());
  }
  std::unique_ptr<model::GgufFile> file;
  ModelCheck check = OpenAndCheckModel(options, DeviceMemory(gpu->get()), &file);
  if (!check.ok()) return check.status();
  if (Status host = CheckHostMemory(check.memory); *gpu != nullptr && !host.ok()) return host;
  config.served_name = ServedName(options);
  LogCheck(check, config.served_name);
  config.tokenizer = std::move(check.tokenizer);
  if (Status status = AddChats(check.chat_template, &config); !status.ok()) return status;
  config.sampling = options.model.sampling.Or(check.sampling);
  config.embeds_only = !check.config->causal;
  config.pooling = check.config->pooling;
  if (config.embeds_only) {
    const int32_t context = check.config->context_length;
    int& length = config.options.model.max_model_len;
    if (length == 0) length = check.config->usual_length;
    UseForEncoder(length == 0 ? context : std::min(length, context), &config.options);
  }
  config.fingerprint = Fingerprint(*file);
  config.details = DetailsOf(*file, *check.config, config.answers->format());
  config.clock = clock;
  config.random = random;
  const kernels::KvType kv_type = *kernels::KvTypeByName(options.cache.kv_dtype.c_str());
  if (Status status = AddCacheAndFiles(*check.config, kv_type, &config); !status.ok())
    return status;
  // Only blocks on disk, what a gateway moves, and names that a router compares can meet another
  // model file.
  if (!config.options.cache.disk_path.empty() || options.model.digest ||
      config.publisher != nullptr) {
    StatusOr<std::string> digest = model::FileDigest(*file, threads);
    if (!digest.ok()) return LoadFailure(&check, digest.status());
    config.model_digest = *std::move(digest);
    config.cache_root.model_digest = config.model_digest;
  }
  StatusOr<std::unique_ptr<executor::Weights>> loaded =
      executor::Weights::Load(*file, threads, config.options.model.max_model_len);
  if (!loaded.ok()) return LoadFailure(&check, loaded.status());
  std::shared_ptr<const executor::Weights> weights = *std::move(loaded);
  const std::shared_ptr<const model::Model> model = weights->model();
  file.reset();
  const model::ModelConfig& shape = model->config();
  config.model_context_length = shape.context_length;
  config.embedding_size = shape.hidden_size;
  config.created = static_cast<int64_t>(std::time(nullptr));
  if (options.cache.kv_bytes == 0) {
    config.options.cache.kv_bytes = DefaultKvCacheBytesOf(
        shape, config.options, MemoryForKv(gpu->get(), *weights), model->max_positions());
  }
  config.cache_root.numerics_version = kernels::kNumericsVersion;
  config.cache_root.kv_dtype = options.cache.kv_dtype;
  config.cache_root.rope_scaling = DescribePositions(shape);
  config.cache_root.long_rope_above = shape.long_rope_above();
  if (!config.model_digest.empty()) config.limits = DescribeLimits(config);
  std::vector<TokenId> absent = RowsWithoutToken(*config.tokenizer, shape.vocab_size);
  if (absent.size() == static_cast<size_t>(shape.vocab_size)) {
    return LoadFailure(&check,
                       {StatusCode::kDataLoss, "no token of its vocabulary can be generated",
                        "tokenizer.ggml.token_type"});
  }
  const bool on_cpu = *gpu == nullptr;
  config.details.on_gpu = !on_cpu;
  config.executor = executor::MakeExecutor(*std::move(gpu), std::move(weights), kernels, threads,
                                           kv_type, std::move(absent));
  config.kernels_name = on_cpu ? kernels->name : device;
  base::Log().info("{}: {} kernels, {}, {:.1f} MiB for the KV cache in {}", config.served_name,
                   config.kernels_name, base::Counted(threads, "thread"),
                   static_cast<double>(config.options.cache.kv_bytes) / (1 << 20),
                   kernels::KvTypeName(kv_type));
  return LlmEngine::Create(std::move(config));
}

// What OpenLocalEngine returns a part of.
struct OwnedEngine {
  base::RealClock clock;
  base::SystemRandom random;
  std::unique_ptr<LlmEngine> engine;  // Last: its threads use the others.
};

}  // namespace

StatusOr<std::unique_ptr<LlmEngine>> OpenEngine(const EngineOptions& options,
                                                const base::Clock* clock, base::Random* random) {
  try {
    return Open(options, clock, random);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "not enough memory to load the model",
                  "model_path");
  } catch (const std::exception& e) {
    return Status(StatusCode::kInternal, fmt::format("loading the model failed: {}", e.what()),
                  "model_path");
  }
}

StatusOr<std::shared_ptr<LlmEngine>> OpenLocalEngine(EngineOptions options) {
  options.model.digest = true;
  options.model.any_name = true;
  auto owned = std::make_shared<OwnedEngine>();
  StatusOr<std::unique_ptr<LlmEngine>> engine = OpenEngine(options, &owned->clock, &owned->random);
  if (!engine.ok()) return engine.status();
  owned->engine = *std::move(engine);
  LlmEngine* const its = owned->engine.get();
  return std::shared_ptr<LlmEngine>(std::move(owned), its);
}

}  // namespace ropeway::engine
