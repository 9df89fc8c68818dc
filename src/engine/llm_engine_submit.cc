// The part of LlmEngine that takes requests: checks, places in the queue, the prompt pool.
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/request_check.h"
#include "engine/failure.h"
#include "engine/llm_engine.h"
#include "grammar/output_ebnf.h"
#include "grammar/tool_ebnf.h"
#include "service/intake.h"

namespace ropeway::engine {

Status LlmEngine::CheckModel(const std::string& model) const {
  // The name that nearly all say costs nothing.
  if (core::IsDefaultModel(model) || model == config_.served_name) return {};
  if (config_.options.model.any_name) return {};
  const std::vector<service::ModelInfo> models = Models();
  return service::IsNamed(models.front(), model) ? Status() : service::NoSuchModel(model, models);
}

Status LlmEngine::CheckAccepting() const {
  if (Status status = requests_.CheckOpen(); !status.ok()) return status;
  if (Status status = loop_.device_status(); !status.ok()) {
    return {StatusCode::kUnavailable, "the engine has failed: " + status.message()};
  }
  return {};
}

Status LlmEngine::Reserve(LiveRequest* live) {
  if (places_.Take(live->tenant(), 1, &live->place)) return intake_.TakeBytes(live);
  return service::QueueFull(places_, loop_.load(),
                            {live->tenant(), live->request.tenant_weight, live->priority()},
                            config_.options.queue);
}

// Here, so that the sender learns at once what of the form is not supported, and under no lock.
StatusOr<std::shared_ptr<const GrammarText>> LlmEngine::GrammarOf(const Request& request,
                                                                  const LiveRequest* before) const {
  if (const auto* chat = std::get_if<Chat>(&request.prompt);
      chat != nullptr && !chat->tools.empty() && chat->tool_choice != ToolChoice::kNone) {
    return GrammarOfCalls(request, before);
  }
  const OutputFormat& format = request.format;
  if (format.kind == OutputFormat::Kind::kText) return std::shared_ptr<const GrammarText>();
  if (before != nullptr && before->request.format == format) return before->grammar;
  StatusOr<std::string> ebnf = grammar::OutputEbnf(format);
  if (!ebnf.ok()) return grammar::OfField(format, ebnf.status());
  return std::make_shared<const GrammarText>(*std::move(ebnf));
}

StatusOr<std::shared_ptr<const GrammarText>> LlmEngine::GrammarOfCalls(
    const Request& request, const LiveRequest* before) const {
  const auto& chat = std::get<Chat>(request.prompt);
  const OutputFormat& format = request.format;
  const ModelAnswers* const answers = config_.answers.get();
  if (answers == nullptr || answers->format().calls.syntax == answer::CallSyntax::kNone) {
    return InvalidArgument(
        "tool_choice must be none for this model: its chat template shows no known form of calls; "
        "--tool-parser names the form where there is one",
        "tool_choice");
  }
  if (!grammar::ConstrainsCalls(chat) && format.kind == OutputFormat::Kind::kText) {
    return std::shared_ptr<const GrammarText>();
  }
  const Chat* const other =
      before == nullptr ? nullptr : std::get_if<Chat>(&before->request.prompt);
  if (other != nullptr && other->tool_choice == chat.tool_choice &&
      other->tool_name == chat.tool_name &&
      other->parallel_tool_calls == chat.parallel_tool_calls && other->tools == chat.tools &&
      before->request.format == format) {
    return before->grammar;
  }
  StatusOr<std::string> ebnf =
      grammar::ToolEbnf(answers->format(), answers->controls(), chat, format);
  if (!ebnf.ok()) return ebnf.status();
  return std::make_shared<const GrammarText>(*std::move(ebnf));
}

StatusOr<std::shared_ptr<LiveRequest>> LlmEngine::MakeLive(SinkRequest request,
                                                           const LiveRequest* before) {
  if (Status status = CheckModel(request.request.model); !status.ok()) return status;
  if (Status status = core::CheckRequest(request.request); !status.ok()) return status;
  if (config_.embeds_only && !request.request.embedding) return EmbedsOnly(config_.served_name);
  // Before its form is looked at, which takes work.
  const bool is_chat = std::holds_alternative<Chat>(request.request.prompt);
  if (is_chat && config_.render_chat == nullptr) return NoChatTemplate();
  StatusOr<std::shared_ptr<const GrammarText>> text = GrammarOf(request.request, before);
  if (!text.ok()) return text.status();
  auto live = std::make_shared<LiveRequest>(std::move(request));
  live->grammar = *std::move(text);
  if (Status status = intake_.Open(live.get()); !status.ok()) return status;
  return live;
}

StatusOr<std::vector<RequestId>> LlmEngine::SubmitAll(std::vector<SinkRequest> requests) {
  try {
    std::shared_ptr<core::AdmissionGroup> group;
    if (requests.size() > 1) {
      group = std::make_shared<core::AdmissionGroup>(static_cast<int32_t>(requests.size()));
    }
    std::vector<std::shared_ptr<LiveRequest>> all;
    all.reserve(requests.size());
    for (SinkRequest& request : requests) {
      StatusOr<std::shared_ptr<LiveRequest>> live =
          MakeLive(std::move(request), all.empty() ? nullptr : all.back().get());
      if (!live.ok()) return live.status();
      all.push_back(*std::move(live));
      all.back()->group = group;
    }
    return EnqueueAll(all);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

StatusOr<std::vector<RequestId>> LlmEngine::EnqueueAll(
    const std::vector<std::shared_ptr<LiveRequest>>& all) {
  std::vector<RequestId> ids;
  ids.reserve(all.size());
  Status status;
  {
    const std::lock_guard lock(mu_);
    status = CheckAccepting();
    for (size_t i = 0; i < all.size() && status.ok(); ++i) status = Reserve(all[i].get());
    try {
      for (size_t i = 0; i < all.size() && status.ok(); ++i) {
        status = Enqueue(all[i]);
        if (status.ok()) ids.push_back(all[i]->id);
      }
    } catch (const std::bad_alloc&) {
      status = OutOfMemory();
    }
  }
  if (status.ok()) return ids;
  // The prompt pool has those before already, and may have ended them. Not under the lock: see
  // CancelAll.
  for (size_t i = 0; i < ids.size(); ++i) CancelLive(all[i]);
  return status;
}

Status LlmEngine::Enqueue(const std::shared_ptr<LiveRequest>& live) {
  const std::optional<uint64_t>& seed = live->request.sampling.seed;
  live->seed = seed ? *seed : config_.random->Next64();
  if (Status status = requests_.Add(live); !status.ok()) return status;
  const auto forget = [&] {
    live->End();
    requests_.Erase(live->id);
  };
  try {
    if (prompt_pool_.TryAdd(live)) return {};
  } catch (const std::bad_alloc&) {
    forget();
    throw;
  }
  forget();
  return {StatusCode::kResourceExhausted, "the queue of prompts to encode is full"};
}

}  // namespace ropeway::engine
