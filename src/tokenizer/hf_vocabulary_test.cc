#include "tokenizer/hf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/make_tokenizer.h"
#include "tokenizer/split_patterns.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kFolderTexts = {
    "",
    "hello hello",
    "  h e\n\nhello 12345 it's",
    "héllo <x>hello</x><x>",
    "<x> a",
    "a  b\tab  ",
    "日本語 0x1F",
    "<s>ab</s>",
    "ab ab",
    " ab",
    "\xF0\x9F\x98\x80 e\u0301",
    "HELLO'S",
};

// The folder's file for a vocabulary that was made for a GGUF file.
json TokenizerJson(const Vocabulary& vocabulary) {
  json vocab = json::object();
  json added = json::array();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto type = static_cast<TokenType>(vocabulary.types[i]);
    vocab[vocabulary.tokens[i]] = i;
    if (type != TokenType::kNormal && type != TokenType::kByte) {
      added.push_back({{"id", i},
                       {"content", vocabulary.tokens[i]},
                       {"special", type != TokenType::kUserDefined}});
    }
  }
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", vocabulary.merges}}},
          {"added_tokens", added}};
}

json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

const json kDigits = {{"type", "Digits"}, {"individual_digits", true}};

json Steps(const char* name, const json& list) { return {{"type", "Sequence"}, {name, list}}; }

StatusOr<Vocabulary> ReadJsonFile(const json& tokenizer, const json& config = json::object()) {
  return ReadHfVocabulary({.tokenizer_json = tokenizer.dump(), .tokenizer_config = config.dump()});
}

Vocabulary MustReadJson(const json& tokenizer, const json& config = json::object()) {
  StatusOr<Vocabulary> read = ReadJsonFile(tokenizer, config);
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *std::move(read) : Vocabulary();
}

// Both make the same ids of all texts.
void ExpectSame(const Vocabulary& folder, const Vocabulary& gguf) {
  const auto a = MakeTokenizer(folder);
  const auto b = MakeTokenizer(gguf);
  ASSERT_TRUE(a.ok()) << a.status().message();
  ASSERT_TRUE(b.ok()) << b.status().message();
  ASSERT_EQ((*a)->vocab_size(), (*b)->vocab_size());
  for (const std::string& text : kFolderTexts) {
    for (const bool special : {false, true}) {
      const EncodeOptions options = {.add_special = special, .parse_special = special};
      EXPECT_EQ((*a)->Encode(text, options), (*b)->Encode(text, options)) << text;
    }
  }
}

const std::vector<std::string> kFolderMerges = {"h e", "l l", "he ll", "hell o", "1 2", "12 3"};

TEST(HfVocabularyTest, ByteLevelBpeWithDigits) {
  const Vocabulary gguf = MakeVocabulary("smollm", kFolderMerges, {"<x>"}, {"</x>"});
  json document = TokenizerJson(gguf);
  document["pre_tokenizer"] =
      Steps("pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, ByteLevel(true)});
  const Vocabulary folder = MustReadJson(document);
  EXPECT_EQ(folder.model, "gpt2");
  EXPECT_EQ(folder.tokens, gguf.tokens);
  EXPECT_EQ(folder.types, gguf.types);
  EXPECT_EQ(folder.merges, gguf.merges);
  ExpectSame(folder, gguf);
}

TEST(HfVocabularyTest, ByteLevelBpeWithARegexOfItsOwn) {
  Vocabulary gguf = MakeVocabulary("llama-bpe", kFolderMerges, {"<x>"});
  gguf.bos = static_cast<TokenId>(gguf.tokens.size() - 1);
  json document = TokenizerJson(gguf);
  const std::string regex(FindSplitFamily("llama-bpe")->expressions.front().text);
  document["pre_tokenizer"] = Steps("pretokenizers", {{{"type", "Split"},
                                                       {"pattern", {{"Regex", regex}}},
                                                       {"behavior", "Isolated"},
                                                       {"invert", false}},
                                                      ByteLevel(false)});
  document["model"]["ignore_merges"] = true;
  document["post_processor"] =
      Steps("processors", {ByteLevel(true),
                           {{"type", "TemplateProcessing"},
                            {"single",
                             {{{"SpecialToken", {{"id", "<x>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}}});
  const Vocabulary folder = MustReadJson(document);
  EXPECT_EQ(folder.add_bos, true);
  EXPECT_EQ(folder.bos, gguf.bos);
  ExpectSame(folder, gguf);
  // The same split, said the other way round.
  json& split = document["pre_tokenizer"]["pretokenizers"][0];
  split["behavior"] = "Removed";
  split["invert"] = true;
  ExpectSame(MustReadJson(document), gguf);
}

TEST(HfVocabularyTest, MergesMayBePairs) {
  const Vocabulary gguf = MakeVocabulary("gpt-2", kFolderMerges);
  json document = TokenizerJson(gguf);
  document["pre_tokenizer"] = ByteLevel(true);
  ExpectSame(MustReadJson(document), gguf);
  json pairs = json::array();
  for (const std::string& merge : gguf.merges) {
    const size_t space = merge.find(' ');
    pairs.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  document["model"]["merges"] = pairs;
  ExpectSame(MustReadJson(document), gguf);
}

TEST(HfVocabularyTest, ComposesCharactersWhereItSaysSo) {
  Vocabulary gguf = MakeVocabulary("gpt-2", kFolderMerges);
  json document = TokenizerJson(gguf);
  document["pre_tokenizer"] = ByteLevel(true);
  document["normalizer"] = {{"type", "NFC"}};
  gguf.form = TextForm::kNfc;
  ExpectSame(MustReadJson(document), gguf);
}

// As of Llama 2: pieces with "▁" for spaces, bytes where there is no piece.
json SpacedJson(const Vocabulary& gguf) {
  json document = TokenizerJson(gguf);
  document["model"]["byte_fallback"] = true;
  document["model"]["unk_token"] = "<unk>";
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single",
                                 {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                                  {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  return document;
}

Vocabulary SpacedVocabulary() {
  const std::vector<std::string> pieces = {"▁", "a", "b", "ab", "▁a", "▁ab"};
  Vocabulary gguf = MakeSentencePieceVocabulary("llama", pieces, true, {"<x>"}, {"</x>"});
  gguf.scores.clear();
  gguf.merges = {"a b", "▁ a", "▁a b", "▁ ab"};
  gguf.space_prefix = SpacePrefix::kEach;
  gguf.add_bos = true;
  return gguf;
}

const json kReplaceSpaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};

TEST(HfVocabularyTest, SentencePiecesBpe) {
  const Vocabulary gguf = SpacedVocabulary();
  json document = SpacedJson(gguf);
  document["normalizer"] =
      Steps("normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, kReplaceSpaces});
  const json config = {{"bos_token", {{"content", "<s>"}}}, {"eos_token", "</s>"}};
  const Vocabulary folder = MustReadJson(document, config);
  EXPECT_EQ(folder.model, "llama");
  EXPECT_EQ(folder.types, gguf.types);
  EXPECT_EQ(folder.unk, gguf.unk);
  EXPECT_EQ(folder.bos, gguf.bos);
  EXPECT_EQ(folder.eos, gguf.eos);
  EXPECT_EQ(folder.add_bos, true);
  EXPECT_EQ(folder.space_prefix, SpacePrefix::kEach);
  ExpectSame(folder, gguf);
}

json SplitBy(const json& pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

TEST(HfVocabularyTest, GemmasSplitFindsNoSpaces) {
  Vocabulary gguf = SpacedVocabulary();
  gguf.space_prefix = SpacePrefix::kNone;
  json document = SpacedJson(gguf);
  document["normalizer"] = kReplaceSpaces;
  document["pre_tokenizer"] = SplitBy({{"String", " "}}, "MergedWithPrevious");
  ExpectSame(MustReadJson(document, {{"bos_token", "<s>"}}), gguf);
}

TEST(HfVocabularyTest, MetaspaceMaySplitBeforeEachSpace) {
  Vocabulary gguf = SpacedVocabulary();
  gguf.merges = {"▁ ▁", "b ▁", "a b", "▁ a", "▁a b", "▁ ab", "▁▁ ab"};
  json document = SpacedJson(gguf);
  const auto merges = [&](const json& split) {
    document["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}};
    if (!split.is_null()) document["pre_tokenizer"]["split"] = split;
    return MustReadJson(document).merges;
  };
  EXPECT_EQ(merges(false), gguf.merges);
  // None that makes a token across a space.
  const std::vector<std::string> within = {"a b", "▁ a", "▁a b", "▁ ab"};
  EXPECT_EQ(merges(true), within);
  EXPECT_EQ(merges(nullptr), within);
}

TEST(HfVocabularyTest, NamesSpacesThatItCannotWrite) {
  const auto error = [](json document, const json& normalizer, const json& pre) {
    document["normalizer"] = normalizer;
    document["pre_tokenizer"] = pre;
    const Status status = ReadJsonFile(document).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    return status.message();
  };
  const json split = SplitBy({{"String", " "}}, "MergedWithPrevious");
  const json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}};
  const json bytes = TokenizerJson(MakeVocabulary("gpt-2", {"h e"}));
  EXPECT_THAT(error(bytes, nullptr, Steps("pretokenizers", {split, ByteLevel(true)})),
              HasSubstr("a Split by \" \" together with ByteLevel is not supported"));
  EXPECT_THAT(error(bytes, nullptr, Steps("pretokenizers", {metaspace, ByteLevel(true)})),
              HasSubstr("Metaspace together with ByteLevel is not supported"));

  const json spaced = SpacedJson(SpacedVocabulary());
  EXPECT_THAT(error(spaced, nullptr, split),
              HasSubstr("if the normalizer does not replace spaces"));
  EXPECT_THAT(error(spaced, nullptr, Steps("pretokenizers", {split, metaspace})),
              HasSubstr("if the normalizer does not replace spaces"));
  // Inverted, it takes what is between the spaces for a match.
  EXPECT_THAT(error(spaced, kReplaceSpaces, SplitBy({{"String", " "}}, "Removed", true)),
              HasSubstr("a Split with behavior \"Removed\" and invert without a Regex pattern"));
  EXPECT_THAT(error(spaced, nullptr, nullptr), HasSubstr("does not write spaces as U+2581"));
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_THAT(error(spaced, nullptr, Steps("pretokenizers", {digits, metaspace})),
              HasSubstr("a split by patterns without ByteLevel"));
  json ignoring = spaced;
  ignoring["model"]["ignore_merges"] = true;
  EXPECT_THAT(error(ignoring, kReplaceSpaces, nullptr), HasSubstr("\"model.ignore_merges\""));
}

TEST(HfVocabularyTest, MetaspacesPrefix) {
  const auto prefix = [](const json& fields) {
    json document = SpacedJson(SpacedVocabulary());
    document["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}};
    document["pre_tokenizer"].update(fields);
    return MustReadJson(document).space_prefix;
  };
  EXPECT_EQ(prefix({{"prepend_scheme", "never"}}), SpacePrefix::kNone);
  EXPECT_EQ(prefix({{"prepend_scheme", "first"}}), SpacePrefix::kBeginningOnly);
  EXPECT_EQ(prefix({{"prepend_scheme", "always"}}), SpacePrefix::kEachIfNone);
  EXPECT_EQ(prefix({{"add_prefix_space", true}}), SpacePrefix::kEachIfNone);
  EXPECT_EQ(prefix({{"add_prefix_space", false}}), SpacePrefix::kNone);
}

TEST(HfVocabularyTest, AddedTokensBeyondTheVocabularyAndRowsWithoutOne) {
  json document = TokenizerJson(MakeVocabulary("gpt-2", {"h e"}));
  document["pre_tokenizer"] = ByteLevel(true);
  document["added_tokens"] = {
      {{"id", 257}, {"content", "<|end|>"}, {"special", true}, {"rstrip", true}},
      {{"id", 258}, {"content", "<tool>"}, {"special", false}, {"lstrip", true}}};
  const StatusOr<Vocabulary> read =
      ReadHfVocabulary({.tokenizer_json = document.dump(), .rows = 300});
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->tokens.size(), 300u);
  ASSERT_EQ(read->types.size(), 300u);
  EXPECT_EQ(read->tokens[259], "[PAD259]");
  EXPECT_EQ(read->tokens[257], "<|end|>");
  EXPECT_EQ(read->tokens[258], "<tool>");
  const auto type = [&](size_t i) { return static_cast<TokenType>(read->types[i]); };
  EXPECT_EQ(type(259), TokenType::kUnused);
  EXPECT_EQ(type(257), TokenType::kControl);
  EXPECT_EQ(type(258), TokenType::kUserDefined);
  EXPECT_EQ(type(299), TokenType::kUnused);
  EXPECT_EQ(read->strip_right, std::vector<TokenId>{257});
  EXPECT_EQ(read->strip_left, std::vector<TokenId>{258});
  EXPECT_TRUE(MakeTokenizer(*read).ok());
}

TEST(HfVocabularyTest, TokensThatEndTexts) {
  json document = TokenizerJson(MakeVocabulary("gpt-2", {}, {"<a>", "<b>", "<c>"}));
  document["pre_tokenizer"] = ByteLevel(true);
  const auto read = [&](const std::string& config, const std::string& generation) {
    return ReadHfVocabulary({.tokenizer_json = document.dump(),
                             .tokenizer_config = R"({"eos_token": "<a>", "bos_token": null})",
                             .config = config,
                             .generation_config = generation});
  };
  EXPECT_EQ(read("", "")->eos, 256);
  const auto both =
      read(R"({"eos_token_id": 256, "bos_token_id": 258})", R"({"eos_token_id": [257, 256]})");
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->ends, (std::vector<TokenId>{257, 256}));
  EXPECT_EQ(both->bos, 258);
  EXPECT_EQ(both->add_bos, false);
  EXPECT_TRUE(both->warnings.empty());
  EXPECT_FALSE(read(R"({"eos_token_id": [[1]]})", "").ok());
}

TEST(HfVocabularyTest, TheChatTemplate) {
  json document = TokenizerJson(MakeVocabulary("gpt-2", {}));
  document["pre_tokenizer"] = ByteLevel(true);
  const auto chat_template = [&](const json& config, const std::string& file) {
    return ReadHfVocabulary({.tokenizer_json = document.dump(),
                             .tokenizer_config = config.dump(),
                             .chat_template = file})
        ->chat_template;
  };
  EXPECT_EQ(chat_template({{"chat_template", "{{ a }}"}}, ""), "{{ a }}");
  EXPECT_EQ(chat_template({{"chat_template", "{{ a }}"}}, "{{ b }}"), "{{ b }}");
  const json named = {{{"name", "tool_use"}, {"template", "t"}},
                      {{"name", "default"}, {"template", "d"}},
                      {{"name", "rag"}, {"template", "r"}}};
  EXPECT_EQ(chat_template({{"chat_template", named}}, ""), "d");
  EXPECT_EQ(chat_template(json::object(), ""), "");
}

TEST(HfVocabularyTest, ATextsEndWithoutARowIsNamed) {
  const Vocabulary made = MakeVocabulary("gpt-2", {});
  const size_t rows = made.tokens.size();
  json document = TokenizerJson(made);
  document["pre_tokenizer"] = ByteLevel(true);
  document["added_tokens"] = {{{"id", rows}, {"content", "<b>"}, {"special", true}},
                              {{"id", rows + 1}, {"content", "<e>"}, {"special", true}}};
  const auto warnings = [&](const json& template_of_one, size_t have) {
    document["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", template_of_one},
        {"special_tokens",
         {{"<b>", {{"id", "<b>"}, {"ids", {rows}}, {"tokens", {"<b>"}}}},
          {"<e>", {{"id", "<e>"}, {"ids", {rows + 1}}, {"tokens", {"<e>"}}}}}}};
    const auto read = ReadHfVocabulary({.tokenizer_json = document.dump(),
                                        .tokenizer_config = R"({"eos_token": "<e>"})",
                                        .rows = have});
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read->warnings;
  };
  const json first = {{"SpecialToken", {{"id", "<b>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json last = {{"SpecialToken", {{"id", "<e>"}, {"type_id", 0}}}};
  const auto named = [&](const char* text_of, size_t id, const char* how) {
    return "has no row in its embedding for \"" + std::string(text_of) + "\" (id " +
           std::to_string(id) + "), so texts " + how + " without it";
  };
  const std::vector<std::string> both = warnings({first, text, last}, rows);
  ASSERT_EQ(both.size(), 3U);  // The first one names all tokens without a row.
  EXPECT_EQ(both[1], named("<b>", rows, "begin"));
  EXPECT_EQ(both[2], named("<e>", rows + 1, "end"));
  const std::vector<std::string> end = warnings({first, text, last}, rows + 1);
  ASSERT_EQ(end.size(), 2U);
  EXPECT_EQ(end[1], named("<e>", rows + 1, "end"));
  EXPECT_EQ(warnings(json::array({text}), rows).size(), 1U);
  EXPECT_TRUE(warnings({first, text, last}, rows + 2).empty());
}

// What is wrong with a document that `change` made of a good one.
template <typename Change>
Status FolderError(const Change& change) {
  json document = TokenizerJson(MakeVocabulary("gpt-2", {"h e"}));
  document["pre_tokenizer"] = ByteLevel(true);
  change(document);
  return ReadJsonFile(document).status();
}

TEST(HfVocabularyTest, NamesTheFieldThatIsBroken) {
  const auto error = [](const std::string& text) {
    return ReadHfVocabulary({.tokenizer_json = text}).status().message();
  };
  EXPECT_THAT(error(""), HasSubstr("tokenizer.json: is missing, and there is no tokenizer.model"));
  EXPECT_THAT(error("{"), HasSubstr("tokenizer.json: the file is not valid JSON at byte"));
  EXPECT_THAT(error("[]"), HasSubstr("tokenizer.json: must be a JSON object"));
  EXPECT_THAT(error("{}"), HasSubstr("tokenizer.json \"model\": must be an object"));
  const auto config = ReadHfVocabulary({.tokenizer_json = "{}", .tokenizer_config = "1"});
  EXPECT_THAT(config.status().message(), HasSubstr("tokenizer_config.json: must be a JSON object"));

  const Status twice = FolderError([](json& d) { d["model"]["vocab"]["zz"] = 5; });
  EXPECT_EQ(twice.code(), StatusCode::kDataLoss);
  EXPECT_EQ(twice.field(), "tokenizer.json \"model.vocab\"");
  EXPECT_THAT(twice.message(), HasSubstr("the id 5 is given to both"));
  for (const json& id : {json(1000000000000000000U), json(-1), json(1.5), json("1"), json()}) {
    EXPECT_THAT(FolderError([&](json& d) { d["model"]["vocab"]["zz"] = id; }).message(),
                HasSubstr("the id of \"zz\" must be an integer from 0 to "));
  }
  EXPECT_THAT(FolderError([](json& d) { d["model"]["vocab"] = json::array(); }).message(),
              HasSubstr("model.vocab"));
  for (const json& merges : {json(1), json::array({1}), json::array({json::array({"a"})})}) {
    EXPECT_THAT(FolderError([&](json& d) { d["model"]["merges"] = merges; }).message(),
                HasSubstr("tokenizer.json \"model.merges"));
  }
  for (const json& added :
       {json(1), json::array({1}), json::array({{{"id", -1}}}), json::array({{{"id", 1}}}),
        json::array({{{"id", 9'000'000}, {"content", "x"}}})}) {
    EXPECT_THAT(FolderError([&](json& d) { d["added_tokens"] = added; }).message(),
                HasSubstr("tokenizer.json \"added_tokens"));
  }
}

TEST(HfVocabularyTest, NamesWhatItCannotEncodeWith) {
  const auto lacks = [](const char* field, const json& value) {
    const Status status = FolderError([&](json& d) { d[json::json_pointer(field)] = value; });
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << field << " " << value;
    EXPECT_THAT(status.message(), HasSubstr("is not supported"));
    return status.message();
  };
  EXPECT_THAT(lacks("/model/type", "Unigram"), HasSubstr("\"model\": type \"Unigram\""));
  lacks("/model/end_of_word_suffix", "</w>");
  lacks("/model/dropout", 0.1);
  lacks("/model/merges", json::array({{"a b", "c"}}));
  EXPECT_THAT(lacks("/pre_tokenizer", {{"type", "Whitespace"}}),
              HasSubstr("\"pre_tokenizer\": type \"Whitespace\""));
  lacks("/pre_tokenizer/add_prefix_space", true);
  lacks("/pre_tokenizer", nullptr);  // Neither bytes' letters nor byte_fallback.
  lacks("/pre_tokenizer",
        {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "MergedWithNext"}});
  // It would leave out what no match has.
  EXPECT_THAT(lacks("/pre_tokenizer", {{"type", "Split"},
                                       {"pattern", {{"Regex", "\\w+"}}},
                                       {"behavior", "Removed"},
                                       {"invert", true}}),
              HasSubstr("a Split with behavior \"Removed\" and invert"));
  EXPECT_THAT(lacks("/pre_tokenizer", Steps("pretokenizers", {ByteLevel(true), kDigits})),
              HasSubstr("type \"Digits\" after ByteLevel"));
  lacks("/post_processor", {{"type", "BertProcessing"}});
  lacks("/normalizer", {{"type", "Lowercase"}});
  lacks("/added_tokens", json::array({{{"id", 120}, {"content", "x"}, {"single_word", true}}}));
}

// So does transformers 5.24 with every class but CodeLlama's.
TEST(HfVocabularyTest, OfSentencePiecesThePostProcessorAloneSaysHowTextsBegin) {
  json document = SpacedJson(SpacedVocabulary());
  document["normalizer"] = kReplaceSpaces;
  document["post_processor"] = nullptr;
  for (const char* name : {"", "PreTrainedTokenizerFast", "LlamaTokenizerFast", "LlamaTokenizer",
                           "GemmaTokenizer", "CodeLlamaTokenizerFast"}) {
    for (const json& flag : {json(), json(true), json(false)}) {
      const json config = {{"tokenizer_class", name},
                           {"bos_token", "<s>"},
                           {"eos_token", "</s>"},
                           {"add_bos_token", flag},
                           {"add_eos_token", flag}};
      const Vocabulary read = MustReadJson(document, config);
      EXPECT_EQ(read.add_bos, std::string(name) == "CodeLlamaTokenizerFast") << config;
      EXPECT_EQ(read.add_eos, false) << config;
      json ended = document;
      ended["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single",
                                  {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                   {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}}};
      EXPECT_EQ(MustReadJson(ended, config).add_bos, false) << config;
      EXPECT_EQ(MustReadJson(ended, config).add_eos, true) << config;
    }
  }
}

// So does transformers: 5.24 with every class, 4.57 except with Llama's, Gemma's and Cohere's.
TEST(HfVocabularyTest, OfByteLevelBpeThePostProcessorAloneSaysHowTextsBegin) {
  json document = TokenizerJson(MakeVocabulary("gpt-2", {}, {"<a>", "<b>"}));
  document["pre_tokenizer"] = ByteLevel(true);
  const json flags = {
      {"add_bos_token", true}, {"add_eos_token", true}, {"bos_token", "<a>"}, {"eos_token", "<b>"}};
  const auto ids = [&](const json& config) {
    const auto tokenizer = MakeTokenizer(MustReadJson(document, config));
    EXPECT_TRUE(tokenizer.ok());
    return (*tokenizer)->Encode("x", {});
  };
  EXPECT_EQ(ids(flags), std::vector<TokenId>{'x'});
  document["post_processor"] = ByteLevel(true);
  EXPECT_EQ(ids(flags), std::vector<TokenId>{'x'});
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single",
                                 {{{"SpecialToken", {{"id", "<a>"}, {"type_id", 0}}}},
                                  {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  const std::vector<TokenId> with_bos = {256, 'x'};
  EXPECT_EQ(ids(flags), with_bos);
  EXPECT_EQ(ids({{"add_bos_token", false}}), with_bos);
}

TEST(HfVocabularyTest, ATemplatesLastTokenMustBeEos) {
  json document = TokenizerJson(MakeVocabulary("gpt-2", {}, {"<a>", "<b>"}));
  document["pre_tokenizer"] = ByteLevel(true);
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single",
                                 {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                  {{"SpecialToken", {{"id", "<b>"}, {"type_id", 0}}}}}}};
  const Vocabulary same = MustReadJson(document, {{"eos_token", "<b>"}});
  EXPECT_EQ(same.eos, 257);
  EXPECT_EQ(same.add_eos, true);
  EXPECT_EQ(MustReadJson(document).eos, 257);
  const Status other = ReadJsonFile(document, {{"eos_token", "<a>"}}).status();
  EXPECT_EQ(other.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(other.message(), HasSubstr("a last token other than the eos_token"));
}

// They would have to be found in the normalized text.
TEST(HfVocabularyTest, NormalizedTokensBesideANormalizer) {
  json document = TokenizerJson(MakeVocabulary("gpt-2", {}, {}, {"<z>"}));
  document["pre_tokenizer"] = ByteLevel(true);
  document["added_tokens"][0]["normalized"] = true;
  EXPECT_TRUE(ReadJsonFile(document).ok());
  document["normalizer"] = {{"type", "NFC"}};
  const auto error = [&](const char* text) {
    document["added_tokens"][0]["content"] = text;
    document["model"]["vocab"].erase("<z>");
    return ReadJsonFile(document).status().message();
  };
  // Composed, decomposed, one that joins the character before, Hangul's letters, a singleton.
  for (const char* text :
       {"<\u00e9>", "<e\u0301>", "<\u0301>", "\u1100\u1161", "\uac00", "<\u1161", "\u212a"}) {
    EXPECT_THAT(error(text), HasSubstr("\"added_tokens[0]\": normalized is not supported with the "
                                       "normalizer NFC"))
        << text;
  }
  for (const char* text : {"<think_more>", "  ", "\n", "<｜end▁of▁it｜>", "思考"}) {
    EXPECT_EQ(error(text), "") << text;
    const auto tokenizer = MakeTokenizer(MustReadJson(document));
    EXPECT_EQ((*tokenizer)->Encode(std::string("a") + text + "b", {}),
              (std::vector<TokenId>{'a', 256, 'b'}))
        << text;
  }
}

TEST(HfVocabularyTest, BoundsWhatItReads) {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  EXPECT_THAT(ReadHfVocabulary({.tokenizer_json = "{\"a\": " + deep + "}"}).status().message(),
              HasSubstr("nested deeper than 32 levels"));
  // A control character never reaches a terminal.
  const Status status = FolderError([](json& d) { d["model"]["vocab"]["\x1B[2J"] = -1; });
  EXPECT_EQ(status.message().find('\x1B'), std::string::npos);
}

}  // namespace
}  // namespace ropeway::tokenizer
