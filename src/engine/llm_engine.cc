#include "engine/llm_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/words.h"
#include "core/request_check.h"
#include "engine/engine_options.h"
#include "engine/failure.h"
#include "scheduler/admission.h"
#include "service/intake.h"
#include "store/session_store.h"

namespace ropeway::engine {
namespace {

using service::OrIfShort;

std::vector<TokenId> NamedTokens(const ModelAnswers* answers) {
  std::vector<TokenId> ids;
  if (answers == nullptr) return ids;
  for (const auto& [text, id] : answers->controls()) ids.push_back(id);
  return ids;
}

}  // namespace

LlmEngine::LlmEngine(LlmEngineConfig config, std::unique_ptr<policy::SchedulingPolicy> policy,
                     const EngineCoreOptions& core_options, const executor::KvLayout& layout)
    : config_(std::move(config)),
      max_model_len_(core_options.max_model_len),
      metrics_(config_.options.queue),
      sessions_(std::move(config_.sessions)),
      trace_(std::move(config_.trace)),
      encoder_(config_.tokenizer, config_.render_chat, max_model_len_, config_.cache_root,
               sessions_.get(), &metrics_.turns, config_.answers.get(), config_.pooling),
      intake_(config_.clock, sessions_.get(), config_.options.request_timeout,
              config_.max_request_bytes),
      places_(scheduler::SharedByTenants(config_.options.queue.max_queued_requests)),
      output_(config_.tokenizer.get(), config_.answers.get(), &metrics_, config_.clock,
              sessions_.get(), &requests_,
              [this](RequestId id, FinishReason reason) { loop_.Abort(id, reason); }),
      loop_(core_options, layout, std::move(config_.executor), std::move(policy), config_.clock,
            &metrics_, &output_, &requests_, trace_.get()),
      grammars_(config_.tokenizer, static_cast<size_t>(places_.total()), GrammarPool::kCacheBytes,
                grammar::kCompileWork, NamedTokens(config_.answers.get())),
      prompt_pool_(
          &encoder_, &grammars_, config_.clock, intake_.bytes(), config_.options.frontend_threads,
          // A request that was cancelled leaves the queue at once, and the pool at its next turn.
          static_cast<size_t>(places_.total()),
          [this](core::CoreRequest request) {
            const base::Duration took = config_.clock->Now() - request.arrival;
            metrics_.Encoded(request.priority, took);
            loop_.Add(std::move(request));
          },
          [this](std::shared_ptr<LiveRequest> live, Status status) {
            output_.Reject(std::move(live), std::move(status));
          }),
      watchdog_([this] { return DescribeProgress(loop_.Watch()); }, metrics_.stalls,
                config_.watchdog_period) {
  // As vLLM's cache_config_info.
  metrics_.AddInfo(
      "ropeway_cache_config_info",
      "Configuration of the KV cache: element type, block size and number of blocks, as labels.",
      {{"block_size", std::to_string(base::kBlockTokens)},
       {"cache_dtype", config_.options.cache.kv_dtype},
       {"num_blocks", std::to_string(layout.num_blocks)}});
  metrics_.AddGauge("ropeway_device_memory_bytes",
                    "Memory that the engine has of its device; of a CPU without the weights.",
                    static_cast<double>(layout.device.memory_bytes));
  metrics_.AddInfo("ropeway_batching_info", "Batching strategy, as a label.",
                   {{"strategy", config_.options.scheduler.strategy}});
  metrics_.AddInfo(
      "ropeway_engine_info",
      "Kernels and number of threads that the engine computes with, as labels.",
      {{"kernels", config_.kernels_name}, {"threads", std::to_string(config_.options.threads)}});
}

LlmEngine::~LlmEngine() {
  requests_.Close();
  watchdog_.Stop();
  CancelAll();
  grammars_.Stop();
  prompt_pool_.Stop();
  loop_.Stop();
  output_.Stop();
}

Status LlmEngine::Cancel(RequestId id) {
  std::shared_ptr<LiveRequest> live;
  {
    // Not while it is being added: Submit may still fail then.
    const std::lock_guard lock(mu_);
    live = requests_.Find(id);
  }
  if (live == nullptr) return NotUnderWay(id);
  CancelLive(live);
  return {};
}

void LlmEngine::Probe(ProbeFn done) {
  if (GetHealth().live) output_.TellAlive();
  service::FrontDesk::Probe(std::move(done));
}

void LlmEngine::CancelLive(const std::shared_ptr<LiveRequest>& live) {
  if (live->cancel_asked.exchange(true)) return;
  if (live->Move(LiveRequest::State::kEncoding, LiveRequest::State::kEnded)) {
    output_.Reject(live, RequestCancelled());
  } else {
    loop_.Abort(live->id, FinishReason::kCancelled);
  }
}

void LlmEngine::CancelAll() {
  std::vector<std::shared_ptr<LiveRequest>> all;
  {
    // Not while one is being added: Submit may still fail then.
    const std::lock_guard lock(mu_);
    all = requests_.All();
  }
  for (const std::shared_ptr<LiveRequest>& live : all) CancelLive(live);
}

Status LlmEngine::Drain(std::chrono::nanoseconds deadline) {
  {
    const std::lock_guard lock(mu_);  // A group that is being added is added whole.
    requests_.Close();
  }
  loop_.Flush();
  return requests_.Drain(deadline, [this] { CancelAll(); });
}

Status LlmEngine::DescribeProgress(Status status) const {
  if (status.ok()) return status;
  const std::shared_ptr<LiveRequest> oldest = requests_.Oldest();
  return {status.code(), fmt::format("{}; the oldest request is {}", status.message(),
                                     oldest == nullptr ? 0 : oldest->id)};
}

service::Health LlmEngine::GetHealth() const {
  using service::Health;
  return OrIfShort<Health>({.live = true, .ready = false, .reason = "out of memory"}, [this] {
    Status status = loop_.device_status();
    if (status.ok()) status = DescribeProgress(loop_.CheckProgress());
    if (!status.ok()) return Health{.live = false, .ready = false, .reason = status.message()};
    status = requests_.CheckOpen();
    return Health{.ready = status.ok(), .reason = status.message()};
  });
}

EngineStats LlmEngine::StatsOf(const EngineLoop::Snapshot& loop) const {
  const auto mean = [](double sum, uint64_t count) {
    return count == 0 ? 0.0 : sum / static_cast<double>(count);
  };
  const CoreStats& core = loop.core;
  EngineStats stats = DescribeBatching(config_.options.scheduler);
  stats.total_batches = core.batches;
  stats.total_requests = core.started;
  stats.avg_batch_size = mean(static_cast<double>(core.batch_sizes), core.batches);
  stats.avg_batch_duration_ms = mean(1e3 * base::ToSeconds(core.batch_time), core.ended_batches);
  stats.total_steps = core.computed_steps;
  stats.total_rows = core.rows;
  stats.avg_step_rows = mean(static_cast<double>(core.rows), core.computed_steps);
  stats.avg_step_size = mean(static_cast<double>(core.items), core.computed_steps);
  stats.avg_step_duration_ms = mean(1e3 * base::ToSeconds(loop.busy), core.computed_steps);
  stats.waiting = requests_.queued();
  stats.preempted = core.preempted;
  stats.queue_depth = stats.waiting + stats.preempted;
  stats.running = core.running;
  stats.kv_blocks_free = core.free_blocks;
  stats.kv_blocks_held = core.held_blocks;
  stats.kv_blocks_cached = core.cached_blocks;
  stats.utilization = loop.rates.utilization;
  stats.prompt_tokens_per_second = loop.rates.prompt_tokens_per_second;
  stats.generation_tokens_per_second = loop.rates.generation_tokens_per_second;
  return stats;
}

EngineStats LlmEngine::Stats() const {
  return OrIfShort(EngineStats(), [this] { return StatsOf(loop_.snapshot()); });
}

service::Activity LlmEngine::ActivityAfter(const service::ActivityCursor& cursor) const {
  return OrIfShort(service::Activity(), [&] {
    service::Activity activity;
    activity.now = config_.clock->Now();
    activity.steps = loop_.steps()->After(cursor.step);
    activity.ended = requests_.ended().After(cursor.ended);
    service::AddRecent(metrics_.requests.recent(), &activity);
    activity.step = service::SummaryOf(metrics_.recent_steps, base::RealClock().Now());
    if (config_.tier != nullptr) activity.disk_blocks = config_.tier->Usage().blocks;
    return activity;
  });
}

std::string LlmEngine::MetricsText() const {
  return OrIfShort(std::string(), [this] {
    const EngineLoop::Snapshot loop = loop_.snapshot();
    EngineSample sample{.core = loop.core,
                        .engine = StatsOf(loop),
                        .load = loop_.load(),
                        .sessions = sessions_->stats(),
                        .grammars = grammars_.stats(),
                        .trace_dropped = trace_ != nullptr ? trace_->dropped() : 0};
    if (config_.tier != nullptr) sample.tier = config_.tier->Usage();
    return metrics_.Text(sample);
  });
}

int LlmEngine::RetryAfterSeconds(const std::string& tenant) const {
  return OrIfShort(1, [&] { return scheduler::WholeSeconds(loop_.load().SecondsToEnd(tenant)); });
}

std::vector<service::RequestInfo> LlmEngine::Requests() const {
  return OrIfShort(std::vector<service::RequestInfo>(),
                   [this] { return requests_.Infos(config_.clock->Now(), loop_.queue_order()); });
}

service::QueueInfo LlmEngine::Queue(const std::string* tenant, double weight) const {
  return OrIfShort(service::QueueInfo(), [&] {
    service::QueueInfo info;
    requests_.CountByClass(tenant, &info);
    service::PredictWaits(loop_.load(), tenant, weight, config_.options.queue, &info);
    info.blocked_by = loop_.snapshot().core.blocked_by;
    return info;
  });
}

Status OpenFiles(LlmEngineConfig* config) {
  const EngineOptions& options = config->options;
  if (config->sessions == nullptr) {
    StatusOr<std::unique_ptr<store::SessionStore>> opened =
        store::OpenSessionStore(options.sessions, std::move(config->state_writer));
    if (!opened.ok()) return opened.status();
    config->sessions = *std::move(opened);
  }
  if (config->trace == nullptr && !options.trace_file.empty()) {
    StatusOr<std::unique_ptr<TraceWriter>> opened = TraceWriter::Open(options.trace_file);
    if (!opened.ok()) return opened.status();
    config->trace = *std::move(opened);
  }
  const CacheOptions& cache = options.cache;
  if (config->publisher == nullptr && !cache.events_address.empty()) {
    StatusOr<std::unique_ptr<kvcache::EventPublisher>> bound =
        kvcache::EventPublisher::Bind(cache.events_address, cache.events_topic);
    if (!bound.ok()) return bound.status();
    config->publisher = *std::move(bound);
    config->block_events = std::make_unique<kvcache::BlockEvents>(
        [publisher = config->publisher.get()](std::vector<kvcache::BlockEvent> events) {
          return publisher->Publish(std::move(events));
        });
  }
  return {};
}

StatusOr<std::unique_ptr<LlmEngine>> LlmEngine::Create(LlmEngineConfig config) {
  if (Status status = OpenFiles(&config); !status.ok()) return status;
  const EngineOptions& options = config.options;
  StatusOr<executor::KvLayout> layout =
      config.executor->Init(options.cache.kv_bytes, options.scheduler.max_num_batched_tokens,
                            options.scheduler.max_num_seqs);
  if (!layout.ok()) return layout.status();
  EngineCoreOptions core = CoreOptionsOf(options, config.model_context_length, *layout);
  core.step.long_rope_above = config.cache_root.long_rope_above;
  core.step.whole_prompts = config.embeds_only;
  core.check_integrity = config.check_integrity;
  core.tier = config.tier.get();
  core.block_events = config.block_events.get();
  core.is_end = [tokenizer = config.tokenizer](TokenId id) { return tokenizer->IsEnd(id); };
  if (Status status = core.Validate(*layout); !status.ok()) return status;
  try {
    StatusOr<std::unique_ptr<policy::SchedulingPolicy>> policy = PolicyOf(options);
    if (!policy.ok()) return policy.status();
    return std::unique_ptr<LlmEngine>(
        new LlmEngine(std::move(config), *std::move(policy), core, *layout));
  } catch (const std::exception& e) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("cannot start the engine's threads: {}", e.what()),
                  "frontend_threads");
  }
}

void LlmEngine::Flush() { loop_.Flush(); }

std::vector<SessionInfo> LlmEngine::Sessions(const std::string& tenant) const {
  return OrIfShort(std::vector<SessionInfo>(), [&] { return sessions_->List(tenant); });
}

Status LlmEngine::CloseSession(const std::string& id, const std::string& tenant) {
  return OrIfShort(OutOfMemory(), [&] { return sessions_->Close(tenant, id); });
}

std::vector<service::ModelInfo> LlmEngine::Models() const {
  return {{.id = served_name(),
           .max_model_len = max_model_len(),
           .created = config_.created,
           .sampling = config_.sampling.Params(),
           .fingerprint = config_.fingerprint,
           .digest = config_.model_digest,
           .numerics = std::to_string(config_.cache_root.numerics_version),
           .limits = fmt::format("max_model_len {}; {}", max_model_len_, config_.limits),
           .vocabulary = config_.tokenizer->vocab_size(),
           .embedding_size = config_.embedding_size,
           .chats = config_.render_chat != nullptr && !config_.embeds_only,
           .embeds_only = config_.embeds_only,
           .aliases = config_.options.model.aliases,
           .details = config_.details}};
}

StatusOr<std::unique_ptr<service::Tokenization>> LlmEngine::Tokenize(std::string text,
                                                                     bool add_special) const {
  try {
    return encoder_.BeginText(std::move(text), add_special);
  } catch (const std::exception&) {
    return CurrentFailure("encoding the text");
  }
}

StatusOr<std::unique_ptr<service::Tokenization>> LlmEngine::TokenizeChat(Chat chat,
                                                                         bool add_special) const {
  try {
    if (config_.embeds_only) return EmbedsOnly(config_.served_name);
    if (Status status = core::CheckChat(chat); !status.ok()) return status;
    return encoder_.BeginChat(std::move(chat), add_special);
  } catch (const std::exception&) {
    return CurrentFailure("rendering the chat");
  }
}

StatusOr<service::TokenizerInfo> LlmEngine::DescribeTokenizer() const {
  const tokenizer::Tokenizer& tokenizer = *config_.tokenizer;
  const auto text_of = [&](std::optional<TokenId> id) {
    return std::string(id ? tokenizer.Bytes(*id, true) : std::string_view());
  };
  return service::TokenizerInfo{text_of(tokenizer.bos()), text_of(tokenizer.eos()),
                                config_.chat_template};
}

StatusOr<std::string> LlmEngine::Detokenize(const std::vector<TokenId>& ids) const {
  const tokenizer::Tokenizer& tokenizer = *config_.tokenizer;
  return OrIfShort<StatusOr<std::string>>(OutOfMemory(), [&]() -> StatusOr<std::string> {
    std::string text;
    for (const TokenId id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) {
        return InvalidArgument(fmt::format("token id {} is not in the model's vocabulary of {}", id,
                                           tokenizer.vocab_size()),
                               "tokens");
      }
      text += tokenizer.Bytes(id, true);
    }
    return text;
  });
}

}  // namespace ropeway::engine
