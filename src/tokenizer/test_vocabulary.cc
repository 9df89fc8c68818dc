#include "tokenizer/test_vocabulary.h"

#include <cstdio>

#include "tokenizer/bpe_tables.h"

namespace ropeway::tokenizer {
namespace {

void AddToken(const std::string& text, TokenType type, float score, Vocabulary* vocabulary) {
  vocabulary->tokens.push_back(text);
  vocabulary->types.push_back(static_cast<int32_t>(type));
  vocabulary->scores.push_back(score);
}

}  // namespace

Vocabulary MakeVocabulary(const std::string& pre, const std::vector<std::string>& merges,
                          const std::vector<std::string>& control,
                          const std::vector<std::string>& user_defined) {
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  const auto add = [&](const std::string& token, TokenType type) {
    vocabulary.tokens.push_back(token);
    vocabulary.types.push_back(static_cast<int32_t>(type));
  };
  for (int byte = 0; byte < 256; ++byte) {
    add(std::string(ByteToLetter(static_cast<uint8_t>(byte))), TokenType::kNormal);
  }
  for (const std::string& merge : merges) {
    std::string token = merge;
    token.erase(token.find(' '), 1);
    add(token, TokenType::kNormal);
  }
  for (const std::string& token : control) add(token, TokenType::kControl);
  for (const std::string& token : user_defined) add(token, TokenType::kUserDefined);
  vocabulary.merges = merges;
  return vocabulary;
}

Vocabulary MakeSentencePieceVocabulary(const std::string& model,
                                       const std::vector<std::string>& pieces, bool bytes,
                                       const std::vector<std::string>& control,
                                       const std::vector<std::string>& user_defined) {
  Vocabulary vocabulary;
  vocabulary.model = model;
  AddToken("<unk>", TokenType::kUnknown, 0, &vocabulary);
  AddToken("<s>", TokenType::kControl, 0, &vocabulary);
  AddToken("</s>", TokenType::kControl, 0, &vocabulary);
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[16];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    AddToken(text, bytes ? TokenType::kByte : TokenType::kUnused, 0, &vocabulary);
  }
  float score = 0;
  for (const std::string& piece : pieces) {
    AddToken(piece, TokenType::kNormal, score -= 1, &vocabulary);
  }
  for (const std::string& token : control) AddToken(token, TokenType::kControl, 0, &vocabulary);
  for (const std::string& token : user_defined) {
    AddToken(token, TokenType::kUserDefined, 0, &vocabulary);
  }
  vocabulary.unk = kUnknownToken;
  vocabulary.bos = kBosToken;
  vocabulary.eos = kEosToken;
  return vocabulary;
}

Vocabulary MakeWordPieceVocabulary(const std::vector<std::string>& pieces) {
  Vocabulary vocabulary;
  vocabulary.model = "bert";
  for (const char* text : {"[UNK]", "[CLS]", "[SEP]"}) {
    AddToken(text, TokenType::kControl, 0, &vocabulary);
  }
  for (const std::string& piece : pieces) AddToken(piece, TokenType::kNormal, 0, &vocabulary);
  vocabulary.unk = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.add_bos = true;
  vocabulary.add_eos = true;
  return vocabulary;
}

}  // namespace ropeway::tokenizer
