// POST /v1/embeddings: OpenAI's embeddings.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "api/dialects.h"
#include "api/embedding_body.h"
#include "api/json.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

Status ReadEmbeddingEncoding(const json& value, const std::string& field, EmbeddingBody* body) {
  if (value != "float" && value != "base64") {
    return Mismatch(value, field, R"("float" or "base64")");
  }
  body->base64 = value == "base64";
  return {};
}

Status ReadExactDimensions(const json& value, const std::string& field, EmbeddingBody* body) {
  return Store(ReadInt32(value, field, 1, INT32_MAX), &body->dimensions);
}

Status ReadPooling(const json& value, const std::string& field, EmbeddingBody* body) {
  Pooling* const pooling = &body->request.embedding->pooling;
  if (value == "mean") {
    *pooling = Pooling::kMean;
  } else if (value == "last") {
    *pooling = Pooling::kLast;
  } else if (value == "cls") {
    *pooling = Pooling::kFirst;
  } else {
    return Mismatch(value, field, R"("mean", "last" or "cls")");
  }
  return {};
}

const FieldTable<OpenAiBody>& OpenAiEmbeddingTable() {
  static const FieldTable<OpenAiBody> table = EmbeddingFields(
      kEmbeddings,
      {{"input", ReadInputs},
       {"encoding_format", ReadEmbeddingEncoding},
       {"dimensions", ReadExactDimensions},
       {"pooling", ReadPooling},
       {"normalize", ReadNormalize},
       {"truncate", ReadTruncate}},
      {"model", "priority", "timeout", "cache_salt", "prompt_cache_retention", "ropeway_gateway"});
  return table;
}

class OpenAiEmbeddings final : public EmbeddingFormat {
 public:
  OpenAiEmbeddings() : EmbeddingFormat(OpenAiEmbeddingTable(), "input") {}

  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    std::string out;
    out.reserve(BytesOf(choices));
    out += R"({"object":"list","data":[)";
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) out += ',';
      out += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
      AppendEmbedding(choices[i], &out);
      out += '}';
    }
    out += R"(],"model":)";
    AppendJsonString(head_.model, &out);
    const int64_t tokens = PromptTokens(choices);
    return out +
           fmt::format(R"(,"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})", tokens, tokens);
  }
};

}  // namespace

std::unique_ptr<ApiFormat> MakeOpenAiEmbeddings() { return std::make_unique<OpenAiEmbeddings>(); }

}  // namespace ropeway::api
