// Another Ropeway: OpenAI's API with all of Ropeway's parameters and, where it gives the gateway's
// key the right to them, the ids of a stream's tokens and the resuming of streams.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/openai_wire.h"
#include "api/parameter_json.h"
#include "api/wire_embedding.h"
#include "base/sha256.h"
#include "core/request_check.h"
#include "core/tenant.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// A name that the server takes for a tenant or a scope: the same one if it is of that form, else 64
// characters in its place.
std::string TenantName(const std::string& name) {
  return core::IsTenantName(name) ? name : base::HexText(base::Sha256(name.data(), name.size()));
}

OrderedJson GatewayMember(const Request& request, bool ids_wanted) {
  OrderedJson member = {{"choice", request.choice},
                        {"ids", ids_wanted},
                        {"weight", std::clamp(request.tenant_weight, core::kMinTenantWeight,
                                              core::kMaxTenantWeight)}};
  if (!request.tenant.empty()) member["tenant"] = TenantName(request.tenant);
  if (!request.cache_scope.empty()) member["cache_scope"] = TenantName(request.cache_scope);
  if (!request.resume_ids.empty()) member["resume_ids"] = request.resume_ids;
  return member;
}

class RopewayReply final : public OpenAiReply {
 public:
  // `vocabulary`: ids are below it; 0: it is not known.
  RopewayReply(const Request& request, int32_t vocabulary)
      : OpenAiReply(request),
        most_ids_(request.max_tokens ? static_cast<size_t>(std::max(*request.max_tokens, 0))
                                     : std::numeric_limits<size_t>::max()),
        vocabulary_(vocabulary) {}

 private:
  void OnEvent(const Json& event, FieldReader* fields) override {
    const Json& own = fields->Object(Member(event, "ropeway"), "ropeway");
    if (const auto seed = fields->Integer(Member(own, "seed"), "ropeway.seed")) end_.seed = *seed;
    const auto left = fields->Integer(Member(own, "max_tokens"), "ropeway.max_tokens");
    if (Text(Member(own, "cut_by")) == kTokensPerMinute) end_.cut_by = kTokensPerMinute;
    if (left) end_.max_tokens = static_cast<int32_t>(std::min<uint64_t>(*left, INT32_MAX));
  }

  void OnChoice(const Json& choice, FieldReader* fields,
                std::vector<OutputToken>* tokens) override {
    const Json& ids = fields->List(Member(choice, kIds), kIds);
    if (ids.is_null()) return;
    // Without log-probabilities the ids are all that is told of the tokens.
    if (!logprobs()) tokens->resize(ids.size());
    if (ids.size() != tokens->size()) return fields->Fault(kIds, kOtherLength);
    const Json& offsets = fields->List(Member(choice, kOffsets), kOffsets);
    if (!offsets.empty() && offsets.size() != ids.size()) {
      return fields->Fault(kOffsets, kOtherLength);
    }
    if (ids.size() > most_ids_)
      return fields->Fault(kIds, "with more ids than tokens were asked for");
    for (size_t i = 0; i < ids.size(); ++i) {
      OutputToken& token = (*tokens)[i];
      const std::optional<int32_t> id = Count(ids[i]);
      if (!id || (vocabulary_ > 0 && *id >= vocabulary_)) {
        return fields->Fault(kIds, "with an entry that is not a token id");
      }
      token.id = *id;
      if (offsets.empty()) continue;
      token.text_offset = fields->Integer(offsets[i], kOffsets).value_or(token.text_offset);
    }
  }

  static constexpr char kIds[] = "ropeway_ids";
  static constexpr char kOffsets[] = "ropeway_offsets";
  static constexpr char kOtherLength[] = "with more or fewer entries than tokens";

  const size_t most_ids_;
  const int32_t vocabulary_;
};

// "1024 f16" from a string, a number or an object: compared, never read.
std::string FactText(const Json& json) {
  if (json.is_null()) return {};
  return json.is_string() ? std::string(Text(json)) : json.dump();
}

Status ReadRopewayHealth(std::string_view body, BackendFacts* facts) {
  const StatusOr<Json> health = ReadDocument(body, "its health");
  if (!health.ok() || Text(Member(*health, "status")).empty()) {
    return {StatusCode::kUnavailable, "it sent no 'status' at /health: it is not Ropeway"};
  }
  FieldReader fields;
  const Json& batching = fields.Object(Member(*health, "batching"), "batching");
  const auto places = fields.Count(Member(batching, "max_batch_size"), "max_batch_size");
  const auto waiting = fields.Count(Member(batching, "queue_depth"), "queue_depth");
  if (Status status = FaultStatus(fields); !status.ok()) return status;
  if (places.value_or(0) > 0) facts->places = places;
  facts->waiting = waiting;
  facts->preempts = true;  // Every request tells its class.
  return {};
}

Status ReadQueue(std::string_view body, BackendFacts* facts) {
  const StatusOr<Json> queue = ReadDocument(body, "its queue");
  if (!queue.ok()) return queue.status();
  FieldReader fields;
  int64_t running = 0;
  int64_t waiting = 0;
  const Json& classes = fields.Object(Member(*queue, "classes"), "classes");
  for (const Json& value : classes) {
    const Json& one = fields.Object(value, "classes");
    running += fields.Count(Member(one, "running"), "running").value_or(0);
    waiting += fields.Count(Member(one, "waiting"), "waiting").value_or(0);
  }
  if (Status status = FaultStatus(fields); !status.ok()) return status;
  if (classes.is_null()) return {};
  constexpr int64_t kMost = INT32_MAX;
  facts->running = static_cast<int>(std::min(running, kMost));
  if (!facts->waiting) facts->waiting = static_cast<int>(std::min(waiting, kMost));
  return {};
}

Status ReadRopewayMetrics(std::string_view text, BackendFacts* facts) {
  const std::optional<double> used = MetricSum(text, "ropeway_kv_cache_usage_ratio");
  if (used) facts->free_memory = std::clamp(1 - *used, 0.0, 1.0);
  return {};
}

class RopewayWire final : public OpenAiWire {
 public:
  using OpenAiWire::OpenAiWire;

  std::vector<WireProbe> Probes() override {
    using Need = WireProbe::Need;
    std::vector<WireProbe> probes;
    probes.push_back({"/health", Need::kGoodAnswer, ReadRopewayHealth});
    probes.push_back({"/v1/models", Need::kGoodAnswer,
                      [this](auto body, auto* facts) { return ReadList(body, facts); }});
    probes.push_back({"/v1/queue", Need::kNone, ReadQueue});
    probes.push_back({"/metrics", Need::kNone, ReadRopewayMetrics});
    return probes;
  }

  bool CanResume() const override { return has_ids_; }
  std::vector<std::string> Unknown(const Request& /*request*/) const override { return {}; }

 private:
  core::ServerKind Kind() const override { return core::kRopeway; }

  std::unique_ptr<WireReply> MakeStreamReply(const Request& request) const override {
    return std::make_unique<RopewayReply>(request, vocabulary_);
  }

  Status AddFields(const Request& request, OrderedJson* body) const override {
    // Absent it would mean the 16 of OpenAI's completions.
    if (!IsChat(request) && !request.max_tokens) (*body)["max_tokens"] = -1;
    return AddOwnFields(request, body);
  }

  Status AddEmbeddingFields(const Request& request, OrderedJson* body) const override {
    (*body)["encoding_format"] = "base64";
    const EmbeddingParams& params = *request.embedding;
    if (params.pooling != Pooling::kModel) (*body)["pooling"] = PoolingName(params.pooling);
    (*body)["normalize"] = params.normalize;
    (*body)["truncate"] = params.truncate;
    Status status = AddOwnFields(request, body);
    body->erase("seed");
    return status;
  }

  Status AddOwnFields(const Request& request, OrderedJson* body) const {
    (*body)["priority"] = PriorityName(request.priority);
    if (request.timeout && request.timeout->count() > 0) {
      constexpr double kMostSeconds = 86'400;
      const double seconds = std::chrono::duration<double>(*request.timeout).count();
      (*body)["timeout"] = std::min(seconds, kMostSeconds);
    }
    if (request.cache_retention == CacheRetention::kLong) {
      (*body)["prompt_cache_retention"] = "24h";
    }
    const bool acts_for_tenant = has_right_;
    std::optional<uint64_t> seed = request.sampling.seed;
    std::string salt = request.cache_salt;
    if (acts_for_tenant) {
      (*body)["ropeway_gateway"] = GatewayMember(request, has_ids_);
    } else if (Status status = CheckFromTheStart(request); !status.ok()) {
      return status;
    } else {
      // To the server all requests are one tenant's.
      seed = SeedOf(request);
      salt = SharedCacheSalt(request);
    }
    if (seed) (*body)["seed"] = *seed;
    if (!salt.empty()) (*body)["cache_salt"] = salt;
    return {};
  }

  // The server tells these facts to keys that may resume streams.
  Status ReadList(std::string_view body, BackendFacts* facts) {
    Status status = ReadModels(body, facts);
    if (!status.ok()) return status;
    // "default" is the name of the first model, whatever it is called.
    const bool any = core::IsDefaultModel(configured().name);
    if (!any && !Recognize(facts->models)) {
      // At once, not after several failures: nothing but its configuration changes that.
      facts->ready = false;
      facts->reason = NoSuchModel(facts->models);
      return {};
    }
    const StatusOr<Json> list = ReadDocument(body, "its list of models");
    FieldReader fields;
    bool has_right = false;
    bool has_ids = false;
    int32_t vocabulary = 0;
    bool found = false;
    for (const Json& entry : ModelEntries(*list, &fields)) {
      if (!any && wire::ModelName(entry, &fields) != ModelName()) continue;
      if (!found) facts->embeds_only = Member(entry, "embeds_only") == true;
      found = true;
      const Json& own = fields.Object(Member(entry, "ropeway"), "ropeway");
      if (!own.is_object()) continue;
      has_right = true;
      facts->model_digest = FactText(Member(own, "digest"));
      facts->numerics = FactText(Member(own, "numerics"));
      facts->limits = FactText(Member(own, "limits"));
      has_ids = !facts->model_digest.empty();
      // Older ones do not tell.
      vocabulary = fields.Count(Member(own, "vocabulary"), "vocabulary").value_or(0);
      break;
    }
    if (Status fault = FaultStatus(fields); !fault.ok()) return fault;
    has_right_ = has_right;
    facts->shares_tenants = has_right;
    has_ids_ = has_ids;
    vocabulary_ = vocabulary;
    return {};
  }

  std::string NoSuchModel(const std::vector<std::string>& names) const {
    constexpr size_t kMostNames = 5;
    std::string known;
    for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
      known += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i].substr(0, 40));
    }
    if (known.empty()) known = "none";
    return fmt::format("it has no model '{}'; it has {}: name one with upstream=NAME",
                       configured().name, known);
  }

  // As was told last: of the gateway's key; and whether the server computes itself. Another gateway
  // does not: it has the right to give, but perhaps no ids, and would hold back all text for them.
  std::atomic<bool> has_right_ = false;
  std::atomic<bool> has_ids_ = false;
  std::atomic<int32_t> vocabulary_ = 0;
};

}  // namespace

std::unique_ptr<WireFormat> MakeRopeway(ServerModel model) {
  return std::make_unique<RopewayWire>(std::move(model));
}

}  // namespace ropeway::api::wire
