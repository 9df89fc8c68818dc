#include "grammar/test_vocabularies.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "engine/model_vocabulary.h"
#include "model/gguf.h"

namespace ropeway::grammar {

namespace {

std::unique_ptr<TestVocabulary> Load(const std::string& path) {
  StatusOr<std::unique_ptr<model::GgufFile>> file = model::GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return nullptr;
  StatusOr<std::unique_ptr<tokenizer::Tokenizer>> tokenizer = engine::LoadTokenizer(**file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  if (!tokenizer.ok()) return nullptr;
  StatusOr<std::shared_ptr<const Vocabulary>> vocabulary = Vocabulary::Make(**tokenizer);
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  if (!vocabulary.ok()) return nullptr;
  auto made = std::make_unique<TestVocabulary>();
  made->tokenizer = *std::move(tokenizer);
  made->vocabulary = *std::move(vocabulary);
  return made;
}

}  // namespace

std::vector<TokenId> TestVocabulary::Encode(std::string_view text) const {
  return tokenizer->Encode(text, {.add_special = false, .parse_special = false});
}

std::string TestVocabulary::Decode(const std::vector<TokenId>& ids) const {
  std::string text;
  for (const TokenId id : ids) text += tokenizer->Bytes(id);
  return text;
}

const TestVocabulary* SmallVocabulary() {
  const char* const path = std::getenv("ROPEWAY_TEST_MODEL");
  if (path == nullptr || *path == '\0') return nullptr;
  static const std::unique_ptr<TestVocabulary> made = Load(path);
  return made.get();
}

const TestVocabulary* LargeVocabulary() {
  const char* const folder = std::getenv("ROPEWAY_VOCAB_DIR");
  if (folder == nullptr || *folder == '\0') return nullptr;
  static const std::unique_ptr<TestVocabulary> made =
      Load(std::string(folder) + "/ggml-vocab-gemma-4.gguf");
  return made.get();
}

std::shared_ptr<const Grammar> MustCompile(const TestVocabulary& of, const std::string& ebnf) {
  StatusOr<std::shared_ptr<const Grammar>> grammar = Grammar::Compile(of.vocabulary, ebnf);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message() << "\n" << ebnf;
  return grammar.ok() ? *std::move(grammar) : nullptr;
}

bool IsAllowed(const std::vector<uint32_t>& mask, TokenId id) {
  return (mask[static_cast<size_t>(id) / 32] >> (static_cast<size_t>(id) % 32) & 1) != 0;
}

std::string Judge(const TestVocabulary& of, const std::shared_ptr<const Grammar>& grammar,
                  std::string_view text) {
  Matcher matcher(grammar);
  for (const TokenId id : of.Encode(text)) {
    if (!matcher.Accept(id).ok()) return "rejected";
  }
  std::vector<uint32_t> mask(of.vocabulary->mask_words());
  if (!matcher.Mask(mask).ok()) return "error";
  return matcher.complete() ? "accepted" : "prefix";
}

}  // namespace ropeway::grammar
