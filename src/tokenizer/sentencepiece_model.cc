#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/hf_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

// The numbers of fields, from sentencepiece_model.proto.
constexpr uint32_t kPieces = 1;          // ModelProto: repeated SentencePiece,
constexpr uint32_t kTrainerSpec = 2;     // TrainerSpec,
constexpr uint32_t kNormalizerSpec = 3;  // NormalizerSpec,
constexpr uint32_t kDenormalizer = 5;    // NormalizerSpec.
constexpr uint32_t kPiece = 1;           // SentencePiece: string,
constexpr uint32_t kScore = 2;           // float,
constexpr uint32_t kType = 3;            // enum with the values of TokenType.
constexpr uint32_t kModelType = 3;       // TrainerSpec: enum,
constexpr uint32_t kSpaceAsSuffix = 24;  // bool.
constexpr uint32_t kCharsMap = 2;        // NormalizerSpec: bytes,
constexpr uint32_t kAddDummyPrefix = 3;  // bool,
constexpr uint32_t kRemoveExtra = 4;     // bool,
constexpr uint32_t kEscapeSpaces = 5;    // bool.

constexpr uint64_t kUnigramModel = 1;
constexpr uint64_t kBpeModel = 2;

// One field of a message.
struct ProtoField {
  uint32_t number = 0;
  uint64_t value = 0;      // A number's value, or a float's bits.
  std::string_view bytes;  // A text's or a message's bytes.
};

// Takes one field after the other off a message.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

  // Nullopt at the end, and where the bytes are no message (`good` is false then).
  std::optional<ProtoField> Next() {
    if (rest_.empty()) return std::nullopt;
    const std::optional<uint64_t> key = Varint();
    ProtoField field;
    if (!key || (*key >> 3) == 0 || (*key >> 3) > UINT32_MAX) return Bad();
    field.number = static_cast<uint32_t>(*key >> 3);
    switch (*key & 7) {
      case 0: {
        const std::optional<uint64_t> value = Varint();
        if (!value) return Bad();
        field.value = *value;
        return field;
      }
      case 1:
        return Fixed(8, field);
      case 2: {
        const std::optional<uint64_t> length = Varint();
        if (!length || *length > rest_.size()) return Bad();
        field.bytes = rest_.substr(0, static_cast<size_t>(*length));
        rest_.remove_prefix(static_cast<size_t>(*length));
        return field;
      }
      case 5:
        return Fixed(4, field);
      default:
        return Bad();
    }
  }

  bool good() const { return good_; }

 private:
  std::optional<ProtoField> Bad() {
    good_ = false;
    rest_ = {};
    return std::nullopt;
  }

  std::optional<ProtoField> Fixed(size_t size, ProtoField field) {
    if (rest_.size() < size) return Bad();
    std::memcpy(&field.value, rest_.data(), size);  // Little-endian, as this program is.
    rest_.remove_prefix(size);
    return field;
  }

  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
  bool good_ = true;
};

// What counts of the specs, with the format's defaults.
struct ModelSpecs {
  uint64_t model_type = kUnigramModel;
  bool space_as_suffix = false;
  std::string_view char_map;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
  std::string_view denormalizer_char_map;
};

Status BadModel(const std::string& what) {
  return {StatusCode::kDataLoss, "tokenizer.model: " + what, "tokenizer.model"};
}

Status UnsupportedModel(const std::string& what) {
  return {StatusCode::kUnimplemented, "tokenizer.model: " + what + " is not supported",
          "tokenizer.model"};
}

// False if the bytes are no piece.
bool ReadPiece(std::string_view bytes, Vocabulary* vocabulary) {
  std::string_view text;
  float score = 0.0F;
  auto type = static_cast<uint64_t>(TokenType::kNormal);
  ProtoReader reader(bytes);
  while (const std::optional<ProtoField> field = reader.Next()) {
    if (field->number == kPiece) text = field->bytes;
    if (field->number == kType) type = field->value;
    if (field->number == kScore) std::memcpy(&score, &field->value, sizeof score);
  }
  if (!reader.good() || !std::isfinite(score) || type < 1 ||
      type > static_cast<uint64_t>(TokenType::kByte)) {
    return false;
  }
  vocabulary->tokens.emplace_back(text);
  vocabulary->scores.push_back(score);
  const bool symbol = type == static_cast<uint64_t>(TokenType::kUserDefined);
  vocabulary->types.push_back(symbol ? static_cast<int32_t>(TokenType::kSymbol)
                                     : static_cast<int32_t>(type));
  if (type == static_cast<uint64_t>(TokenType::kUnknown)) {
    vocabulary->unk = static_cast<TokenId>(vocabulary->tokens.size() - 1);
  }
  return true;
}

// The number of pieces, found without taking memory for them.
size_t CountPieces(std::string_view bytes) {
  size_t count = 0;
  ProtoReader reader(bytes);
  while (const std::optional<ProtoField> field = reader.Next()) {
    if (field->number == kPieces) ++count;
  }
  return count;
}

// Each is false if the bytes are no such message.
bool ReadTrainerSpec(std::string_view bytes, ModelSpecs* specs) {
  ProtoReader reader(bytes);
  while (const std::optional<ProtoField> field = reader.Next()) {
    if (field->number == kModelType) specs->model_type = field->value;
    if (field->number == kSpaceAsSuffix) specs->space_as_suffix = field->value != 0;
  }
  return reader.good();
}

bool ReadNormalizerSpec(std::string_view bytes, ModelSpecs* specs) {
  ProtoReader reader(bytes);
  while (const std::optional<ProtoField> field = reader.Next()) {
    if (field->number == kCharsMap) specs->char_map = field->bytes;
    if (field->number == kAddDummyPrefix) specs->add_dummy_prefix = field->value != 0;
    if (field->number == kRemoveExtra) specs->remove_extra_spaces = field->value != 0;
    if (field->number == kEscapeSpaces) specs->escape_spaces = field->value != 0;
  }
  return reader.good();
}

bool ReadDenormalizerSpec(std::string_view bytes, ModelSpecs* specs) {
  ProtoReader reader(bytes);
  while (const std::optional<ProtoField> field = reader.Next()) {
    if (field->number == kCharsMap) specs->denormalizer_char_map = field->bytes;
  }
  return reader.good();
}

// What would be encoded, or decoded, otherwise than by sentencepiece.
Status CheckSpecs(const ModelSpecs& specs) {
  if (specs.model_type != kUnigramModel && specs.model_type != kBpeModel) {
    return Status(StatusCode::kUnimplemented,
                  "tokenizer.model: model_type " + std::to_string(specs.model_type) +
                      " is not supported; supported: 1 (unigram), 2 (BPE)",
                  "tokenizer.model");
  }
  if (specs.space_as_suffix && specs.add_dummy_prefix) {
    return UnsupportedModel("trainer_spec.treat_whitespace_as_suffix with add_dummy_prefix");
  }
  if (!specs.escape_spaces) return UnsupportedModel("normalizer_spec.escape_whitespaces = false");
  if (!specs.denormalizer_char_map.empty()) {
    return UnsupportedModel("denormalizer_spec.precompiled_charsmap");
  }
  return {};
}

// sentencepiece's BPE joins whatever texts make up a piece: unused pieces, which it takes apart in
// the end, and characters that are no piece. Here ordinary pieces are joined alone, so pieces where
// that is not the same are rejected.
class BpePieces {
 public:
  explicit BpePieces(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      kinds_.emplace(vocabulary.tokens[i], static_cast<TokenType>(vocabulary.types[i]));
    }
  }

  Status Check() const {
    size_t work = 0;
    for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
      const std::string_view text = vocabulary_.tokens[i];
      const bool unused = vocabulary_.types[i] == static_cast<int32_t>(TokenType::kUnused);
      const bool normal = vocabulary_.types[i] == static_cast<int32_t>(TokenType::kNormal);
      if (text.empty() || text.size() > kMostBytes) continue;
      if (unused || (normal && Lacks(text))) work += text.size() * text.size();
      if (work > kMostWork) return UnsupportedModel("a BPE model with this many long pieces");
      const bool other = unused ? IsJoined(text) : normal && Lacks(text) && IsJoined(text);
      if (!other) continue;
      return UnsupportedModel("piece " + std::to_string(i) + " of a BPE model, \"" +
                              base::PrintableText(text) +
                              (unused ? "\", which is unused but which merges can form,"
                                      : "\", with a character that is not an ordinary piece,"));
    }
    return {};
  }

 private:
  // Longer ones are rejected by what makes the merges.
  static constexpr size_t kMostBytes = 4096;
  // Bytes that are hashed to look for parts: a fraction of a second.
  static constexpr size_t kMostWork = size_t{1} << 28U;

  bool Is(std::string_view text, TokenType type) const {
    const auto found = kinds_.find(text);
    return found != kinds_.end() && found->second == type;
  }

  // Whether a character of the text is no ordinary piece.
  bool Lacks(std::string_view text) const {
    for (size_t at = 0; at < text.size(); at += CharacterLength(text, at)) {
      if (!Is(text.substr(at, CharacterLength(text, at)), TokenType::kNormal)) return true;
    }
    return false;
  }

  // Whether the text is a symbol of the merging on its way: any character that is not taken whole,
  // and any piece.
  bool IsPart(std::string_view text) const {
    if (Is(text, TokenType::kNormal) || Is(text, TokenType::kUnused)) return true;
    return CharacterLength(text, 0) == text.size() && !Is(text, TokenType::kSymbol);
  }

  // Whether the text is a character, or two parts make it up.
  bool IsJoined(std::string_view text) const {
    if (CharacterLength(text, 0) == text.size()) return true;
    for (size_t at = CharacterLength(text, 0); at < text.size(); at += CharacterLength(text, at)) {
      if (IsPart(text.substr(0, at)) && IsPart(text.substr(at))) return true;
    }
    return false;
  }

  const Vocabulary& vocabulary_;
  std::unordered_map<std::string_view, TokenType> kinds_;
};

}  // namespace

StatusOr<Vocabulary> ReadSentencePieceModel(std::string_view bytes) {
  if (const size_t count = CountPieces(bytes); count > kMaxVocabularyTokens) {
    return BadModel("must have at most " + std::to_string(kMaxVocabularyTokens) + " pieces, got " +
                    std::to_string(count));
  }
  Vocabulary vocabulary;
  ModelSpecs specs;
  ProtoReader reader(bytes);
  while (const std::optional<ProtoField> field = reader.Next()) {
    if (field->number == kPieces && !ReadPiece(field->bytes, &vocabulary)) {
      return BadModel("piece " + std::to_string(vocabulary.tokens.size()) + " is not valid");
    }
    if (field->number == kTrainerSpec && !ReadTrainerSpec(field->bytes, &specs)) {
      return BadModel("its trainer_spec is not valid");
    }
    if (field->number == kNormalizerSpec && !ReadNormalizerSpec(field->bytes, &specs)) {
      return BadModel("its normalizer_spec is not valid");
    }
    if (field->number == kDenormalizer && !ReadDenormalizerSpec(field->bytes, &specs)) {
      return BadModel("its denormalizer_spec is not valid");
    }
  }
  if (!reader.good() || vocabulary.tokens.empty()) {
    return BadModel("is not a SentencePiece model");
  }
  if (Status status = CheckSpecs(specs); !status.ok()) return status;
  vocabulary.model = specs.model_type == kBpeModel ? "llama" : "t5";
  vocabulary.normalizes = true;
  vocabulary.char_map = specs.char_map;
  vocabulary.remove_extra_spaces = specs.remove_extra_spaces;
  vocabulary.space_prefix = specs.add_dummy_prefix ? SpacePrefix::kEach : SpacePrefix::kNone;
  if (specs.model_type == kBpeModel) {
    if (Status status = BpePieces(vocabulary).Check(); !status.ok()) return status;
  }
  return vocabulary;
}

}  // namespace ropeway::tokenizer
