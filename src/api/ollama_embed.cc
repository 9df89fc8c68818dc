// POST /api/embed and, as it was called before, POST /api/embeddings: Ollama's embeddings.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/dialects.h"
#include "api/embedding_body.h"
#include "api/json.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

// Ollama shows all numbers where there are fewer.
Status ReadMostDimensions(const json& value, const std::string& field, EmbeddingBody* body) {
  return Store(ReadInt32(value, field, 0, INT32_MAX), &body->most_dimensions);
}

Status ReadOldPrompt(const json& value, const std::string& field, EmbeddingBody* body) {
  StatusOr<std::string> text = ReadString(value, field);
  if (!text.ok()) return text.status();
  if (text->empty()) return {};
  body->prompts = {Prompt(*std::move(text))};
  return {};
}

Status ReadOllamaInput(const json& value, const std::string& field, EmbeddingBody* body) {
  if (value == "" || value == json::array()) return {};
  if (!value.is_string() && !value.is_array()) {
    return Mismatch(value, field, "a string or a list of strings");
  }
  for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
    if (value[i].is_string()) continue;
    return AtEntry(Mismatch(value[i], fmt::format("{}[{}]", field, i), "a string"), field);
  }
  return ReadInputs(value, field, body);
}

const FieldTable<OpenAiBody>& OllamaEmbedTable() {
  static const FieldTable<OpenAiBody> table = EmbeddingFields(
      kOllamaEmbed,
      {{"input", ReadOllamaInput}, {"truncate", ReadTruncate}, {"dimensions", ReadMostDimensions}},
      {"model", "priority", "timeout", "cache_salt"});
  return table;
}

const FieldTable<OpenAiBody>& OllamaOldTable() {
  static const FieldTable<OpenAiBody> table =
      EmbeddingFields(kOllamaOldEmbeddings, {{"prompt", ReadOldPrompt}},
                      {"model", "priority", "timeout", "cache_salt"});
  return table;
}

// With nothing to embed Ollama loads the model and answers with no embedding.
class OllamaEmbeddingFormat : public EmbeddingFormat {
 public:
  Status Parse(std::string_view body, const BodyLimits& limits) final {
    return ReadEmbeddingBody(body, limits, table_, nullptr, &body_);
  }
  std::string ErrorBody(const ApiError& error) const final {
    std::string out = R"({"error":)";
    AppendJsonString(Shown(error).message, &out);
    return out + "}";
  }

 protected:
  OllamaEmbeddingFormat(const FieldTable<OpenAiBody>& table, const char* input)
      : EmbeddingFormat(table, input) {
    body_.request.embedding->truncate = true;  // Ollama's default.
  }
};

class OllamaEmbed final : public OllamaEmbeddingFormat {
 public:
  OllamaEmbed() : OllamaEmbeddingFormat(OllamaEmbedTable(), "input") {}

  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    std::string out;
    out.reserve(BytesOf(choices));
    out += R"({"model":)";
    AppendJsonString(head_.model, &out);
    out += R"(,"embeddings":[)";
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) out += ',';
      AppendEmbedding(choices[i], &out);
    }
    const auto took = std::chrono::steady_clock::now() - made_;
    return out + fmt::format(R"(],"total_duration":{},"load_duration":0,"prompt_eval_count":{}}})",
                             std::chrono::nanoseconds(took).count(), PromptTokens(choices));
  }

 private:
  const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
};

class OllamaOldEmbeddings final : public OllamaEmbeddingFormat {
 public:
  OllamaOldEmbeddings() : OllamaEmbeddingFormat(OllamaOldTable(), "prompt") {
    body_.request.embedding->normalize = false;
  }

  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    if (choices.empty()) return R"({"embedding":[]})";
    std::string out = R"({"embedding":)";
    AppendEmbedding(choices.front(), &out);
    return out + "}";
  }
};

}  // namespace

std::unique_ptr<ApiFormat> MakeOllamaEmbed() { return std::make_unique<OllamaEmbed>(); }
std::unique_ptr<ApiFormat> MakeOllamaOldEmbeddings() {
  return std::make_unique<OllamaOldEmbeddings>();
}

}  // namespace ropeway::api
