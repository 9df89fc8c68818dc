#include "engine/model_vocabulary.h"

#include <cstring>
#include <limits>
#include <utility>

#include "tokenizer/bpe.h"

namespace ropeway::engine {
namespace {

// Reads keys one after the other and keeps the first failure, so that the caller checks once.
class Reader {
 public:
  explicit Reader(const model::GgufFile& file) : file_(file) {}

  const Status& status() const { return status_; }

  std::string String(std::string_view key, bool required) {
    const auto value = Keep(file_.GetString(key));
    if (required && status_.ok() && !value) {
      status_ = {StatusCode::kDataLoss,
                 "metadata \"" + std::string(key) +
                     "\" is missing: the file "
                     "has no tokenizer",
                 std::string(key)};
    }
    return std::string(value.value_or(""));
  }

  std::optional<TokenId> Id(std::string_view key) {
    const auto value = Keep(file_.GetUint(key, 0, std::numeric_limits<TokenId>::max()));
    return value ? std::optional<TokenId>(static_cast<TokenId>(*value)) : std::nullopt;
  }

  std::optional<bool> Bool(std::string_view key) { return Keep(file_.GetBool(key)); }

  std::vector<std::string> Strings(std::string_view key) {
    const model::GgufArray* array = KeepArray(file_.GetArray(key, model::GgufType::kString));
    if (array == nullptr) return {};
    return {array->strings.begin(), array->strings.end()};
  }

  std::vector<int32_t> Ints(std::string_view key) {
    const model::GgufArray* array = KeepArray(file_.GetArray(key, model::GgufType::kInt32));
    if (array == nullptr) return {};
    std::vector<int32_t> values(array->count);
    std::memcpy(values.data(), array->data.data(), values.size() * sizeof(int32_t));
    return values;
  }

 private:
  template <typename T>
  std::optional<T> Keep(StatusOr<std::optional<T>> value) {
    if (value.ok()) return *std::move(value);
    if (status_.ok()) status_ = value.status();
    return std::nullopt;
  }

  const model::GgufArray* KeepArray(StatusOr<const model::GgufArray*> value) {
    if (value.ok()) return *value;
    if (status_.ok()) status_ = value.status();
    return nullptr;
  }

  const model::GgufFile& file_;
  Status status_;
};

}  // namespace

StatusOr<tokenizer::Vocabulary> ReadVocabulary(const model::GgufFile& file) {
  Reader read(file);
  tokenizer::Vocabulary vocabulary;
  vocabulary.model = read.String("tokenizer.ggml.model", true);
  vocabulary.pre = read.String("tokenizer.ggml.pre", false);
  vocabulary.tokens = read.Strings("tokenizer.ggml.tokens");
  vocabulary.types = read.Ints("tokenizer.ggml.token_type");
  vocabulary.merges = read.Strings("tokenizer.ggml.merges");
  vocabulary.bos = read.Id("tokenizer.ggml.bos_token_id");
  vocabulary.eos = read.Id("tokenizer.ggml.eos_token_id");
  vocabulary.eot = read.Id("tokenizer.ggml.eot_token_id");
  vocabulary.eom = read.Id("tokenizer.ggml.eom_token_id");
  vocabulary.unk = read.Id("tokenizer.ggml.unknown_token_id");
  vocabulary.add_bos = read.Bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = read.Bool("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = read.Bool("tokenizer.ggml.add_space_prefix").value_or(false);
  vocabulary.chat_template = read.String("tokenizer.chat_template", false);
  if (!read.status().ok()) return read.status();
  return vocabulary;
}

StatusOr<std::unique_ptr<tokenizer::Tokenizer>> MakeTokenizer(tokenizer::Vocabulary vocabulary) {
  auto tokenizer = tokenizer::BpeTokenizer::Create(std::move(vocabulary));
  if (!tokenizer.ok()) return tokenizer.status();
  return std::unique_ptr<tokenizer::Tokenizer>(*std::move(tokenizer));
}

StatusOr<std::unique_ptr<tokenizer::Tokenizer>> LoadTokenizer(const model::GgufFile& file) {
  StatusOr<tokenizer::Vocabulary> vocabulary = ReadVocabulary(file);
  if (!vocabulary.ok()) return vocabulary.status();
  return MakeTokenizer(*std::move(vocabulary));
}

}  // namespace ropeway::engine
