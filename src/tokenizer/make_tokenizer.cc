#include "tokenizer/make_tokenizer.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/text_encoding.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"

namespace ropeway::tokenizer {
namespace {

struct Kind {
  std::string_view model;  // tokenizer.ggml.model
  const char* name;
  Spelling spelling;
  StatusOr<std::unique_ptr<const TextModel>> (*make)(const Vocabulary&, const TokenTable*);
};

constexpr std::array<Kind, 5> kKinds = {{
    {"gpt2", "byte-level BPE", Spelling::kByteLetters, MakeByteLevelBpe},
    {"llama", "SentencePiece BPE", Spelling::kSpaceSymbols, MakeSentencePieceBpe},
    {"gemma4", "SentencePiece BPE by merges", Spelling::kSpaceSymbols, MakeSentencePieceBpe},
    {"t5", "SentencePiece unigram", Spelling::kSpaceSymbols, MakeUnigram},
    {"bert", "WordPiece", Spelling::kSpaceSymbols, MakeWordPiece},
}};

Status UnknownKind(const std::string& model) {
  std::string kinds;
  for (const Kind& kind : kKinds) {
    kinds.append(kinds.empty() ? "" : ", ").append(kind.model);
    kinds.append(" (").append(kind.name).append(")");
  }
  return {StatusCode::kUnimplemented,
          "tokenizer.ggml.model: \"" + base::PrintableText(model.substr(0, 64)) +
              "\" is not supported; supported: " + kinds,
          "tokenizer.ggml.model"};
}

// A token without a row neither begins nor ends a text, nor does a chat template write it.
std::optional<TokenId> WithRow(const TokenTable& table, std::optional<TokenId> id) {
  return id && table.HasRow(*id) ? id : std::nullopt;
}

// A tokenizer of any kind of vocabulary.
class VocabularyTokenizer final : public Tokenizer {
 public:
  VocabularyTokenizer(const Vocabulary& vocabulary, std::unique_ptr<const TokenTable> table,
                      std::unique_ptr<const TextModel> model)
      : bos_(WithRow(*table, vocabulary.bos)), eos_(WithRow(*table, vocabulary.eos)) {
    parts_.lengths = std::make_unique<TokenLengths>(*table, *model);
    if (vocabulary.add_bos.value_or(model->adds_bos())) parts_.begin = bos_;
    if (vocabulary.add_eos.value_or(false)) parts_.end = eos_;
    parts_.table = std::move(table);
    parts_.model = std::move(model);
  }

  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const override {
    TextEncoding encoding(&parts_, text, options, Encoding::kNoLimit);
    while (!encoding.Run(SIZE_MAX)) {
    }
    return encoding.TakeIds();
  }
  std::unique_ptr<Encoding> Begin(std::string_view text, const EncodeOptions& options,
                                  size_t most) const override {
    return std::make_unique<TextEncoding>(&parts_, text, options, most);
  }
  std::string_view Bytes(TokenId id, bool with_special) const override {
    return parts_.table->Bytes(id, with_special);
  }
  std::optional<size_t> Covers(std::string_view text, TokenId id,
                               std::optional<TokenId> before) const override;
  bool IsEnd(TokenId id) const override { return parts_.table->IsEnd(id); }
  bool IsSpecial(TokenId id) const override { return parts_.table->IsSpecial(id); }
  // An end that the file names is a token, whatever type it has.
  bool IsUnused(TokenId id) const override {
    return parts_.table->Type(id) == TokenType::kUnused && !IsEnd(id);
  }
  int32_t vocab_size() const override { return static_cast<int32_t>(parts_.table->rows()); }
  std::optional<TokenId> Find(std::string_view token) const override {
    return parts_.table->Find(token);
  }
  std::optional<TokenId> bos() const override { return bos_; }
  std::optional<TokenId> eos() const override { return eos_; }
  std::optional<TokenId> text_end() const override { return parts_.end; }

 private:
  const std::optional<TokenId> bos_;
  const std::optional<TokenId> eos_;
  TextEncoding::Parts parts_;
};

std::optional<size_t> VocabularyTokenizer::Covers(std::string_view text, TokenId id,
                                                  std::optional<TokenId> before) const {
  const TokenTable& table = *parts_.table;
  size_t skipped = 0;
  if ((before && table.StripsRight(*before)) || table.StripsLeft(id)) {
    skipped = LeadingSpace(text);
    text.remove_prefix(skipped);
  } else if (table.IsBehindSpace(id)) {
    skipped = FirstSpace(text);
    text.remove_prefix(skipped);
  }
  const std::string_view bytes = table.Bytes(id, true);
  const bool exact = text.starts_with(bytes);
  const Before comes_after = BeforeSegment(table, before);
  const bool ordinary = !table.IsAdded(id) && bytes.starts_with(' ');
  if (ordinary && parts_.model->AddsSpace(comes_after)) {
    // The space in front may be the tokenizer's own; of several spaces the first one is.
    const std::string_view rest = bytes.substr(1);
    const bool all_spaces = rest.find_first_not_of(' ') == std::string_view::npos;
    if (text.starts_with(rest) && (all_spaces || !exact)) return skipped + rest.size();
  }
  if (!exact) return std::nullopt;
  return skipped + bytes.size();
}

}  // namespace

StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(Vocabulary vocabulary) {
  const Kind* kind = nullptr;
  for (const Kind& each : kKinds) {
    if (each.model == vocabulary.model) kind = &each;
  }
  if (kind == nullptr) return UnknownKind(vocabulary.model);
  StatusOr<std::unique_ptr<const TokenTable>> table =
      TokenTable::Create(kind->spelling, &vocabulary);
  if (!table.ok()) return table.status();
  StatusOr<std::unique_ptr<const TextModel>> model = kind->make(vocabulary, table->get());
  if (!model.ok()) return model.status();
  return std::unique_ptr<Tokenizer>(
      std::make_unique<VocabularyTokenizer>(vocabulary, *std::move(table), *std::move(model)));
}

}  // namespace ropeway::tokenizer
