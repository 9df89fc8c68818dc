#include "api/wire_embedding.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/wire_fields.h"
#include "api/wire_json.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;

// Of an answer: some 50,000 numbers, as long as they get.
constexpr size_t kMaxEmbeddingBytes = WireReply::kMaxEventBytes;

// The value of a digit of base64; -1: it is none.
int DigitOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// False: it is not the base64 of floats.
bool ReadFloatBase64(std::string_view text, std::vector<float>* floats) {
  static_assert(std::endian::native == std::endian::little);
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = DigitOf(c);
    if (digit < 0) return false;
    bits = bits << 6U | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> static_cast<uint32_t>(count) & 0xFFU);
  }
  if (bytes.empty() || bytes.size() % sizeof(float) != 0) return false;
  floats->resize(bytes.size() / sizeof(float));
  std::memcpy(floats->data(), bytes.data(), bytes.size());
  return true;
}

bool ReadFloatList(const Json& list, std::vector<float>* floats) {
  if (!list.is_array()) return false;
  floats->reserve(list.size());
  for (const Json& number : list) {
    if (!number.is_number()) return false;
    floats->push_back(number.get<float>());
  }
  return !floats->empty();
}

class EmbeddingReply final : public WireReply {
 public:
  std::optional<Outcome> Feed(std::string_view bytes, const DeltaFn& /*give*/) override {
    body_ += bytes;
    if (body_.size() <= kMaxEmbeddingBytes) return std::nullopt;
    return Broken(fmt::format("sent an answer of more than {} bytes", kMaxEmbeddingBytes));
  }

  // The end of the body tells.
  bool complete() const override { return false; }

  Outcome End(const DeltaFn& give) override {
    const StatusOr<Json> read = ReadDocument(body_, "its answer");
    if (!read.ok()) return Broken("sent a broken answer: " + read.status().message());
    FieldReader fields;
    Delta delta;
    const Json& shown = Shown(*read, &fields);
    if (!fields.fault().empty()) return Broken(fields.fault());
    if (shown.is_null()) return ErrorFailure("answered with an error: ", *read);
    const bool good = shown.is_string() ? ReadFloatBase64(Text(shown), &delta.embedding)
                                        : ReadFloatList(shown, &delta.embedding);
    if (!good) fields.Fault("embedding", "with what is no list of numbers");
    for (const float x : delta.embedding) {
      if (!std::isfinite(x)) fields.Fault("embedding", "with a number that is not finite");
    }
    Finish end = Outcome::Unsaid();
    end.reason = FinishReason::kLength;  // As of an engine: nothing is generated.
    const Json& usage = fields.Object(Member(*read, "usage"), "usage");
    end.usage.prompt_tokens =
        fields.Count(Member(usage, "prompt_tokens"), "prompt_tokens")
            .value_or(fields.Count(Member(*read, "prompt_eval_count"), "prompt_eval_count")
                          .value_or(Usage::kUnknown));
    end.usage.completion_tokens = 0;
    if (!fields.fault().empty()) return Broken(fields.fault());
    give(std::move(delta));
    return Outcome::Ended(end);
  }

 private:
  // The vector; null: there is none.
  static const Json& Shown(const Json& answer, FieldReader* fields) {
    const Json& data = fields->List(Member(answer, "data"), "data");
    if (data.size() == 1) return Member(data[0], "embedding");
    const Json& all = fields->List(Member(answer, "embeddings"), "embeddings");
    if (all.size() == 1) return all[0];
    if (data.size() > 1 || all.size() > 1) fields->Fault("data", "with more than one embedding");
    return Member(answer, "embedding");
  }

  std::string body_;
};

}  // namespace

const char* PoolingName(Pooling pooling) {
  if (pooling == Pooling::kFirst) return "cls";
  return pooling == Pooling::kMean ? "mean" : "last";
}

Status CheckPooling(const Request& request) {
  if (request.embedding->pooling == Pooling::kModel) return {};
  return {StatusCode::kUnimplemented, "it supports only the pooling that its model was made for",
          "pooling"};
}

Status NoChatToEmbed() { return {StatusCode::kUnimplemented, "it embeds no chat", "prompt"}; }

Status WriteInput(const Request& request, nlohmann::ordered_json* body) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    (*body)["input"] = *ids;
  } else if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    (*body)["input"] = *text;
  } else {
    return NoChatToEmbed();
  }
  return {};
}

std::unique_ptr<WireReply> MakeEmbeddingReply() { return std::make_unique<EmbeddingReply>(); }

}  // namespace ropeway::api::wire
