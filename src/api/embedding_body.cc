#include "api/embedding_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/json.h"

namespace ropeway::api {

using nlohmann::json;

FieldTable<OpenAiBody> EmbeddingFields(Dialect dialect, std::initializer_list<EmbeddingField> own,
                                       std::initializer_list<const char*> shared) {
  FieldReaders<OpenAiBody> readers;
  for (const EmbeddingField& field : own) {
    readers.emplace(field.name, [read = field.read](const json& value, const std::string& name,
                                                    OpenAiBody* body) {
      return read(value, name, static_cast<EmbeddingBody*>(body));
    });
  }
  FieldReaders<OpenAiBody> all = WithOpenAiFields(dialect, {}).readers;
  for (const char* name : shared) readers.insert(all.extract(name));
  return {dialect, std::move(readers)};
}

Status ReadInputs(const json& value, const std::string& field, EmbeddingBody* body) {
  return ReadPrompts(value, field, kMostInputs, "inputs", &body->prompts);
}

Status ReadNormalize(const json& value, const std::string& field, EmbeddingBody* body) {
  return Store(ReadBool(value, field), &body->request.embedding->normalize);
}

Status ReadTruncate(const json& value, const std::string& field, EmbeddingBody* body) {
  return Store(ReadBool(value, field), &body->request.embedding->truncate);
}

Status ReadEmbeddingBody(std::string_view text, const BodyLimits& limits,
                         const FieldTable<OpenAiBody>& table, const char* input,
                         EmbeddingBody* body) {
  const StatusOr<json> document = ReadJson(text, limits.json);
  if (!document.ok()) return document.status();
  FieldReport report(table.dialect, limits);
  body->report = &report;
  body->max_choices = kMostInputs;
  const Status read = ReadFields(*document, table, static_cast<OpenAiBody*>(body));
  body->report = nullptr;
  body->ignored = report.ignored();
  if (!document->is_object()) return read;
  if (input != nullptr && body->prompts.empty()) {
    report.AddTogether(InvalidArgument(fmt::format("'{}' is required.", input), input));
  }
  // Nothing is sampled, whatever the server's defaults are.
  body->request.sampling = SamplingParams();
  body->request.sampling.given = SamplingParams::kNoneGiven;
  body->request.max_tokens = 0;
  return report.status();
}

ApiError WithInput(ApiError error, const char* input) {
  // A gateway's backend was asked as OpenAI's API asks.
  if (error.param == "prompt" || error.param == "input") error.param = input;
  return error;
}

std::vector<float> Shortened(std::vector<float> embedding, int32_t dimensions, bool normalize) {
  const auto size = static_cast<size_t>(dimensions);
  if (dimensions == 0 || size >= embedding.size()) return embedding;
  embedding.resize(size);
  if (!normalize) return embedding;
  // As docs/numerics.md has it for the whole.
  double squares = 0.0;
  for (const float x : embedding) squares += double{x} * double{x};
  const double length = std::sqrt(squares);
  if (!(length > 0.0)) return embedding;
  for (float& x : embedding) x = static_cast<float>(double{x} / length);
  return embedding;
}

void AppendNumbers(std::span<const float> embedding, std::string* out) {
  *out += '[';
  for (size_t i = 0; i < embedding.size(); ++i) {
    if (i > 0) *out += ',';
    // JSON has no other number.
    const float x = std::isfinite(embedding[i]) ? embedding[i] : 0.0F;
    fmt::format_to(std::back_inserter(*out), "{}", x);
    // An integer would lose its sign.
    if (x == 0.0F && std::signbit(x)) *out += ".0";
  }
  *out += ']';
}

void AppendBase64(std::span<const float> embedding, std::string* out) {
  static_assert(std::endian::native == std::endian::little);
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bytes = std::as_bytes(embedding);
  const auto at = [&](size_t i) {
    return i < bytes.size() ? std::to_integer<uint32_t>(bytes[i]) : 0U;
  };
  *out += '"';
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t group = at(i) << 16U | at(i + 1) << 8U | at(i + 2);
    *out += kDigits[group >> 18U];
    *out += kDigits[group >> 12U & 63U];
    *out += i + 1 < bytes.size() ? kDigits[group >> 6U & 63U] : '=';
    *out += i + 2 < bytes.size() ? kDigits[group & 63U] : '=';
  }
  *out += '"';
}

int64_t PromptTokens(const std::vector<ChoiceOutput>& choices) {
  int64_t tokens = 0;
  for (const ChoiceOutput& choice : choices) {
    tokens += std::max(choice.finish.usage.prompt_tokens, 0);
  }
  return tokens;
}

ApiError EmbeddingFormat::Shown(ApiError error) const {
  constexpr char kHelps[] = "; with 'truncate': true it is cut";
  // A gateway's backend may have said it.
  if (error.code == "context_length_exceeded" && table_.readers.contains("truncate") &&
      !body_.request.embedding->truncate && !error.message.ends_with(kHelps)) {
    error.message += kHelps;
  }
  return WithInput(std::move(error), input_);
}

void EmbeddingFormat::AppendEmbedding(const ChoiceOutput& choice, std::string* out) const {
  std::span<const float> shown = choice.embedding;
  std::vector<float> shortened;
  const int32_t dimensions = std::max(body_.dimensions, body_.most_dimensions);
  if (dimensions > 0 && static_cast<size_t>(dimensions) < shown.size()) {
    shortened = Shortened(choice.embedding, dimensions, body_.request.embedding->normalize);
    shown = shortened;
  }
  body_.base64 ? AppendBase64(shown, out) : AppendNumbers(shown, out);
}

size_t EmbeddingFormat::BytesOf(const std::vector<ChoiceOutput>& choices) const {
  constexpr size_t kAround = 64;
  const size_t each = body_.base64 ? 6 : 14;  // Bytes of a number.
  size_t bytes = 256;
  for (const ChoiceOutput& choice : choices) bytes += choice.embedding.size() * each + kAround;
  return bytes;
}

}  // namespace ropeway::api
