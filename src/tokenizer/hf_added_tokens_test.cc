#include "tokenizer/hf_added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/test_folder_files.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using TokenIds = std::vector<TokenId>;

FolderFiles With(FolderFiles folder, const json& files) {
  folder.merge_patch(files);
  return folder;
}
FolderFiles PiecesWith(const json& files) { return With(PiecesFolder(), files); }
FolderFiles BytesWith(const json& files) { return With(BytesFolder(), files); }

Vocabulary ReadFolderOf(const FolderFiles& files) {
  StatusOr<Vocabulary> read = ReadHfVocabulary(TextsOf(files));
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *std::move(read) : Vocabulary();
}

Status FolderErrorOf(const FolderFiles& files) { return ReadHfVocabulary(TextsOf(files)).status(); }

TokenType TypeOf(const Vocabulary& vocabulary, size_t id) {
  return static_cast<TokenType>(vocabulary.types[id]);
}

// The ids come from transformers 4.46's slow LlamaTokenizer.
TEST(HfAddedTokensTest, AddedTokensJsonBesideATokenizerModel) {
  const json added = {{"added_tokens.json", {{"<x>", 265}, {"<y>", 266}}},
                      {"special_tokens_map.json", {{"bos_token", "<s>"}, {"eos_token", "<y>"}}}};
  EXPECT_EQ(IdsIn(PiecesFolder(), "<s>hi"), (TokenIds{1, 1, 264}));
  EXPECT_EQ(IdsIn(PiecesWith(added), "<x>hi<y> h"), (TokenIds{1, 265, 264, 266, 259, 262}));
  const Vocabulary vocabulary = ReadFolderOf(PiecesWith(added));
  EXPECT_EQ(vocabulary.eos, 266);
  EXPECT_EQ(TypeOf(vocabulary, 265), TokenType::kUserDefined);
  EXPECT_EQ(TypeOf(vocabulary, 266), TokenType::kControl);
}

TEST(HfAddedTokensTest, NamedTokensGetTheNextIds) {
  const json map = {{"bos_token", "<bos>"},
                    {"eos_token", {{"content", "<x>"}, {"lstrip", true}, {"rstrip", true}}},
                    {"pad_token", "<unk>"},
                    {"mask_token", "<m>"},
                    {"additional_special_tokens", json::array({"<x>", {{"content", "<y>"}}})}};
  const Vocabulary vocabulary = ReadFolderOf(PiecesWith({{"special_tokens_map.json", map}}));
  ASSERT_EQ(vocabulary.tokens.size(), 269u);
  EXPECT_EQ(vocabulary.tokens[265], "<bos>");
  EXPECT_EQ(vocabulary.tokens[266], "<x>");
  EXPECT_EQ(vocabulary.tokens[267], "<m>");
  EXPECT_EQ(vocabulary.tokens[268], "<y>");
  EXPECT_EQ(vocabulary.bos, 265);
  EXPECT_EQ(vocabulary.eos, 266);
  EXPECT_EQ(vocabulary.strip_left, TokenIds{266});
  EXPECT_EQ(vocabulary.strip_right, TokenIds{266});
  EXPECT_EQ(TypeOf(vocabulary, 0), TokenType::kUnknown);
  // The same fields of tokenizer_config.json.
  EXPECT_EQ(ReadFolderOf(PiecesWith({{"tokenizer_config.json", map}})), vocabulary);
}

TEST(HfAddedTokensTest, TheDecoderTakesThePlaceOfTheOtherFiles) {
  const json config = {{"added_tokens_decoder",
                        {{"266", {{"content", "<x>"}, {"special", true}}},
                         {"265", {{"content", "<y>"}, {"lstrip", true}}}}}};
  const json others = {{"added_tokens.json", {{"<z>", 265}}},
                       {"special_tokens_map.json", {{"eos_token", "<z>"}, {"pad_token", "<p>"}}}};
  const Vocabulary alone = ReadFolderOf(PiecesWith({{"tokenizer_config.json", config}}));
  EXPECT_EQ(alone.tokens.size(), 267u);
  EXPECT_EQ(alone.tokens[265], "<y>");
  EXPECT_EQ(alone.tokens[266], "<x>");
  EXPECT_EQ(alone.strip_left, TokenIds{265});
  json files = others;
  files["tokenizer_config.json"] = config;
  EXPECT_EQ(ReadFolderOf(PiecesWith(files)), alone);
  // Without it special_tokens_map.json goes before tokenizer_config.json.
  files["tokenizer_config.json"] = {{"eos_token", "<q>"}};
  EXPECT_EQ(ReadFolderOf(PiecesWith(files)).eos, 265);
}

TEST(HfAddedTokensTest, WhatIsNotSaidIsAsInTransformersClasses) {
  const Vocabulary plain = ReadFolderOf(PiecesFolder());
  EXPECT_EQ(plain.bos, 1);
  EXPECT_EQ(plain.eos, 2);
  EXPECT_EQ(plain.add_bos, true);
  const Vocabulary none =
      ReadFolderOf(PiecesWith({{"special_tokens_map.json", {{"bos_token", "<none>"}}},
                               {"added_tokens.json", {{"<none>", 265}}}}));
  EXPECT_EQ(none.bos, 265);
  FolderFiles null = PiecesFolder();
  null["tokenizer_config.json"]["bos_token"] = nullptr;
  EXPECT_EQ(ReadFolderOf(null).bos, std::nullopt);
  FolderFiles no_bos = PiecesWith({{"tokenizer_config.json", {{"add_bos_token", false}}}});
  EXPECT_EQ(ReadFolderOf(no_bos).add_bos, false);
  no_bos["tokenizer_config.json"]["add_bos_token"] = nullptr;
  EXPECT_EQ(ReadFolderOf(no_bos).add_bos, false);
}

// The ids come from transformers' fast tokenizers, 4.46 to 5.24.
TEST(HfAddedTokensTest, BesideATokenizerJsonTheTextsDecide) {
  const auto ids = [](const json& files, const char* text) {
    return IdsIn(BytesWith(files), text);
  };
  EXPECT_EQ(ids(json::object(), "<a><b>"), (TokenIds{257, 258}));
  EXPECT_EQ(ids({{"added_tokens.json", {{"<x>", 300}, {"<b>", 258}}}}, "<x><b>"),
            (TokenIds{259, 258}));
  // An id that tokenizer.json has stays what it says.
  EXPECT_EQ(ids({{"added_tokens.json", {{"<x>", 258}}}}, "<b>he"), (TokenIds{258, 256}));
  const json moved = {{"added_tokens_decoder", {{"258", {{"content", "<x>"}, {"special", true}}}}}};
  EXPECT_EQ(ids({{"tokenizer_config.json", moved}}, "<x><b>"), (TokenIds{259, 258}));
  const json strips = {{"added_tokens_decoder", {{"258", {{"content", "<b>"}, {"lstrip", true}}}}}};
  EXPECT_EQ(ids({{"tokenizer_config.json", strips}}, "he <b>"), (TokenIds{256, 258}));
  // A named token may be one of the vocabulary.
  EXPECT_EQ(ids({{"tokenizer_config.json", {{"eos_token", "he"}, {"pad_token", "<p>"}}}}, "he<p>"),
            (TokenIds{256, 259}));
  const json order = {{"additional_special_tokens", json::array({"<y>"})},
                      {"image_token", "<w>"},
                      {"mask_token", "<m>"},
                      {"pad_token", {{"content", "<p>"}}}};
  EXPECT_EQ(ids({{"tokenizer_config.json", order}}, "<p><m><w><y>"),
            (TokenIds{259, 260, 261, 262}));
}

// `tokenizers` goes by the texts and by their order.
TEST(HfAddedTokensTest, ATokenizerJsonsIdsAreThoseOfItsTexts) {
  const auto status = [](const std::vector<std::pair<int, const char*>>& tokens) {
    FolderFiles folder = BytesFolder();
    json& added = folder["tokenizer.json"]["added_tokens"];
    added = json::array();
    for (const auto& [id, text] : tokens) {
      added.push_back({{"id", id}, {"content", text}, {"special", true}});
    }
    return FolderErrorOf(folder);
  };
  EXPECT_TRUE(status({{257, "<x>"}, {258, "<y>"}}).ok());
  EXPECT_TRUE(status({{256, "he"}, {257, "<y>"}}).ok());
  EXPECT_TRUE(status({{257, "<x>"}, {257, "<x>"}, {258, "<y>"}}).ok());
  EXPECT_TRUE(status({{300, ""}, {257, "<x>"}}).ok());
  EXPECT_EQ(status({{257, "<x>"}, {257, "<y>"}}).message(),
            "tokenizer.json \"added_tokens[1]\": id must be 258 for \"<y>\" at this place in the "
            "list, got 257");
  for (const auto& tokens :
       std::vector<std::vector<std::pair<int, const char*>>>{{{258, "<y>"}, {257, "<x>"}},
                                                             {{257, "he"}},
                                                             {{200, "<x>"}},
                                                             {{257, "<x>"}, {259, "<y>"}},
                                                             {{257, "<x>"}, {258, "<x>"}},
                                                             {{257, ""}, {258, "<x>"}}}) {
    EXPECT_THAT(status(tokens).message(), HasSubstr("at this place in the list, got"))
        << tokens[0].second;
  }
}

TEST(HfAddedTokensTest, GapsOfATokenizerJsonsVocabularyAreNotCounted) {
  FolderFiles folder = BytesFolder();
  folder["tokenizer.json"]["added_tokens"] = json::array();
  folder["tokenizer_config.json"] = {{"pad_token", "<p>"}};
  json& vocab = folder["tokenizer.json"]["model"]["vocab"];
  EXPECT_EQ(IdsIn(folder, "<p>"), TokenIds{257});
  vocab["zz"] = 300;
  EXPECT_EQ(IdsIn(folder, "<p>"), TokenIds{258});
  vocab["zzz"] = 259;
  EXPECT_THAT(FolderErrorOf(folder).message(),
              HasSubstr("\"pad_token\": it would get the id 259, which belongs to \"zzz\""));
}

// "<s>" is a control piece (1), "h" an ordinary one (260).
TEST(HfAddedTokensTest, TheFilesDoNotContradictTheModelsPieces) {
  const auto decoder = [](const char* id, const char* text) {
    const json token = {{"content", text}, {"special", true}};
    return PiecesWith({{"tokenizer_config.json", {{"added_tokens_decoder", {{id, token}}}}}});
  };
  for (const char* text : {"<s>", "h", "<0x41>", "<unk>"}) {
    const Status status = FolderErrorOf(decoder("265", text));
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(),
                HasSubstr("\"265\": the id of \"" + std::string(text) + "\" must be "))
        << text;
  }
  for (const char* id : {"0", "100", "260"}) {
    EXPECT_THAT(FolderErrorOf(decoder(id, "<x>")).message(),
                HasSubstr("belongs to tokenizer.model's piece"));
  }
  EXPECT_THAT(FolderErrorOf(PiecesWith({{"added_tokens.json", {{"</s>", 265}}}})).message(),
              HasSubstr("added_tokens.json \"</s>\": the id of \"</s>\" must be 2"));
  EXPECT_TRUE(FolderErrorOf(decoder("1", "<s>")).ok());
  // No text has a control piece, so it may have another name.
  EXPECT_EQ(IdsIn(decoder("2", "<x>"), "hi<x>"), (TokenIds{1, 264, 2}));
}

TEST(HfAddedTokensTest, NamesWhatIsBroken) {
  const auto error = [](const char* file, const json& document) {
    const Status status = FolderErrorOf(PiecesWith({{file, document}}));
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << document;
    return status.message();
  };
  EXPECT_THAT(error("added_tokens.json", {{"<x>", "265"}}),
              HasSubstr("added_tokens.json \"<x>\": its id must be an integer from 0 to 4194303"));
  for (const json& id : {json(-1), json(1.5), json(5'000'000), json(true)}) {
    EXPECT_THAT(error("added_tokens.json", {{"<x>", id}}), HasSubstr("added_tokens.json \"<x>\""));
  }
  EXPECT_THAT(error("added_tokens.json", {{"<x>", 265}, {"<y>", 265}}),
              HasSubstr("added_tokens.json \"<x>\": its id is also given to \"<y>\""));
  EXPECT_THAT(error("added_tokens.json", {{"<x>", 200'000}}),
              HasSubstr("is too large: the vocabulary has "));
  EXPECT_THAT(error("added_tokens.json", json::array({1})),
              HasSubstr("added_tokens.json: must be a JSON object"));
  EXPECT_THAT(error("special_tokens_map.json", {{"eos_token", 2}}),
              HasSubstr("special_tokens_map.json \"eos_token\": content must be a string"));
  EXPECT_THAT(
      error("special_tokens_map.json", {{"additional_special_tokens", "<x>"}}),
      HasSubstr("special_tokens_map.json \"additional_special_tokens\": must be a list of tokens"));
  EXPECT_THAT(
      error("tokenizer_config.json", {{"added_tokens_decoder", {{"x", json::object()}}}}),
      HasSubstr(
          "tokenizer_config.json \"added_tokens_decoder\" \"x\": the key must be a token id"));
  const json word = {{"eos_token", {{"content", "<x>"}, {"single_word", true}}}};
  EXPECT_THAT(FolderErrorOf(PiecesWith({{"special_tokens_map.json", word}})).message(),
              HasSubstr("special_tokens_map.json \"eos_token\": single_word is not supported"));
}

}  // namespace
}  // namespace ropeway::tokenizer
