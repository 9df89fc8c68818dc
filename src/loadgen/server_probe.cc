#include "loadgen/server_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "loadgen/prompt.h"

namespace ropeway::loadgen {
namespace {

using Json = nlohmann::json;

constexpr double kListTimeout = 30;  // Seconds; no list takes longer.
constexpr int kProbeTokens = 16;
constexpr int kMaxOverhead = 4096;  // A longer system prompt is no overhead but a mistake.

// Takes name and length of the requested model, or of the first one, from a list of models.
void ReadModels(const std::string& body, ServerFacts* facts) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return;
  for (const Json& model : json["data"]) {
    if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) continue;
    if (facts->model.empty()) facts->model = model["id"].get<std::string>();
    if (model["id"] != facts->model) continue;
    if (model.contains("max_model_len") && model["max_model_len"].is_number_unsigned()) {
      facts->max_model_len =
          static_cast<int>(std::min<uint64_t>(model["max_model_len"].get<uint64_t>(), INT32_MAX));
    }
    return;
  }
}

// One form of the request.
struct Way {
  bool ids = false;
  bool ignore_eos = false;
};

std::vector<Way> WaysToTry(const LoadOptions& options) {
  std::vector<Way> ways;
  const bool random = options.flags.dataset.empty();
  for (const bool ids : {true, false}) {
    if (random ? options.prompt_ids.value_or(ids) != ids : ids) continue;
    if (options.ignore_eos) ways.push_back({ids, true});
    ways.push_back({ids, false});
  }
  return ways;
}

// The prompt tokens that the server counts in a reply; none where it does not say.
std::optional<int> CountedTokens(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("usage") || !json["usage"].is_object()) {
    return std::nullopt;
  }
  const Json& usage = json["usage"];
  if (!usage.contains("prompt_tokens") || !usage["prompt_tokens"].is_number_unsigned()) {
    return std::nullopt;
  }
  return static_cast<int>(std::min<uint64_t>(usage["prompt_tokens"].get<uint64_t>(), INT32_MAX));
}

net::HttpClient::Reply Try(const net::HttpClient& client, const LoadOptions& options,
                           const std::string& model, Way way) {
  RequestShape shape;
  shape.model = model;
  shape.chat = options.chat;
  shape.stream = false;
  shape.ignore_eos = way.ignore_eos;
  // No run has this number: no later prompt begins like this one.
  Prompt prompt = RandomPrompts(options.flags.seed, way.ids, 0).Make(-1, 0, kProbeTokens);
  if (way.ids) prompt.ids.back() = RandomPrompts::kLastId;
  prompt.max_tokens = 1;
  return client.Fetch(options.chat ? "/chat/completions" : "/completions",
                      RequestBody(shape, prompt, options.flags.seed), options.flags.timeout);
}

void TakeWay(const LoadOptions& options, Way way, const std::string& body, ServerFacts* facts) {
  facts->prompt_ids = way.ids;
  facts->ignore_eos = way.ignore_eos;
  if (options.ignore_eos && !way.ignore_eos) {
    facts->notes.emplace_back(
        "The server does not know ignore_eos: answers may be shorter than requested.");
  }
  if (!options.flags.dataset.empty()) return;
  const std::optional<int> counted = CountedTokens(body);
  if (!counted) {
    facts->notes.emplace_back(
        "The server does not count tokens: the length of the prompts is a guess.");
  } else if (*counted < kProbeTokens || *counted > kProbeTokens + kMaxOverhead) {
    facts->notes.push_back(fmt::format(
        "The server counts {} tokens, but {} were sent: the length of the prompts is a guess.",
        *counted, kProbeTokens));
  } else {
    facts->overhead = *counted - kProbeTokens;
  }
}

}  // namespace

StatusOr<ServerFacts> ProbeServer(const net::HttpClient& client, const LoadOptions& options) {
  ServerFacts facts;
  facts.model = options.flags.model;
  const net::HttpClient::Reply models =
      client.Fetch("/models", "", std::min(options.flags.timeout, kListTimeout));
  if (models.status == 200) ReadModels(models.body, &facts);
  if (models.error_kind == net::http_error::kConnect ||
      models.error_kind == net::http_error::kRefused) {
    return Status(StatusCode::kUnavailable, fmt::format("--base-url: cannot connect to {}: {}",
                                                        options.url.Text(), models.why));
  }
  if (facts.model.empty()) {
    const std::string why = models.status == 0     ? models.why
                            : models.status == 200 ? "it lists no models"
                                                   : fmt::format("HTTP {}", models.status);
    return Status(StatusCode::kUnavailable,
                  fmt::format("{}/models does not say which model is served ({}): name one with "
                              "--model.",
                              options.url.Text(), why));
  }

  const std::vector<Way> ways = WaysToTry(options);
  facts.prompt_ids = ways.front().ids;
  facts.ignore_eos = ways.front().ignore_eos;
  for (const Way way : ways) {
    const net::HttpClient::Reply reply = Try(client, options, facts.model, way);
    if (reply.status == 200) {
      TakeWay(options, way, reply.body, &facts);
      return facts;
    }
    // Only a rejection of the request itself is worth another form of it.
    if (reply.status != 400 && reply.status != 422) break;
  }
  facts.notes.emplace_back("The server rejected or failed the first request.");
  return facts;
}

}  // namespace ropeway::loadgen
