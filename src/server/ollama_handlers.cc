#include "server/ollama_handlers.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "api/fields.h"
#include "api/json.h"
#include "api/ollama_answer.h"
#include "api/ollama_request.h"
#include "core/parameters.h"

namespace ropeway::server {
namespace {

using OllamaJson = nlohmann::ordered_json;

// The version of Ollama whose API this is: clients decide by it what they may ask for.
constexpr char kOllamaVersion[] = "0.13.0";
// When a model is unloaded that never is.
constexpr char kNever[] = "9999-12-31T23:59:59Z";
constexpr size_t kMostNames = 256;

http::HttpReply OllamaReply(const OllamaJson& body) {
  http::HttpReply reply;
  reply.body = api::DumpJson(body);
  return reply;
}

// A served name as Ollama lists it: with a tag.
std::string TaggedName(const std::string& name) {
  const std::string other = api::OtherOllamaName(name);
  return other.size() > name.size() ? other : name;
}

// "134.52M", "8B".
std::string CountText(uint64_t count) {
  const auto scaled = [count](double unit, const char* letter, int digits) {
    const double number = static_cast<double>(count) / unit;
    return fmt::format("{:.{}f}{}", number, number == std::floor(number) ? 0 : digits, letter);
  };
  if (count == 0) return {};
  if (count >= 1'000'000'000) return scaled(1e9, "B", 1);
  if (count >= 1'000'000) return scaled(1e6, "M", 2);
  return scaled(1e3, "K", 1);
}

std::string ModifiedAt(const service::ModelInfo& model) {
  return api::OllamaTime(
      std::chrono::system_clock::time_point(std::chrono::seconds(model.created)));
}

// Clients show the digest's beginning: one that is not known is as long as others.
std::string DigestText(const service::ModelInfo& model) {
  return model.digest.empty() ? std::string(64, '0') : model.digest;
}

OllamaJson DetailsJson(const service::ModelDetails& details) {
  OllamaJson families = OllamaJson::array();
  if (!details.architecture.empty()) families.push_back(details.architecture);
  return {{"parent_model", ""},
          {"format", details.architecture.empty() ? "" : "gguf"},
          {"family", details.architecture},
          {"families", std::move(families)},
          {"parameter_size", CountText(details.parameters)},
          {"quantization_level", details.quantization}};
}

// What a client may ask of it. A gateway's backends may do anything.
OllamaJson CapabilitiesJson(const service::ModelInfo& model) {
  const service::ModelDetails& details = model.details;
  if (model.embeds_only) return OllamaJson::array({"embedding"});
  OllamaJson list = OllamaJson::array({"completion"});
  const bool known = !details.architecture.empty();
  if (!known || details.calls_tools) list.push_back("tools");
  if (details.thinks) list.push_back("thinking");
  return list;
}

// A model's entry of a list, for each of its names.
OllamaJson EntryJson(const service::ModelInfo& model, const std::string& name) {
  return {{"name", TaggedName(name)},         {"model", TaggedName(name)},
          {"modified_at", ModifiedAt(model)}, {"size", model.details.bytes},
          {"digest", DigestText(model)},      {"details", DetailsJson(model.details)}};
}

template <typename Add>
OllamaJson ListJson(const ServerContext& context, Add add) {
  OllamaJson list = OllamaJson::array();
  for (const service::ModelInfo& model : context.backend->Models()) {
    std::vector<std::string> names = {model.id};
    names.insert(names.end(), model.aliases.begin(), model.aliases.end());
    for (const std::string& name : names) {
      if (list.size() == kMostNames) break;
      OllamaJson entry = EntryJson(model, name);
      add(model, &entry);
      list.push_back(std::move(entry));
    }
  }
  return {{"models", std::move(list)}};
}

// The sampling parameters that the model comes with, a line each, as a Modelfile has them.
std::string ParametersText(const SamplingParams& sampling) {
  std::string text;
  for (const core::Parameter& row : core::Parameters()) {
    const char* const name = core::NameAt(row, core::kOllama);
    if (name == nullptr) continue;
    core::VisitDefault(row, [&](auto, auto member) {
      const auto value = sampling.*member;
      if (static_cast<double>(value) == row.off) return;
      text += fmt::format("{}{:<30} {}", text.empty() ? "" : "\n", name, value);
    });
  }
  return text;
}

OllamaJson ShowJson(const service::ModelInfo& model, const service::FrontDesk& backend) {
  const service::ModelDetails& details = model.details;
  const StatusOr<service::TokenizerInfo> tokens = backend.DescribeTokenizer();
  OllamaJson info = OllamaJson::object();
  const std::string& family = details.architecture;
  if (!family.empty()) {
    info["general.architecture"] = family;
    info["general.parameter_count"] = details.parameters;
    info[family + ".embedding_length"] = details.hidden_size;
    info[family + ".block_count"] = details.layers;
    info[family + ".vocab_size"] = model.vocabulary;
  }
  if (model.max_model_len > 0) {
    info[(family.empty() ? "general" : family) + ".context_length"] = model.max_model_len;
  }
  return {{"modelfile", fmt::format("FROM {}\n", TaggedName(model.id))},
          {"parameters", ParametersText(model.sampling)},
          {"template", tokens.ok() ? tokens->chat_template : std::string()},
          {"details", DetailsJson(details)},
          {"model_info", std::move(info)},
          {"capabilities", CapabilitiesJson(model)},
          {"modified_at", ModifiedAt(model)}};
}

}  // namespace

http::HttpReply AnswerOllamaTags(const http::HttpRequest& /*request*/, ServerContext* context) {
  return OllamaReply(ListJson(*context, [](const service::ModelInfo& model, OllamaJson* entry) {
    (*entry)["capabilities"] = CapabilitiesJson(model);
  }));
}

http::HttpReply AnswerOllamaPs(const http::HttpRequest& /*request*/, ServerContext* context) {
  return OllamaReply(ListJson(*context, [](const service::ModelInfo& model, OllamaJson* entry) {
    (*entry)["expires_at"] = kNever;
    (*entry)["size_vram"] = model.details.on_gpu ? model.details.bytes : 0;
    (*entry)["context_length"] = model.max_model_len;
  }));
}

http::HttpReply AnswerOllamaVersion(const http::HttpRequest& /*request*/,
                                    ServerContext* /*context*/) {
  return OllamaReply({{"version", kOllamaVersion}, {"ropeway", ROPEWAY_VERSION}});
}

http::HttpReply AnswerOllamaShow(const http::HttpRequest& request, ServerContext* context) {
  const std::string& tenant = request.caller.tenant;
  if (request.body.size() > context->limits().max_inline_body_bytes) {
    return TooLargeToNameAModel();
  }
  const StatusOr<api::OllamaModelBody> body =
      api::ReadOllamaModelBody(request.body, context->limits().body);
  if (!body.ok()) return context->Rejection(body.status(), tenant);
  if (body->model.empty()) {
    return context->Rejection(InvalidArgument("'model' is required.", "model"), tenant);
  }
  StatusOr<service::ModelInfo> model = ModelToAsk(body->model, request.caller, *context);
  if (const std::string other = api::OtherOllamaName(body->model); !model.ok() && !other.empty()) {
    StatusOr<service::ModelInfo> found = ModelToAsk(other, request.caller, *context);
    if (found.ok()) model = std::move(found);
  }
  if (!model.ok()) return context->Rejection(model.status(), tenant);
  http::HttpReply reply = OllamaReply(ShowJson(*model, *context->backend));
  if (const std::string ignored = api::IgnoredHeader(body->ignored); !ignored.empty()) {
    reply.headers.emplace_back("x-ropeway-ignored", ignored);
  }
  return reply;
}

http::HttpReply TooLargeToNameAModel() {
  return http::ErrorReply({413, "The body is too large: it names a model, and little more.",
                           "invalid_request_error", "", ""});
}

http::HttpReply AnswerOllamaManages(const http::HttpRequest& /*request*/,
                                    ServerContext* /*context*/) {
  return http::ErrorReply(
      {501,
       "Requests cannot make, copy, push or delete models: what is served is chosen where the "
       "server is started.",
       "invalid_request_error", "", "unsupported"});
}

}  // namespace ropeway::server
