// What the dialects for embeddings share: the fields of bodies, and vectors as text.
#ifndef ROPEWAY_API_EMBEDDING_BODY_H_
#define ROPEWAY_API_EMBEDDING_BODY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "api/fields.h"
#include "api/openai_format.h"
#include "ropeway/status.h"

namespace ropeway::api {

// A body of any of them.
struct EmbeddingBody : OpenAiBody {
  EmbeddingBody() { request.embedding.emplace(); }

  bool base64 = false;  // Vectors are shown as the base64 of their little-endian floats.
  // Of each embedding at most so many numbers are shown; 0: all.
  int32_t most_dimensions = 0;
};

// As of OpenAI's API.
inline constexpr int kMostInputs = 2048;

// A table of `own` fields and of those of OpenAI's that are in `shared`. All bodies that its
// readers are given are EmbeddingBodies.
using EmbeddingReader = Status (*)(const nlohmann::json& value, const std::string& field,
                                   EmbeddingBody* body);
struct EmbeddingField {
  const char* name;
  EmbeddingReader read;
};
FieldTable<OpenAiBody> EmbeddingFields(Dialect dialect, std::initializer_list<EmbeddingField> own,
                                       std::initializer_list<const char*> shared);

// Readers of fields that several dialects have.
Status ReadInputs(const nlohmann::json& value, const std::string& field, EmbeddingBody* body);
Status ReadNormalize(const nlohmann::json& value, const std::string& field, EmbeddingBody* body);
Status ReadTruncate(const nlohmann::json& value, const std::string& field, EmbeddingBody* body);

// Reads a body by its table. `input`: the field that must be there; null: none.
Status ReadEmbeddingBody(std::string_view text, const BodyLimits& limits,
                         const FieldTable<OpenAiBody>& table, const char* input,
                         EmbeddingBody* body);

// The error with the dialect's name of a request's prompt.
ApiError WithInput(ApiError error, const char* input);

// The first `dimensions` numbers of an embedding, normalised anew if the whole was; 0: all.
std::vector<float> Shortened(std::vector<float> embedding, int32_t dimensions, bool normalize);
// That as JSON: a list of numbers, each the shortest that is read as the same float, or a string of
// base64.
void AppendNumbers(std::span<const float> embedding, std::string* out);
void AppendBase64(std::span<const float> embedding, std::string* out);

// The tokens of all prompts together.
int64_t PromptTokens(const std::vector<ChoiceOutput>& choices);

// A dialect for embeddings: nothing streams, and nothing is stored.
class EmbeddingFormat : public ApiFormat {
 public:
  ApiRequest* request() final { return &body_; }
  std::vector<std::string> Fields() const final { return NamesOf(table_); }
  Status Parse(std::string_view body, const BodyLimits& limits) override {
    return ReadEmbeddingBody(body, limits, table_, input_, &body_);
  }
  void Start(AnswerHead head) final { head_ = std::move(head); }

  std::string Begin() final { return ""; }
  std::string OnDelta(size_t, Delta) final { return ""; }
  std::string OnEnd(size_t, const Finish&) final { return ""; }
  std::string Done() final { return ""; }
  std::string StreamError(const ApiError& error) const final { return ErrorBody(error); }
  std::string_view id_prefix() const final { return "embd-"; }
  std::string ErrorBody(const ApiError& error) const override { return ErrorJson(Shown(error)); }

 protected:
  // `input`: the field with the texts.
  EmbeddingFormat(const FieldTable<OpenAiBody>& table, const char* input)
      : table_(table), input_(input) {}

  // As the dialect's clients know it: its field's name, and what helps with a text that is too
  // long.
  ApiError Shown(ApiError error) const;
  // A choice's embedding as JSON, as the body asks for it.
  void AppendEmbedding(const ChoiceOutput& choice, std::string* out) const;
  // About as many bytes as all of them take.
  size_t BytesOf(const std::vector<ChoiceOutput>& choices) const;

  const FieldTable<OpenAiBody>& table_;
  const char* const input_;
  EmbeddingBody body_;
  AnswerHead head_;
};

}  // namespace ropeway::api

#endif  // ROPEWAY_API_EMBEDDING_BODY_H_
