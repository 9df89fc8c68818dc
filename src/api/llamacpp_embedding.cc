// POST /embedding: llama-server's own embeddings. (Its /embeddings is OpenAI's here, as other paths
// without /v1 are.)
#include <memory>
#include <nlohmann/json.hpp>

#include "api/dialects.h"
#include "api/embedding_body.h"
#include "api/json.h"
#include "api/llamacpp_answer.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

// llama-server numbers the norms; 2 is the Euclidean one, and its default.
Status ReadLlamaNorm(const json& value, const std::string& field, EmbeddingBody* body) {
  const StatusOr<int32_t> norm = ReadInt32(value, field, INT32_MIN, INT32_MAX);
  if (!norm.ok()) return norm.status();
  if (*norm != 2 && *norm >= 0) return SupportsOnly(field, "2 and -1");
  body->request.embedding->normalize = *norm == 2;
  return {};
}

// Under either of its names.
Status ReadLlamaContent(const json& value, const std::string& field, EmbeddingBody* body) {
  const Status status = body->report->CheckAlias(&body->prompts, field, value);
  return status.ok() && body->prompts.empty() ? ReadInputs(value, field, body) : status;
}

const FieldTable<OpenAiBody>& LlamaEmbeddingTable() {
  static const FieldTable<OpenAiBody> table =
      EmbeddingFields(kLlamaEmbedding,
                      {{"content", ReadLlamaContent},
                       {"input", ReadLlamaContent},
                       {"embd_normalize", ReadLlamaNorm}},
                      {"model", "priority", "timeout", "cache_salt"});
  return table;
}

class LlamaEmbedding final : public EmbeddingFormat {
 public:
  LlamaEmbedding() : EmbeddingFormat(LlamaEmbeddingTable(), "content") {}

  std::string ErrorBody(const ApiError& error) const override {
    return LlamaCppError(WithInput(error, input_));
  }

  // A list for each input, as servers that pool nothing show one for each token.
  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    std::string out;
    out.reserve(BytesOf(choices));
    out += '[';
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) out += ',';
      out += R"({"index":)" + std::to_string(i) + R"(,"embedding":[)";
      AppendEmbedding(choices[i], &out);
      out += "]}";
    }
    return out + "]";
  }
};

}  // namespace

std::unique_ptr<ApiFormat> MakeLlamaEmbedding() { return std::make_unique<LlamaEmbedding>(); }

}  // namespace ropeway::api
