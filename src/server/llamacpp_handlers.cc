// What llama.cpp's clients ask of a server beside completions: its properties and its slots.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/json.h"
#include "api/llamacpp_answer.h"
#include "server/handlers.h"
#include "server/url_query.h"

namespace ropeway::server {
namespace {

using Json = nlohmann::ordered_json;

http::HttpReply ReplyWith(const Json& body) {
  http::HttpReply reply;
  reply.body = api::DumpJson(body);
  return reply;
}

// Requests that run at once.
int SlotsOf(const service::FrontDesk& backend) {
  return std::max(backend.Stats().max_batch_size, 1);
}

// A slot without a request.
Json IdleSlot(int id, int32_t context) {
  return {{"id", id}, {"n_ctx", context}, {"speculative", false}, {"is_processing", false}};
}

}  // namespace

http::HttpReply AnswerProps(const http::HttpRequest& request, ServerContext* context) {
  const service::FrontDesk& backend = *context->backend;
  UrlQuery query(request.match.query);
  const StatusOr<service::ModelInfo> model =
      FindModel(query.Text("model").value_or(std::string()), *context);
  if (!model.ok()) return context->Rejection(model.status(), request.caller.tenant);
  // A gateway without a model file knows neither tokens nor template.
  const service::TokenizerInfo tokens =
      backend.DescribeTokenizer().ok() ? *backend.DescribeTokenizer() : service::TokenizerInfo();
  Request defaults;
  defaults.sampling = context->sampling;
  const api::LlamaCppSettings settings = {
      .seed = std::numeric_limits<uint32_t>::max(), .stream = true, .texts = false};
  return ReplyWith({{"default_generation_settings",
                     {{"params", api::LlamaCppSettingsJson(defaults, settings)},
                      {"n_ctx", model->max_model_len}}},
                    {"total_slots", SlotsOf(backend)},
                    {"model_alias", model->id},
                    {"model_ftype", ""},
                    {"model_path", model->id},  // Where the file lies is the operator's own.
                    {"modalities", {{"vision", false}, {"video", false}, {"audio", false}}},
                    {"media_marker", ""},
                    {"endpoint_slots", true},
                    {"endpoint_props", false},
                    {"endpoint_metrics", false},  // Ropeway's have other names.
                    {"ui", false},
                    {"ui_settings", Json::object()},
                    {"chat_template", tokens.chat_template},
                    {"chat_template_caps", Json::object()},
                    {"bos_token", tokens.bos_token},
                    {"eos_token", tokens.eos_token},
                    {"build_info", "ropeway-" ROPEWAY_VERSION},
                    {"is_sleeping", false},
                    {"cors_proxy_enabled", false}});
}

// The running requests, each in a slot. Those of the caller have details, but no text; of the
// others it sees that their slots are busy.
http::HttpReply AnswerSlots(const http::HttpRequest& request, ServerContext* context) {
  const service::FrontDesk& backend = *context->backend;
  const std::vector<service::ModelInfo> models = backend.Models();
  const int32_t length = models.empty() ? 0 : models.front().max_model_len;
  Json slots = Json::array();
  for (const service::RequestInfo& one : backend.Requests()) {
    if (one.state != service::RequestInfo::State::kRunning) continue;
    Json slot = IdleSlot(static_cast<int>(slots.size()), length);
    slot["is_processing"] = true;
    if (request.caller.admin || one.tenant == request.caller.tenant) {
      slot["id_task"] = one.id;
      slot["n_prompt_tokens"] = one.prompt_tokens;
      slot["age_seconds"] = one.age_seconds;
    }
    slots.push_back(std::move(slot));
  }
  const auto places = static_cast<size_t>(SlotsOf(backend));
  UrlQuery query(request.match.query);
  if (query.Text("fail_on_no_slot").value_or("") != "" && slots.size() >= places) {
    return http::ErrorReply({503, "All slots are busy.", "service_unavailable", "", ""});
  }
  while (slots.size() < places) slots.push_back(IdleSlot(static_cast<int>(slots.size()), length));
  return ReplyWith(slots);
}

}  // namespace ropeway::server
