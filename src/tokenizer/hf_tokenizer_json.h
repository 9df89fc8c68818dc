// The parts of a tokenizer.json: how a text is normalized and split, the tokens and merges of its
// BPE, and what is added around a text.
#ifndef ROPEWAY_TOKENIZER_HF_TOKENIZER_JSON_H_
#define ROPEWAY_TOKENIZER_HF_TOKENIZER_JSON_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// How a tokenizer.json has a text normalized and split before its BPE.
struct TextSteps {
  bool byte_level = false;    // Bytes are letters; otherwise spaces are "▁".
  bool splits_words = false;  // Without byte_level: before each of these.
  std::vector<std::string> patterns;
  TextForm form = TextForm::kAsIs;
  SpacePrefix space_prefix = SpacePrefix::kNone;
  // What the normalizer, and so what a pre-tokenizer does not do, writes as "▁".
  bool normalizes_spaces = false;  // The text's spaces.
  bool normalizes_prefix = false;  // One before each segment.
};

// Reads "pre_tokenizer" and "normalizer". kUnimplemented, naming the field, for what would encode
// otherwise than `tokenizers` does.
StatusOr<TextSteps> ReadTextSteps(const nlohmann::json& tokenizer);

// As the fields of Vocabulary.
struct BpeModel {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
};

// kUnimplemented, naming the field, for another kind of model and for what would change its ids.
Status CheckBpeModel(const nlohmann::json& model);

// Reads one that CheckBpeModel takes. `rows`: of the model's embedding, 0 where it is not known.
// kDataLoss naming the field at fault.
StatusOr<BpeModel> ReadBpeModel(const nlohmann::json& model, size_t rows, const TextSteps& steps);

// What continues a word in a tokenizer.json's WordPiece.
inline constexpr std::string_view kWordPiecePrefix = "##";

// As the fields of Vocabulary.
struct WordPieceSteps {
  bool lowercase = true;
  bool strip_accents = true;
};

// Reads how a WordPiece's texts are normalized, by `tokenizer_config` where that says it, as
// transformers' BertTokenizer does. kUnimplemented, naming the field, for what would encode
// otherwise than `tokenizers` does.
StatusOr<WordPieceSteps> ReadWordPieceSteps(const nlohmann::json& tokenizer,
                                            const nlohmann::json& tokenizer_config);

// The tokens alone; as ReadBpeModel.
StatusOr<BpeModel> ReadVocabOnly(const nlohmann::json& model, size_t rows);

// The special tokens around a text.
struct TextEnds {
  // Whether there are such; absent: the post-processor does not say.
  std::optional<bool> adds_first;
  std::optional<bool> adds_last;
  std::optional<TokenId> first;
  std::optional<TokenId> last;
};

// Reads "post_processor" (null: there is none) of a vocabulary with these tokens. kUnimplemented
// for another type, or other tokens than at most one before a text and one behind it; kDataLoss for
// tokens that do not exist.
StatusOr<TextEnds> ReadPostProcessor(const nlohmann::json& processor,
                                     const std::vector<std::string>& tokens);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_TOKENIZER_JSON_H_
