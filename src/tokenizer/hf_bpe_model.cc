#include "tokenizer/hf_bpe_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tokenizer/characters.h"
#include "tokenizer/hf_fields.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

Status BrokenModel(const std::string& field, const std::string& what) {
  const std::string where = "tokenizer.json \"" + field + "\"";
  return {StatusCode::kDataLoss, where + ": " + what, where};
}

Status ModelLacks(const std::string& field, const std::string& what) {
  const std::string where = "tokenizer.json \"" + field + "\"";
  return {StatusCode::kUnimplemented, where + ": " + what + " is not supported", where};
}

Status ReadVocab(const json& model, size_t rows, BpeModel* read) {
  const json& vocab = Member(model, "vocab");
  if (!vocab.is_object() || vocab.empty() || vocab.size() > kMaxVocabularyTokens) {
    return BrokenModel("model.vocab",
                       "is no object of 1 to " + std::to_string(kMaxVocabularyTokens) + " tokens");
  }
  // Ids are dense but for a few; a single huge one must not allocate much.
  const size_t most = std::max(vocab.size(), rows) * 2 + 1000;
  std::vector<bool> seen;
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= most) {
      return BrokenModel("model.vocab", "the id of " + Quoted(token) + " is not one from 0 to " +
                                            std::to_string(most - 1));
    }
    const auto at = static_cast<size_t>(id.get<uint64_t>());
    if (at >= seen.size()) seen.resize(at + 1);
    if (seen[at]) {
      return BrokenModel("model.vocab", "the id " + std::to_string(at) +
                                            " is given twice, also to " + Quoted(token));
    }
    seen[at] = true;
    if (at >= read->tokens.size()) read->tokens.resize(at + 1);
    read->tokens[at] = token;
  }
  read->types.assign(read->tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) continue;
    read->tokens[i] = "[PAD" + std::to_string(i) + "]";
    read->types[i] = static_cast<int32_t>(TokenType::kUnused);
  }
  return {};
}

// "left right", or since transformers 4.45 ["left", "right"].
Status ReadMerges(const json& model, BpeModel* read) {
  const json& merges = Member(model, "merges");
  if (!merges.is_array()) return BrokenModel("model.merges", "is no list");
  read->merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const json& merge = merges[i];
    if (merge.is_string()) {
      read->merges.push_back(merge.get<std::string>());
      continue;
    }
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
      return BrokenModel("model.merges[" + std::to_string(i) + "]", "is no pair of tokens");
    }
    const auto& left = merge[0].get_ref<const std::string&>();
    const auto& right = merge[1].get_ref<const std::string&>();
    if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos) {
      return ModelLacks("model.merges[" + std::to_string(i) + "]", "a token with a space");
    }
    read->merges.push_back(left);
    read->merges.back().append(" ").append(right);
  }
  return {};
}

// Metaspace may split a text before each "▁". No piece has one behind its beginning then, so the
// merges that would make such a token are never made, and the others do not reach across.
void SplitMergesAtSpaces(BpeModel* read) {
  std::erase_if(read->merges, [](const std::string& merge) {
    const size_t at = merge.rfind(kSpaceSymbol);
    return at != std::string::npos && at > 0;
  });
}

// "<0x0A>" stands for a byte.
void SetByteTypes(BpeModel* read) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t i = 0; i < read->tokens.size(); ++i) {
    const std::string& token = read->tokens[i];
    if (token.size() == 6 && token.starts_with("<0x") && token.ends_with(">") &&
        kHex.find(token[3]) != kHex.npos && kHex.find(token[4]) != kHex.npos) {
      read->types[i] = static_cast<int32_t>(TokenType::kByte);
    }
  }
}

}  // namespace

Status CheckBpeModel(const json& model) {
  if (!model.is_object()) return BrokenModel("model", "is no object");
  const std::string type = TextOf(Member(model, "type"));
  if (type != "BPE" && !(type.empty() && model.contains("merges"))) {
    return ModelLacks("model", "type " + Quoted(type));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!TextOf(Member(model, key)).empty())
      return ModelLacks(std::string("model.") + key, "a text");
  }
  if (Member(model, "dropout").is_number() && Member(model, "dropout") != 0.0) {
    return ModelLacks("model.dropout", "chance");
  }
  return {};
}

StatusOr<BpeModel> ReadBpeModel(const json& model, size_t rows, const TextSteps& steps) {
  BpeModel read;
  if (Status status = ReadVocab(model, rows, &read); !status.ok()) return status;
  if (Status status = ReadMerges(model, &read); !status.ok()) return status;
  if (steps.splits_words) SplitMergesAtSpaces(&read);
  if (!steps.byte_level) SetByteTypes(&read);
  return read;
}

}  // namespace ropeway::tokenizer
