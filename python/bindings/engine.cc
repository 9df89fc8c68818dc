#include "bindings/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "api/api_format.h"
#include "api/dialects.h"
#include "cli/engine_flags.h"
#include "cli/front.h"
#include "engine/open_engine.h"
#include "flags/flag.h"

namespace ropeway::python {
namespace {

Status Closed() { return {StatusCode::kUnavailable, "the engine is closed"}; }

std::string KeywordOf(const std::string& flag_name) {
  std::string keyword = flag_name.substr(flag_name.find_first_not_of('-'));
  std::replace(keyword.begin(), keyword.end(), '-', '_');
  return keyword;
}

const flags::Flag* FlagOf(const flags::FlagTable& table, const std::string& keyword) {
  for (const flags::FlagGroup& group : table) {
    for (const flags::Flag& flag : group.flags) {
      for (const flags::FlagName& name : flags::NamesOf(flag)) {
        if (!name.negated && name.text.starts_with("--") && KeywordOf(name.text) == keyword) {
          return &flag;
        }
      }
    }
  }
  return nullptr;
}

Status Unsupported(const std::string& what) {
  return InvalidArgument(what + " is not supported here", what);
}

// A body of the HTTP API.
Status Read(const std::string& body, const engine::LlmEngine& engine, api::ApiFormat* format) {
  format->request()->request.sampling = engine.sampling_defaults().Params();
  api::BodyLimits limits;
  limits.reject_unknown = true;
  return format->Parse(body, limits);
}

StatusOr<Request> ReadRequest(const std::string& body, bool chat, const engine::LlmEngine& engine) {
  const std::unique_ptr<api::ApiFormat> format =
      chat ? api::MakeOpenAiChat() : api::MakeOpenAiCompletions();
  if (Status status = Read(body, engine, format.get()); !status.ok()) return status;
  api::ApiRequest& api = *format->request();
  if (api.prompts.size() != 1) return InvalidArgument("expected one prompt", "prompt");
  if (api.n != 1) return Unsupported("n");
  if (api.stream) return Unsupported("stream");
  if (api.shows_prompts) return Unsupported("echo");
  if (api.keeping.background || api.keeping.store.value_or(false)) return Unsupported("store");
  Request request = std::move(api.request);
  request.prompt = std::move(api.prompts.front());
  request.priority = api.priority.value_or(Priority::kMedium);
  return request;
}

Status Finish(service::Tokenization* job) {
  for (;;) {
    const StatusOr<bool> done = job->Step();
    if (!done.ok()) return done.status();
    if (*done) return {};
  }
}

}  // namespace

StatusOr<EngineOptions> OptionsOf(
    const std::vector<std::pair<std::string, std::string>>& keywords) {
  cli::EngineFlags engine_flags;
  const flags::FlagTable table =
      flags::Join({cli::EngineTable(&engine_flags),
                   cli::BatchingTable(&engine_flags),
                   cli::SchedulingTable(&engine_flags),
                   cli::SamplingTable({}, &engine_flags.options.model.sampling),
                   cli::StateTable(&engine_flags.options.sessions),
                   {{"",
                     {{"--digest", flags::SwitchValue(&engine_flags.options.model.digest), ""},
                      {"--served-model-name",
                       flags::TextValue(&engine_flags.options.model.served_name, "NAME"), ""}}}}});
  for (const auto& [keyword, text] : keywords) {
    const flags::Flag* const flag = FlagOf(table, keyword);
    if (flag == nullptr) {
      return InvalidArgument(
          fmt::format("'{}' is not an option of an engine; they are called as the flags of "
                      "`ropeway serve`, with '_' for '-'",
                      keyword),
          keyword);
    }
    const Status status = flag->value.set({text});
    if (!status.ok()) {
      return InvalidArgument(fmt::format("{}: {}", keyword, status.message()), keyword);
    }
  }
  return cli::ResolveEngine(engine_flags);
}

void Handle::Cancel() const {
  stream->Stop();
  if (const std::shared_ptr<PythonEngine> alive = engine.lock()) {
    static_cast<void>(alive->Cancel(id));
  }
}

StatusOr<std::shared_ptr<PythonEngine>> PythonEngine::Open(EngineOptions options) {
  auto opened = std::make_shared<PythonEngine>();
  StatusOr<std::unique_ptr<engine::LlmEngine>> engine =
      engine::OpenEngine(options, &opened->clock_, &opened->random_);
  if (!engine.ok()) return engine.status();
  opened->engine_ = *std::move(engine);
  return opened;
}

std::shared_ptr<engine::LlmEngine> PythonEngine::Use() const {
  const std::lock_guard lock(mu_);
  return engine_;
}

StatusOr<Handle> PythonEngine::SubmitOne(engine::LlmEngine* engine, Request request) {
  auto stream = std::make_shared<Stream>();
  const StatusOr<RequestId> id = engine->Submit(std::move(request), stream);
  if (!id.ok()) return id.status();
  return Handle{*id, std::move(stream), weak_from_this()};
}

StatusOr<Handle> PythonEngine::Submit(const std::string& body, bool chat, Extras extras) {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  StatusOr<Request> request = ReadRequest(body, chat, *engine);
  if (!request.ok()) return request.status();
  if (extras.prompt_ids) request->prompt = *std::move(extras.prompt_ids);
  request->resume_ids = std::move(extras.resume_ids);
  request->tenant = std::move(extras.tenant);
  request->cache_scope = std::move(extras.cache_scope);
  request->session_id = std::move(extras.session);
  request->choice = extras.choice;
  return SubmitOne(engine.get(), *std::move(request));
}

StatusOr<std::vector<Handle>> PythonEngine::Embed(const std::string& body,
                                                  const std::string& tenant) {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  const std::unique_ptr<api::ApiFormat> format = api::MakeOpenAiEmbeddings();
  if (Status status = Read(body, *engine, format.get()); !status.ok()) return status;
  api::ApiRequest& api = *format->request();
  std::vector<Handle> handles;
  handles.reserve(api.prompts.size());
  std::vector<SinkRequest> all;
  for (api::Prompt& prompt : api.prompts) {
    Request request = api.request;
    request.prompt = std::move(prompt);
    request.tenant = tenant;
    handles.push_back({0, std::make_shared<Stream>(), weak_from_this()});
    all.push_back({std::move(request), handles.back().stream});
  }
  const StatusOr<std::vector<RequestId>> ids = engine->SubmitAll(std::move(all));
  if (!ids.ok()) return ids.status();
  for (size_t i = 0; i < handles.size(); ++i) handles[i].id = (*ids)[i];
  return handles;
}

Status PythonEngine::Cancel(RequestId id) {
  const auto engine = Use();
  return engine == nullptr ? Closed() : engine->Cancel(id);
}

StatusOr<std::vector<TokenId>> PythonEngine::Tokenize(std::string text, bool add_special) {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  auto job = engine->Tokenize(std::move(text), add_special);
  if (!job.ok()) return job.status();
  if (Status status = Finish(job->get()); !status.ok()) return status;
  return (*job)->Take();
}

StatusOr<std::unique_ptr<service::Tokenization>> PythonEngine::EncodeChat(engine::LlmEngine* engine,
                                                                          const std::string& body) {
  StatusOr<Request> request = ReadRequest(body, true, *engine);
  if (!request.ok()) return request.status();
  auto job = engine->TokenizeChat(std::get<Chat>(std::move(request->prompt)), false);
  if (!job.ok()) return job.status();
  if (Status status = Finish(job->get()); !status.ok()) return status;
  return *std::move(job);
}

StatusOr<std::vector<TokenId>> PythonEngine::TokenizeChat(const std::string& body) {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  auto job = EncodeChat(engine.get(), body);
  if (!job.ok()) return job.status();
  return (*job)->Take();
}

StatusOr<std::string> PythonEngine::RenderChat(const std::string& body) {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  auto job = EncodeChat(engine.get(), body);
  if (!job.ok()) return job.status();
  const std::string* const text = (*job)->text();
  return text == nullptr ? std::string() : *text;
}

StatusOr<std::string> PythonEngine::Detokenize(const std::vector<TokenId>& ids) {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  return engine->Detokenize(ids);
}

StatusOr<service::TokenizerInfo> PythonEngine::DescribeTokenizer() {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  return engine->DescribeTokenizer();
}

StatusOr<service::ModelInfo> PythonEngine::Model() {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  return engine->Models().front();
}

StatusOr<EngineStats> PythonEngine::Stats() {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  return engine->Stats();
}

StatusOr<std::string> PythonEngine::MetricsText() {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  return engine->MetricsText();
}

StatusOr<std::vector<SessionInfo>> PythonEngine::Sessions(const std::string& tenant) {
  const auto engine = Use();
  if (engine == nullptr) return Closed();
  return engine->Sessions(tenant);
}

Status PythonEngine::CloseSession(const std::string& id, const std::string& tenant) {
  const auto engine = Use();
  return engine == nullptr ? Closed() : engine->CloseSession(id, tenant);
}

Status PythonEngine::Drain(std::chrono::nanoseconds limit) {
  const auto engine = Use();
  return engine == nullptr ? Closed() : engine->Drain(limit);
}

void PythonEngine::Close() {
  const std::lock_guard closing(close_mu_);
  std::shared_ptr<engine::LlmEngine> engine;
  {
    const std::lock_guard lock(mu_);
    engine = std::exchange(engine_, nullptr);
  }
  if (engine == nullptr) return;
  // Ends what other calls wait for, such as Drain.
  static_cast<void>(engine->Drain(std::chrono::nanoseconds(0)));
  // Its threads use the clock: it ends here, in this call, not in another thread's.
  while (engine.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace ropeway::python
