#include "engine/model_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/random_access_file.h"
#include "base/utf8.h"
#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/make_tokenizer.h"

namespace ropeway::engine {
namespace {

// A number of any type; nullopt: it is none.
std::optional<double> NumberOf(const model::GgufValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

bool IsTokenId(double number, size_t tokens) {
  return number >= 0 && number < static_cast<double>(tokens) && number == std::floor(number);
}

// What does not fit becomes a value that no token has.
template <typename To>
To Converted(double number) {
  if constexpr (std::is_floating_point_v<To>) {
    const bool fits = std::fabs(number) <= double{std::numeric_limits<To>::max()};
    return fits ? static_cast<To>(number) : std::numeric_limits<To>::infinity();
  } else {
    const bool fits =
        number == std::floor(number) && std::fabs(number) < double{std::numeric_limits<To>::max()};
    return fits ? static_cast<To>(number) : std::numeric_limits<To>::max();
  }
}

// Appends the array's numbers if they are of this type; whether they are.
template <model::GgufType kType, typename From, typename To>
bool ConvertAll(const model::GgufArray& array, std::vector<To>* values) {
  if (array.type != kType) return false;
  values->reserve(array.count);
  for (size_t i = 0; i < array.count; ++i) {
    From number{};
    std::memcpy(&number, array.data.data() + i * sizeof number, sizeof number);
    values->push_back(Converted<To>(static_cast<double>(number)));
  }
  return true;
}

// The array's numbers; false if it has none.
template <typename To>
bool NumbersOf(const model::GgufArray& array, std::vector<To>* values) {
  using Type = model::GgufType;
  return ConvertAll<Type::kUint8, uint8_t>(array, values) ||
         ConvertAll<Type::kInt8, int8_t>(array, values) ||
         ConvertAll<Type::kUint16, uint16_t>(array, values) ||
         ConvertAll<Type::kInt16, int16_t>(array, values) ||
         ConvertAll<Type::kUint32, uint32_t>(array, values) ||
         ConvertAll<Type::kInt32, int32_t>(array, values) ||
         ConvertAll<Type::kUint64, uint64_t>(array, values) ||
         ConvertAll<Type::kInt64, int64_t>(array, values) ||
         ConvertAll<Type::kFloat32, float>(array, values) ||
         ConvertAll<Type::kFloat64, double>(array, values);
}

// Reads keys one after the other and keeps the first failure, so that the caller checks once.
class Reader {
 public:
  explicit Reader(const model::GgufFile& file) : file_(file) {}

  const Status& status() const { return status_; }

  std::string String(std::string_view key, bool required) {
    const auto value = Keep(file_.GetString(key));
    if (required && status_.ok() && !value) {
      status_ = file_.Error(StatusCode::kDataLoss, model::MetadataField(key),
                            "the key is missing: the file has no tokenizer");
    }
    return std::string(value.value_or(""));
  }

  // One that is no id of the `tokens` is as if the key were absent; WarnOfIds names it.
  std::optional<TokenId> Id(std::string_view key, size_t tokens) {
    const model::GgufFile::Entry* const entry = file_.Find(key);
    if (entry == nullptr) return std::nullopt;
    const std::optional<double> number = NumberOf(entry->value);
    if (!number) Keep(file_.GetUint(key, 0, 0));  // The error.
    if (!number || !IsTokenId(*number, tokens)) return std::nullopt;
    return static_cast<TokenId>(*number);
  }

  // Also a number, 0 or 1.
  std::optional<bool> Bool(std::string_view key) {
    const model::GgufFile::Entry* const entry = file_.Find(key);
    const std::optional<double> number = entry ? NumberOf(entry->value) : std::nullopt;
    if (number == 0.0 || number == 1.0) return number == 1.0;
    return Keep(file_.GetBool(key));
  }

  std::vector<std::string> Strings(std::string_view key, size_t most) {
    const model::GgufArray* array = KeepArray(file_.GetArray(key, model::GgufType::kString));
    if (array == nullptr) return {};
    if (array->strings.size() > most) {
      TooMany(key, array->strings.size(), most);
      return {};
    }
    return {array->strings.begin(), array->strings.end()};
  }

  // An array of numbers of any type; `usual`: what an error says that it should be.
  template <typename T>
  std::vector<T> Numbers(std::string_view key, model::GgufType usual) {
    const model::GgufFile::Entry* const entry = file_.Find(key);
    if (entry == nullptr) return {};
    std::vector<T> values;
    const auto* const array = std::get_if<model::GgufArray>(&entry->value);
    if (array != nullptr && array->count > tokenizer::kMaxVocabularyTokens) {
      TooMany(key, array->count, tokenizer::kMaxVocabularyTokens);
      return {};
    }
    if (array != nullptr && NumbersOf(*array, &values)) return values;
    KeepArray(file_.GetArray(key, usual));  // The error.
    return {};
  }

  // An array of bytes, signed or not.
  std::string Bytes(std::string_view key) {
    const model::GgufFile::Entry* const entry = file_.Find(key);
    const auto* const found =
        entry == nullptr ? nullptr : std::get_if<model::GgufArray>(&entry->value);
    const bool is_signed = found != nullptr && found->type == model::GgufType::kInt8;
    const model::GgufArray* const array = KeepArray(
        file_.GetArray(key, is_signed ? model::GgufType::kInt8 : model::GgufType::kUint8));
    if (array == nullptr) return {};
    return {reinterpret_cast<const char*>(array->data.data()), array->count};
  }

 private:
  void TooMany(std::string_view key, size_t count, size_t most) {
    if (!status_.ok()) return;
    status_ = {
        StatusCode::kDataLoss,
        fmt::format("metadata \"{}\" has {} elements, more than the limit of {}", key, count, most),
        std::string(key)};
  }

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

// What converters leave out because their kind of vocabulary always has it.
struct KindDefaults {
  std::string_view model;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unk;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  bool space_prefix = false;
};

constexpr std::array<KindDefaults, 4> kKindDefaults = {{
    {"llama", 1, 2, 0, true, false, true},
    {"gemma4", std::nullopt, std::nullopt, std::nullopt, true, false, false},
    {"t5", std::nullopt, 1, 2, false, true, false},
    // [CLS] and [SEP].
    {"bert", 101, 102, 100, true, true, false},
}};

void SetDefault(const std::optional<TokenId>& value, size_t tokens, std::optional<TokenId>* id) {
  if (id->has_value() || !value || static_cast<size_t>(*value) >= tokens) return;
  *id = value;
}

void SetDefaults(std::optional<bool> add_space_prefix, tokenizer::Vocabulary* vocabulary) {
  const auto* const kind =
      std::find_if(kKindDefaults.begin(), kKindDefaults.end(),
                   [&](const KindDefaults& each) { return each.model == vocabulary->model; });
  if (kind == kKindDefaults.end()) return;
  const size_t tokens = vocabulary->tokens.size();
  SetDefault(kind->bos, tokens, &vocabulary->bos);
  SetDefault(kind->eos, tokens, &vocabulary->eos);
  SetDefault(kind->unk, tokens, &vocabulary->unk);
  if (!vocabulary->add_bos) vocabulary->add_bos = kind->add_bos;
  if (!vocabulary->add_eos) vocabulary->add_eos = kind->add_eos;
  if (add_space_prefix.value_or(kind->space_prefix)) {
    vocabulary->space_prefix = tokenizer::SpacePrefix::kEach;
  }
}

// GGUF does not say which added tokens take white space along; what their families' files say.
void SetStrips(const std::string& architecture, tokenizer::Vocabulary* vocabulary) {
  const bool phi3 = vocabulary->model == "llama" && architecture == "phi3";
  const bool roberta = vocabulary->model == "t5";
  const size_t typed = std::min(vocabulary->types.size(), vocabulary->tokens.size());
  for (size_t i = 0; i < typed; ++i) {
    const auto type = static_cast<tokenizer::TokenType>(vocabulary->types[i]);
    const std::string& text = vocabulary->tokens[i];
    const auto id = static_cast<TokenId>(i);
    if (type != tokenizer::TokenType::kControl && type != tokenizer::TokenType::kUserDefined) {
      continue;
    }
    if (phi3 && text != "<unk>" && text != "<s>" && text != "<|endoftext|>") {
      vocabulary->strip_right.push_back(id);
    }
    if (roberta && text == "<mask>") vocabulary->strip_left.push_back(id);
  }
}

// BERT's files have names of their own for the tokens around a text.
void ReadBertEnds(Reader* read, tokenizer::Vocabulary* vocabulary) {
  const size_t tokens = vocabulary->tokens.size();
  if (!vocabulary->bos) vocabulary->bos = read->Id("tokenizer.ggml.cls_token_id", tokens);
  // So the key is spelled.
  vocabulary->eos = read->Id("tokenizer.ggml.seperator_token_id", tokens);
}

// Names the special tokens that are none of the vocabulary's, used or not, as llama.cpp does.
void WarnOfIds(const model::GgufFile& file, tokenizer::Vocabulary* vocabulary) {
  constexpr size_t kMostNamed = 8;
  const size_t tokens = vocabulary->tokens.size();
  size_t count = 0;
  for (const model::GgufFile::Entry& entry : file.metadata()) {
    if (!entry.key.starts_with("tokenizer.ggml.") || !entry.key.ends_with("_token_id")) continue;
    const std::optional<double> number = NumberOf(entry.value);
    if (!number || IsTokenId(*number, tokens) || ++count > kMostNamed) continue;
    vocabulary->warnings.push_back(
        fmt::format("has a {} of {}, which is not the id of one of its {} tokens: it is not used",
                    base::PrintableText(entry.key.substr(0, 64)), *number, tokens));
  }
  if (count > kMostNamed) {
    vocabulary->warnings.push_back(
        fmt::format("has {} more such ids, which are not used", count - kMostNamed));
  }
}

// Merges or the longest match say what "gpt2", "gemma4" and "bert" encode; converters write scores
// for some of these all the same.
void WarnOfScores(tokenizer::Vocabulary* vocabulary) {
  const std::string& kind = vocabulary->model;
  const bool used =
      kind == "llama" || kind == "t5" || (kind == "gemma4" && vocabulary->merges.empty());
  const size_t scores = vocabulary->scores.size();
  if (used || scores == 0 || scores == vocabulary->tokens.size()) return;
  vocabulary->warnings.push_back(
      fmt::format("has {} tokenizer.ggml.scores for {} tokens: they are not used, because its kind "
                  "of tokenizer does not use scores",
                  scores, vocabulary->tokens.size()));
}

// The largest published tokenizer.json has 34 MB.
constexpr uint64_t kMaxTokenizerBytes = uint64_t{128} << 20;

// Vocabularies of tokenizers that have no tokenizer.json; the last one there is named.
constexpr std::array<const char*, 8> kForeignVocabularies = {
    "merges.txt",   "vocab.json",    "vocab.txt",      "sentencepiece.bpe.model",
    "spiece.model", "qwen.tiktoken", "tiktoken.model", "tekken.json",
};

// Reads a file of the folder whole; what is absent is "", and what is empty too.
Status ReadIfThere(const std::string& folder, const char* name, std::string* text) {
  const std::string path = folder + "/" + name;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return {};
  // Reading a pipe would wait for its writer. What cannot be looked at cannot be opened either.
  if (!error && !std::filesystem::is_regular_file(status)) {
    return {StatusCode::kDataLoss, path + ": is not a regular file", name};
  }
  StatusOr<std::string> read = base::ReadWholeFile(path, kMaxTokenizerBytes);
  if (!read.ok()) return read.status();
  *text = *std::move(read);
  return {};
}

StatusOr<tokenizer::Vocabulary> ReadFolder(const model::GgufFile& file) {
  tokenizer::HfTokenizerFiles texts;
  for (const auto& [name, text] : tokenizer::kHfTokenizerFiles) {
    if (Status status = ReadIfThere(file.path(), name, &(texts.*text)); !status.ok()) return status;
  }
  for (const char* name : kForeignVocabularies) {
    std::error_code error;
    if (std::filesystem::exists(file.path() + "/" + name, error)) texts.foreign = name;
  }
  const model::GgufTensor* const embedding = file.FindTensor("token_embd.weight");
  if (embedding != nullptr && embedding->shape.size() == 2) {
    texts.rows = static_cast<size_t>(embedding->shape[1]);
  }
  StatusOr<tokenizer::Vocabulary> vocabulary = tokenizer::ReadHfVocabulary(texts);
  if (vocabulary.ok()) return vocabulary;
  const Status& status = vocabulary.status();
  return Status(status.code(), file.path() + "/" + status.message(), status.field());
}

// The tokenizer calls fields by GGUF's keys. In a folder they are these.
struct FolderField {
  std::string_view key;
  std::string_view file;
  std::string_view field;
};
constexpr std::array<FolderField, 10> kFolderFields = {{
    {"tokenizer.ggml.model", "tokenizer.json", "model.type"},
    {"tokenizer.ggml.pre", "tokenizer.json", "pre_tokenizer"},
    {"tokenizer.ggml.tokens", "tokenizer.json", "model.vocab"},
    {"tokenizer.ggml.scores", "tokenizer.json", "model.vocab"},
    {"tokenizer.ggml.merges", "tokenizer.json", "model.merges"},
    {"tokenizer.ggml.token_type", "tokenizer.json", "added_tokens"},
    {"tokenizer.ggml.precompiled_charsmap", "tokenizer.json", "normalizer"},
    {"tokenizer.ggml.bos_token_id", "tokenizer_config.json", "bos_token"},
    {"tokenizer.ggml.eos_token_id", "tokenizer_config.json", "eos_token"},
    {"tokenizer.ggml.unknown_token_id", "tokenizer_config.json", "unk_token"},
}};

// "tokenizer.ggml.merges[7]" -> tokenizer.json "model.merges[7]". Of what is no table of fields,
// the file alone.
std::string FieldInFolder(const model::GgufFile& folder, std::string_view field) {
  const size_t index = std::min(field.find('['), field.size());
  const auto* const at =
      std::ranges::find(kFolderFields, field.substr(0, index), &FolderField::key);
  const std::string_view vocabulary = VocabularyFile(folder);
  if (at == kFolderFields.end()) return std::string(vocabulary);
  if (at->file == "tokenizer.json" && vocabulary != at->file) {
    return fmt::format("{} \"pieces{}\"", vocabulary, field.substr(index));
  }
  return fmt::format("{} \"{}{}\"", at->file, at->field, field.substr(index));
}

// A failure of the tokenizer's, as one of the model's.
Status OfModel(const model::GgufFile& file, const Status& failure) {
  if (file.version() != 0) {
    return {failure.code(), fmt::format("{}: {}", file.path(), failure.message()), failure.field()};
  }
  std::string_view what = failure.message();
  const std::string head = failure.field() + ": ";
  if (what.starts_with(head)) what.remove_prefix(head.size());
  const std::string field = FieldInFolder(file, failure.field());
  return {failure.code(), fmt::format("{}/{}: {}", file.path(), field, what), field};
}

}  // namespace

const char* VocabularyFile(const model::GgufFile& folder) {
  std::error_code error;
  const bool json = std::filesystem::exists(folder.path() + "/tokenizer.json", error);
  return json ? "tokenizer.json" : "tokenizer.model";
}

StatusOr<tokenizer::Vocabulary> ReadVocabulary(const model::GgufFile& file) {
  if (file.version() == 0) return ReadFolder(file);
  Reader read(file);
  tokenizer::Vocabulary vocabulary;
  vocabulary.model = read.String("tokenizer.ggml.model", true);
  vocabulary.pre = read.String("tokenizer.ggml.pre", false);
  vocabulary.tokens = read.Strings("tokenizer.ggml.tokens", tokenizer::kMaxVocabularyTokens);
  vocabulary.types = read.Numbers<int32_t>("tokenizer.ggml.token_type", model::GgufType::kInt32);
  vocabulary.scores = read.Numbers<float>("tokenizer.ggml.scores", model::GgufType::kFloat32);
  vocabulary.merges = read.Strings("tokenizer.ggml.merges", tokenizer::kMaxVocabularyMerges);
  const size_t tokens = vocabulary.tokens.size();
  vocabulary.bos = read.Id("tokenizer.ggml.bos_token_id", tokens);
  vocabulary.eos = read.Id("tokenizer.ggml.eos_token_id", tokens);
  vocabulary.eot = read.Id("tokenizer.ggml.eot_token_id", tokens);
  vocabulary.eom = read.Id("tokenizer.ggml.eom_token_id", tokens);
  vocabulary.unk = read.Id("tokenizer.ggml.unknown_token_id", tokens);
  vocabulary.add_bos = read.Bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = read.Bool("tokenizer.ggml.add_eos_token");
  const std::optional<bool> add_space_prefix = read.Bool("tokenizer.ggml.add_space_prefix");
  vocabulary.remove_extra_spaces =
      read.Bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  vocabulary.char_map = read.Bytes("tokenizer.ggml.precompiled_charsmap");
  vocabulary.lowercase = read.Bool("tokenizer.ggml.normalizer.lowercase").value_or(true);
  vocabulary.strip_accents =
      read.Bool("tokenizer.ggml.normalizer.strip_accents").value_or(vocabulary.lowercase);
  vocabulary.chat_template = read.String("tokenizer.chat_template", false);
  const std::string architecture = read.String("general.architecture", false);
  if (vocabulary.model == "bert") ReadBertEnds(&read, &vocabulary);
  if (!read.status().ok()) return read.status();
  // Type 0, which the format calls undefined, is llama.cpp's ordinary token.
  std::ranges::replace(vocabulary.types, 0, static_cast<int32_t>(tokenizer::TokenType::kNormal));
  WarnOfIds(file, &vocabulary);
  WarnOfScores(&vocabulary);
  SetDefaults(add_space_prefix, &vocabulary);
  SetStrips(architecture, &vocabulary);
  return vocabulary;
}

StatusOr<std::unique_ptr<tokenizer::Tokenizer>> MakeModelTokenizer(
    const model::GgufFile& file, tokenizer::Vocabulary vocabulary) {
  StatusOr<std::unique_ptr<tokenizer::Tokenizer>> made =
      tokenizer::MakeTokenizer(std::move(vocabulary));
  if (!made.ok()) return OfModel(file, made.status());
  return made;
}

StatusOr<std::unique_ptr<tokenizer::Tokenizer>> LoadTokenizer(const model::GgufFile& file) {
  StatusOr<tokenizer::Vocabulary> vocabulary = ReadVocabulary(file);
  if (!vocabulary.ok()) return vocabulary.status();
  return MakeModelTokenizer(file, *std::move(vocabulary));
}

}  // namespace ropeway::engine
