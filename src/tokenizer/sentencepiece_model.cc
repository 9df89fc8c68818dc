#include "tokenizer/sentencepiece_model.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace ropeway::tokenizer {
namespace {

// The numbers of fields, from sentencepiece_model.proto.
constexpr uint32_t kPieces = 1;          // ModelProto: repeated SentencePiece,
constexpr uint32_t kTrainerSpec = 2;     // TrainerSpec,
constexpr uint32_t kNormalizerSpec = 3;  // NormalizerSpec.
constexpr uint32_t kPiece = 1;           // SentencePiece: string,
constexpr uint32_t kScore = 2;           // float,
constexpr uint32_t kType = 3;            // enum, whose values are those of TokenType.
constexpr uint32_t kModelType = 3;       // TrainerSpec: enum.
constexpr uint32_t kCharsMap = 2;        // NormalizerSpec: bytes,
constexpr uint32_t kAddDummyPrefix = 3;  // bool,
constexpr uint32_t kRemoveExtra = 4;     // bool.

constexpr uint64_t kUnigramModel = 1;
constexpr uint64_t kBpeModel = 2;

// One field of a message.
struct ProtoField {
  uint32_t number = 0;
  uint64_t value = 0;      // Of a number; of a float its bits.
  std::string_view bytes;  // Of a text or a message.
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

Status BadModel(const std::string& what) {
  return {StatusCode::kDataLoss, "tokenizer.model: " + what, "tokenizer.model"};
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
  vocabulary->types.push_back(static_cast<int32_t>(type));
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

}  // namespace

StatusOr<Vocabulary> ReadSentencePieceModel(std::string_view bytes) {
  if (const size_t count = CountPieces(bytes); count > kMaxVocabularyTokens) {
    return BadModel("has " + std::to_string(count) + " pieces; at most " +
                    std::to_string(kMaxVocabularyTokens) + " are read");
  }
  Vocabulary vocabulary;
  vocabulary.space_prefix = SpacePrefix::kEach;  // The format's defaults.
  vocabulary.remove_extra_spaces = true;
  uint64_t model_type = kUnigramModel;
  ProtoReader reader(bytes);
  while (const std::optional<ProtoField> field = reader.Next()) {
    if (field->number == kPieces) {
      if (!ReadPiece(field->bytes, &vocabulary)) {
        return BadModel("piece " + std::to_string(vocabulary.tokens.size()) + " is not valid");
      }
    } else if (field->number == kTrainerSpec) {
      ProtoReader trainer(field->bytes);
      while (const std::optional<ProtoField> part = trainer.Next()) {
        if (part->number == kModelType) model_type = part->value;
      }
      if (!trainer.good()) return BadModel("its trainer_spec is not valid");
    } else if (field->number == kNormalizerSpec) {
      ProtoReader normalizer(field->bytes);
      while (const std::optional<ProtoField> part = normalizer.Next()) {
        if (part->number == kCharsMap) vocabulary.char_map = part->bytes;
        if (part->number == kRemoveExtra) vocabulary.remove_extra_spaces = part->value != 0;
        if (part->number == kAddDummyPrefix && part->value == 0) {
          vocabulary.space_prefix = SpacePrefix::kNone;
        }
      }
      if (!normalizer.good()) return BadModel("its normalizer_spec is not valid");
    }
  }
  if (!reader.good() || vocabulary.tokens.empty()) {
    return BadModel("is no model of SentencePiece");
  }
  if (model_type != kUnigramModel && model_type != kBpeModel) {
    return Status(StatusCode::kUnimplemented,
                  "tokenizer.model: model_type " + std::to_string(model_type) +
                      " is not supported; 1 (unigram) and 2 (BPE) are",
                  "tokenizer.model");
  }
  vocabulary.model = model_type == kBpeModel ? "llama" : "t5";
  return vocabulary;
}

}  // namespace ropeway::tokenizer
