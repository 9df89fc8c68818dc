#include "tokenizer/test_vocabulary.h"

#include "tokenizer/bpe_tables.h"

namespace ropeway::tokenizer {

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

}  // namespace ropeway::tokenizer
