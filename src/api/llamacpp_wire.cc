// llama.cpp's llama-server: OpenAI's API with its own names of parameters, and paths of its own
// that tell its slots and load.
#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "api/openai_wire.h"
#include "api/parameter_json.h"
#include "api/wire_embedding.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

Status ReadLlamaHealth(std::string_view body, BackendFacts* /*facts*/) {
  StatusOr<Json> health = ReadDocument(body, "its health");
  if (health.ok() && health->is_object()) return {};
  return {StatusCode::kUnavailable, "it sent no JSON object at /health: it is not a llama-server"};
}

// Slots with requests; "state" is what old servers say instead of "is_processing".
Status ReadSlots(std::string_view body, BackendFacts* facts) {
  const StatusOr<Json> read = ReadDocument(body, "its slots");
  if (!read.ok()) return read.status();
  FieldReader fields;
  const Json& slots = fields.List(*read, "slots");
  const auto running = std::count_if(slots.begin(), slots.end(), [&](const Json& slot) {
    const Json& one = fields.Object(slot, "slots");
    const std::optional<bool> busy = fields.Flag(Member(one, "is_processing"), "is_processing");
    return busy ? *busy : fields.Count(Member(one, "state"), "state").value_or(0) > 0;
  });
  if (Status status = FaultStatus(fields); !status.ok()) return status;
  facts->running = static_cast<int>(running);
  if (!facts->places && !slots.empty()) facts->places = static_cast<int>(slots.size());
  return {};
}

Status ReadLlamaMetrics(std::string_view text, BackendFacts* facts) {
  if (const auto running = MetricCount(text, "llamacpp:requests_processing")) {
    facts->running = running;
  }
  facts->waiting = MetricCount(text, "llamacpp:requests_deferred");
  // Servers of before 2025 have it.
  const std::optional<double> used = MetricSum(text, "llamacpp:kv_cache_usage_ratio");
  if (used) facts->free_memory = std::clamp(1 - *used, 0.0, 1.0);
  return {};
}

class LlamaCppWire final : public OpenAiWire {
 public:
  using OpenAiWire::OpenAiWire;

  std::vector<WireProbe> Probes() override {
    using Need = WireProbe::Need;
    std::vector<WireProbe> probes;
    probes.push_back({"/health", Need::kGoodAnswer, ReadLlamaHealth});
    probes.push_back({"/v1/models", Need::kNone, ReadModels});
    probes.push_back(
        {"/props", Need::kNone, [this](auto body, auto* facts) { return ReadProps(body, facts); }});
    if (has_slots_) probes.push_back({"/slots", Need::kNone, ReadSlots});
    if (has_metrics_) probes.push_back({"/metrics", Need::kNone, ReadLlamaMetrics});
    return probes;
  }

 private:
  core::ServerKind Kind() const override { return core::kLlamaCpp; }

  // 0 would be none at all.
  int32_t AskedLogprobs(int32_t top) const override { return std::max(top, 1); }

  Status AddFields(const Request& request, OrderedJson* body) const override {
    if (Status status = CheckFromTheStart(request); !status.ok()) return status;
    // It takes 32 bits, and all ones for "draw one".
    if (body->contains("seed")) (*body)["seed"] = ShortSeed(SeedOf(request).value_or(0));
    return {};
  }

  Status AddEmbeddingFields(const Request& request, OrderedJson* body) const override {
    (*body)["encoding_format"] = "base64";
    if (!request.embedding->normalize) (*body)["embd_normalize"] = -1;
    return CheckPooling(request);
  }

  Status ReadProps(std::string_view body, BackendFacts* facts) {
    const StatusOr<Json> read = ReadDocument(body, "its properties");
    if (!read.ok()) return read.status();
    FieldReader fields;
    const Json& props = fields.Object(*read, "props");
    const auto slots = fields.Count(Member(props, "total_slots"), "total_slots");
    const auto has_slots = fields.Flag(Member(props, "endpoint_slots"), "endpoint_slots");
    const auto has_metrics = fields.Flag(Member(props, "endpoint_metrics"), "endpoint_metrics");
    if (Status status = FaultStatus(fields); !status.ok()) return status;
    if (slots.value_or(0) > 0) facts->places = slots;
    has_slots_ = has_slots.value_or(true);
    has_metrics_ = has_metrics.value_or(false);
    return {};
  }

  // As its properties said last: a request for what is turned off is an error in its log.
  std::atomic<bool> has_slots_ = true;
  std::atomic<bool> has_metrics_ = false;
};

}  // namespace

std::unique_ptr<WireFormat> MakeLlamaCpp(ServerModel model) {
  return std::make_unique<LlamaCppWire>(std::move(model));
}

}  // namespace ropeway::api::wire
