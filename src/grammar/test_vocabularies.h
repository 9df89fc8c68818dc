// The vocabularies that tests of grammars use: real ones, without the models.
#ifndef ROPEWAY_GRAMMAR_TEST_VOCABULARIES_H_
#define ROPEWAY_GRAMMAR_TEST_VOCABULARIES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::grammar {

struct TestVocabulary {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::shared_ptr<const Vocabulary> vocabulary;

  // The ids of a text that begins an output.
  std::vector<TokenId> Encode(std::string_view text) const;
  std::string Decode(const std::vector<TokenId>& ids) const;
};

// SmolLM2's: 49,152 tokens, byte-level BPE. Null where the tests have no model. Made once.
const TestVocabulary* SmallVocabulary();
// Gemma 4's: 262,144 tokens, SentencePiece. Null where the tests have no vocabularies. Made once.
const TestVocabulary* LargeVocabulary();

// Fails the test where it cannot be compiled.
std::shared_ptr<const Grammar> MustCompile(const TestVocabulary& of, const std::string& ebnf);

bool IsAllowed(const std::vector<uint32_t>& mask, TokenId id);

// "accepted" for a whole sentence of the grammar, "prefix" for what can go on to one, else
// "rejected". By the tokens that the text is encoded to.
std::string Judge(const TestVocabulary& of, const std::shared_ptr<const Grammar>& grammar,
                  std::string_view text);

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_TEST_VOCABULARIES_H_
