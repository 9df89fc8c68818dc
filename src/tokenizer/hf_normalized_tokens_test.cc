#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_folder_files.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using Ids = std::vector<TokenId>;

constexpr TokenId kSpace = 259;

json NormalizedToken(TokenId id, const char* text, bool special, bool normalized = true) {
  return {{"id", id}, {"content", text}, {"special", special}, {"normalized", normalized}};
}

// As of Llama 2: "▁" 259, a 260, b 261, "▁a" 262, <x> 263, <y> 264; <y> is not normalized.
FolderFiles SpacedFolder() {
  const Vocabulary vocabulary =
      MakeSentencePieceVocabulary("llama", {"▁", "a", "b", "▁a"}, true, {}, {"<x>", "<y>"});
  json vocab = json::object();
  for (size_t i = 0; i < 263; ++i) vocab[vocabulary.tokens[i]] = i;
  const json added = {NormalizedToken(1, "<s>", true), NormalizedToken(2, "</s>", true),
                      NormalizedToken(263, "<x>", false), NormalizedToken(264, "<y>", true, false)};
  const json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  return {{"tokenizer.json",
           {{"added_tokens", added},
            {"normalizer", {{"type", "Sequence"}, {"normalizers", {prepend, replace}}}},
            {"model",
             {{"type", "BPE"},
              {"byte_fallback", true},
              {"unk_token", "<unk>"},
              {"vocab", vocab},
              {"merges", json::array({"▁ a"})}}}}},
          {"tokenizer_config.json", {{"add_bos_token", false}}}};
}

Status NormalizedError(const FolderFiles& files) {
  return ReadHfVocabulary(TextsOf(files)).status();
}

// The ids come from `tokenizers`.
TEST(HfNormalizedTokensTest, AreFoundBehindASpaceThatTheNormalizerWrites) {
  const FolderFiles folder = SpacedFolder();
  const auto ids = [&](const char* text) { return IdsIn(folder, text); };
  EXPECT_EQ(ids("<x>"), (Ids{263}));
  EXPECT_EQ(ids("a<x>"), (Ids{262, '<' + 3, 'x' + 3, '>' + 3}));
  EXPECT_EQ(ids("a <x>a"), (Ids{262, 263, 260}));
  EXPECT_EQ(ids("a▁<x> a"), (Ids{262, 263, 262}));
  EXPECT_EQ(ids(" <x>"), (Ids{kSpace, 263}));
  EXPECT_EQ(ids("  <x> <x>b"), (Ids{kSpace, kSpace, 263, 263, 261}));
  EXPECT_EQ(ids("<x><x>"), (Ids{263, '<' + 3, 'x' + 3, '>' + 3}));
  EXPECT_EQ(ids("<x><y><x>a"), (Ids{263, 264, 263, 260}));
  EXPECT_EQ(ids("<x> <y> <x>"), (Ids{263, kSpace, 264, kSpace, 263}));
  EXPECT_EQ(ids("a\n<x>"), (Ids{262, '\n' + 3, '<' + 3, 'x' + 3, '>' + 3}));
  EXPECT_EQ(ids("<s>a </s>"), (Ids{1, 260, 2}));
}

TEST(HfNormalizedTokensTest, ATextGoesOnBehindThem) {
  const auto tokenizer = MakeTokenizer(*ReadHfVocabulary(TextsOf(SpacedFolder())));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Encode("a", {.after = 263}), Ids{260});
  EXPECT_EQ((*tokenizer)->Encode("a", {.after = 264}), Ids{262});
  EXPECT_EQ((*tokenizer)->Encode(" <x>", {.after = 263}), Ids{263});
  EXPECT_EQ((*tokenizer)->Covers(" <x>a", 263, 262), 4u);
  EXPECT_EQ((*tokenizer)->Covers("a", 260, 263), 1u);
  // Nothing of a message is a control token, but its space may stand before one.
  const std::vector<Span> quoted = {{0, 2}};
  const EncodeOptions options = {.parse_special = true, .quoted = quoted};
  EXPECT_EQ((*tokenizer)->Encode("a </s>", options), (Ids{262, 2}));
}

TEST(HfNormalizedTokensTest, AnotherFilesFlagsGoFirst) {
  FolderFiles folder = SpacedFolder();
  folder["tokenizer_config.json"]["added_tokens_decoder"] = {
      {"263", {{"content", "<x>"}, {"special", false}, {"normalized", false}}}};
  EXPECT_EQ(IdsIn(folder, "a<x>a"), (Ids{262, 263, 262}));
}

TEST(HfNormalizedTokensTest, NamesThoseThatItWouldFindElsewhere) {
  const auto error = [](const json& change) {
    FolderFiles folder = SpacedFolder();
    folder["tokenizer.json"]["added_tokens"][2].merge_patch(change);
    const Status status = NormalizedError(folder);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << change;
    EXPECT_THAT(status.message(), HasSubstr("tokenizer.json \"added_tokens[2]\": normalized"));
    return status.message();
  };
  EXPECT_THAT(error({{"lstrip", true}}), HasSubstr("together with lstrip or rstrip"));
  error({{"rstrip", true}});
  EXPECT_THAT(error({{"content", "a b"}}), HasSubstr("for content with a space"));
  error({{"content", "▁▁"}});
  EXPECT_THAT(error({{"content", "<y>a"}}), HasSubstr("overlaps its content"));
  error({{"content", "a<y>"}});
  error({{"content", "a<y"}});
  FolderFiles folder = SpacedFolder();
  folder["tokenizer.json"]["added_tokens"] = {NormalizedToken(260, "a", false)};
  EXPECT_THAT(NormalizedError(folder).message(), HasSubstr("is also an ordinary piece"));
  folder = SpacedFolder();
  json& normalizer = folder["tokenizer.json"]["normalizer"];
  folder["tokenizer.json"]["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}};
  normalizer = normalizer["normalizers"][0];
  EXPECT_THAT(NormalizedError(folder).message(), HasSubstr("does not replace spaces"));
}

// Where it only replaces spaces, as Gemma's does, a token without any is found in the text as it
// is.
TEST(HfNormalizedTokensTest, NeedNoSpaceWhereNoneIsWritten) {
  FolderFiles folder = SpacedFolder();
  json& normalizer = folder["tokenizer.json"]["normalizer"];
  normalizer = normalizer["normalizers"][1];
  EXPECT_EQ(IdsIn(folder, "a<x>a <x>"), (Ids{260, 263, 260, kSpace, 263}));
  folder["tokenizer.json"]["added_tokens"][2]["content"] = "a b";
  EXPECT_FALSE(NormalizedError(folder).ok());
}

}  // namespace
}  // namespace ropeway::tokenizer
