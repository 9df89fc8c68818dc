#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_char_map.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

using testing::HasSubstr;

// --- A message of protocol buffers, by the format's definition.

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value > 0x7F; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7F) | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string NumberField(uint32_t number, uint64_t value) {
  return Varint(uint64_t{number} << 3) + Varint(value);
}

std::string FloatField(uint32_t number, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return Varint(uint64_t{number} << 3 | 5) + bytes;
}

std::string BytesField(uint32_t number, const std::string& bytes) {
  return Varint(uint64_t{number} << 3 | 2) + Varint(bytes.size()) + bytes;
}

std::string PieceField(const std::string& text, float score, uint64_t type) {
  return BytesField(1, BytesField(1, text) + FloatField(2, score) + NumberField(3, type));
}

// The file of a vocabulary that was made for a GGUF file.
std::string ModelBytes(const Vocabulary& vocabulary, uint64_t model_type) {
  std::string bytes;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    bytes += PieceField(vocabulary.tokens[i], vocabulary.scores[i],
                        static_cast<uint64_t>(vocabulary.types[i]));
  }
  bytes += BytesField(2, NumberField(3, model_type));
  return bytes + BytesField(3, NumberField(3, 1) + NumberField(4, 0));
}

std::string SpError(const std::string& bytes) {
  const auto read = ReadSentencePieceModel(bytes);
  EXPECT_FALSE(read.ok());
  return read.status().message();
}

TEST(SentencePieceModelTest, ReadsPiecesScoresAndTypes) {
  const Vocabulary made =
      MakeSentencePieceVocabulary("llama", {"▁", "a", "b", "ab"}, true, {"<x>"}, {"<y>"});
  const std::string map = BytesField(3, BytesField(2, "the map"));
  const auto read = ReadSentencePieceModel(ModelBytes(made, 2) + map);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->model, "llama");
  EXPECT_TRUE(read->normalizes);
  EXPECT_EQ(read->tokens, made.tokens);
  EXPECT_EQ(read->scores, made.scores);
  std::vector<int32_t> types = made.types;
  types.back() = static_cast<int32_t>(TokenType::kSymbol);
  EXPECT_EQ(read->types, types);
  EXPECT_EQ(read->unk, made.unk);
  EXPECT_EQ(read->char_map, "the map");
  EXPECT_EQ(read->space_prefix, SpacePrefix::kEach);
  EXPECT_FALSE(read->remove_extra_spaces);
  EXPECT_EQ(ReadSentencePieceModel(ModelBytes(made, 1))->model, "t5");
}

TEST(SentencePieceModelTest, KnowsTheFormatsDefaults) {
  // A piece without a type or a score is an ordinary one; a model without specs a unigram model.
  const auto read = ReadSentencePieceModel(BytesField(1, BytesField(1, "a")));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->model, "t5");
  EXPECT_EQ(read->types, std::vector<int32_t>{1});
  EXPECT_EQ(read->scores, std::vector<float>{0.0F});
  EXPECT_EQ(read->space_prefix, SpacePrefix::kEach);
  EXPECT_TRUE(read->remove_extra_spaces);
  const std::string prefix = BytesField(3, NumberField(3, 0));
  EXPECT_EQ(ReadSentencePieceModel(BytesField(1, BytesField(1, "a")) + prefix)->space_prefix,
            SpacePrefix::kNone);
}

TEST(SentencePieceModelTest, SkipsFieldsThatItDoesNotKnow) {
  const std::string unknown = NumberField(9, 7) + FloatField(10, 1.0F) + BytesField(11, "xyz") +
                              Varint(12 << 3 | 1) + std::string(8, 'x');
  const auto read = ReadSentencePieceModel(unknown + PieceField("a", -1.0F, 1) + unknown);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->tokens, std::vector<std::string>{"a"});
}

TEST(SentencePieceModelTest, RejectsWhatIsNoModel) {
  const std::string good = PieceField("a", -1.0F, 1);
  EXPECT_THAT(SpError(""), HasSubstr("tokenizer.model: is not a SentencePiece model"));
  for (const std::string& bytes :
       {std::string("GGUF"), good.substr(0, good.size() - 1), good + "\x08", good + "\x0A\x7F",
        std::string(11, '\xFF'), good + std::string(1, '\0'), good + "\x0B"}) {
    EXPECT_THAT(SpError(bytes), HasSubstr("tokenizer.model: "));
  }
  // Lengths beyond the end, to 2^64.
  EXPECT_THAT(SpError("\x0A" + Varint(UINT64_MAX) + "a"),
              HasSubstr("is not a SentencePiece model"));
  EXPECT_THAT(SpError(good + PieceField("b", std::nanf(""), 1)), HasSubstr("piece 1 is not valid"));
  EXPECT_THAT(SpError(PieceField("b", 0, 0)), HasSubstr("piece 0 is not valid"));
  EXPECT_THAT(SpError(PieceField("b", 0, 7)), HasSubstr("piece 0 is not valid"));
  EXPECT_THAT(SpError(good + BytesField(2, "\x08")), HasSubstr("trainer_spec"));
  EXPECT_THAT(SpError(good + BytesField(3, "\x08")), HasSubstr("normalizer_spec"));
  EXPECT_EQ(ReadSentencePieceModel(good + BytesField(2, NumberField(3, 4))).status().code(),
            StatusCode::kUnimplemented);
}

TEST(SentencePieceModelTest, BoundsThePieces) {
  std::string bytes;
  for (size_t i = 0; i <= kMaxVocabularyTokens; ++i) bytes.append("\x0A\0", 2);
  EXPECT_THAT(SpError(bytes),
              HasSubstr("tokenizer.model: must have at most 4194304 pieces, got 4194305"));
}

TEST(SentencePieceModelTest, AFolderWithoutTokenizerJsonUsesIt) {
  Vocabulary gguf = MakeSentencePieceVocabulary("llama", {"▁", "a", "b", "ab", "▁a"});
  const std::string config = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"},
      "added_tokens_decoder": {"264": {"content": "<|end|>", "special": true, "rstrip": true},
                               "1": {"content": "<s>", "special": true}}})";
  std::string model = ModelBytes(gguf, 2);
  const auto folder =
      ReadHfVocabulary({.tokenizer_model = model, .tokenizer_config = config, .rows = 300});
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_EQ(folder->tokens.size(), 300u);
  EXPECT_EQ(folder->scores.size(), 300u);
  EXPECT_EQ(folder->tokens[264], "<|end|>");
  EXPECT_EQ(folder->strip_right, std::vector<TokenId>{264});
  EXPECT_EQ(folder->bos, kBosToken);
  EXPECT_EQ(folder->eos, kEosToken);
  EXPECT_EQ(folder->add_bos, true);
  const auto a = MakeTokenizer(*folder);
  ASSERT_TRUE(a.ok()) << a.status().message();
  gguf.space_prefix = SpacePrefix::kEach;
  gguf.add_bos = true;
  const auto b = MakeTokenizer(gguf);
  ASSERT_TRUE(b.ok()) << b.status().message();
  for (const char* text : {"", "ab", "a b  ab", "é<s>a"}) {
    EXPECT_EQ((*a)->Encode(text, {}), (*b)->Encode(text, {})) << text;
  }
  EXPECT_EQ((*a)->Encode("<|end|>", {}), (std::vector<TokenId>{kBosToken, 264}));
  EXPECT_THAT(ReadHfVocabulary({.tokenizer_model = model,
                                .tokenizer_config = R"({"added_tokens_decoder": {"x": {}}})"})
                  .status()
                  .message(),
              HasSubstr("tokenizer_config.json \"added_tokens_decoder\" \"x\""));
}

TEST(SentencePieceModelTest, RejectsByNameWhatWouldChangeIds) {
  const std::string bpe = BytesField(2, NumberField(3, 2));
  const std::string good = PieceField("▁", -1, 1) + PieceField("a", -1, 1) +
                           PieceField("b", -1, 1) + PieceField("ab", -1, 1) + bpe;
  EXPECT_TRUE(ReadSentencePieceModel(good).ok());
  EXPECT_THAT(SpError(good + BytesField(2, NumberField(24, 1))),
              HasSubstr("treat_whitespace_as_suffix"));
  // Without a space of the tokenizer's own there is none to write behind the text.
  EXPECT_TRUE(ReadSentencePieceModel(good + BytesField(2, NumberField(24, 1)) +
                                     BytesField(3, NumberField(3, 0)))
                  .ok());
  EXPECT_THAT(SpError(good + BytesField(3, NumberField(5, 0))), HasSubstr("escape_whitespaces"));
  EXPECT_THAT(SpError(good + BytesField(5, BytesField(2, "map"))), HasSubstr("denormalizer_spec"));
  EXPECT_TRUE(ReadSentencePieceModel(good + BytesField(5, BytesField(1, "name"))).ok());
  EXPECT_THAT(SpError(good + BytesField(5, "\x08")), HasSubstr("denormalizer_spec is not valid"));
  EXPECT_THAT(SpError(good + PieceField("ba", -1, 5)),
              HasSubstr("piece 4 of a BPE model, \"ba\", which is unused"));
  EXPECT_THAT(SpError(good + PieceField("c", -1, 5)), HasSubstr("piece 4"));
  EXPECT_THAT(SpError(good + PieceField("abx", -1, 1)),
              HasSubstr("piece 4 of a BPE model, \"abx\", with a character that is not"));
  // What no two parts make up is no matter, nor is what symbols keep apart.
  EXPECT_TRUE(ReadSentencePieceModel(good + PieceField("[PAD]", -1, 5)).ok());
  EXPECT_TRUE(ReadSentencePieceModel(good + PieceField("axxb", -1, 1)).ok());
  EXPECT_TRUE(ReadSentencePieceModel(good + PieceField("x", -1, 4) + PieceField("ax", -1, 1)).ok());
  EXPECT_TRUE(ReadSentencePieceModel(PieceField("a", -1, 1) + PieceField("b", -1, 5)).ok());
}

// The pieces that the text becomes with a tokenizer.model and tokenizer_config.json.
std::string ModelPieces(const std::string& model, const std::string& text,
                        const std::string& config = "{}") {
  const auto folder = ReadHfVocabulary({.tokenizer_model = model, .tokenizer_config = config});
  EXPECT_TRUE(folder.ok()) << folder.status().message();
  const auto tokenizer = MakeTokenizer(*folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const EncodeOptions plain = {.add_special = false};
  const std::vector<TokenId> ids = (*tokenizer)->Encode(text, plain);
  // Pieces of the encoding give the same.
  const std::unique_ptr<Encoding> encoding = (*tokenizer)->Begin(text, plain);
  while (!encoding->Run(1)) {
  }
  EXPECT_EQ(encoding->ids(), ids) << text;
  std::string result;
  for (const TokenId id : ids) result.append("|").append((*tokenizer)->Bytes(id, true));
  return result;
}

// The values come from sentencepiece 0.2.3, which scripts/check_sentencepiece_options.py asks
// for far more.
TEST(SentencePieceModelTest, BothKindsNormalize) {
  std::string pieces = PieceField("<unk>", 0, 2);
  for (const char* piece : {"▁", "a", "b", "\xEF\xBF\xBD"}) pieces += PieceField(piece, -2, 1);
  pieces += PieceField("▁a", -1, 1) + PieceField("<t>", 0, 4) + PieceField("b▁", 0, 4) +
            PieceField("Ａ", 0, 4);
  const std::string map =
      BytesField(3, BytesField(2, WriteCharMap({{"Ａ", "a"}, {"x", ""}, {"㎈", " a  b "}})));
  for (const uint64_t kind : {uint64_t{1}, uint64_t{2}}) {
    const std::string model = pieces + BytesField(2, NumberField(3, kind)) + map;
    const std::string keeps = model + BytesField(3, NumberField(4, 0));
    EXPECT_EQ(ModelPieces(model, "  a   a  "), "| a| a");
    EXPECT_EQ(ModelPieces(keeps, " a  a "), "| | a| | a| ");
    // "▁" of the text is a space at its end, but no other.
    EXPECT_EQ(ModelPieces(model, "▁ ▁a▁ ▁"), "| | | | a");
    EXPECT_EQ(ModelPieces(model, "x"), "");
    EXPECT_EQ(ModelPieces(keeps, "x"), "| ");
    EXPECT_EQ(ModelPieces(model, "xa"), "| a");
    // Several spaces that a character becomes are kept except for the first ones.
    EXPECT_EQ(ModelPieces(model, "a ㎈ a"), "| a| a| | |b |a");
    // What is no UTF-8 is U+FFFD.
    EXPECT_EQ(ModelPieces(model, "a\xFF\xE2\x96"), "| a|\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD");
    // Symbols stay whole and as they are, in the text and in what it becomes.
    EXPECT_EQ(ModelPieces(model, "Ａ<t>a"), "| |Ａ|<t>|a");
    EXPECT_EQ(ModelPieces(model, "b a"), "| |b |a");
    EXPECT_EQ(ModelPieces(model, "éü éb"), "| |<unk>| |<unk>|b");
  }
}

// The values come from transformers 4.46's slow tokenizers.
TEST(SentencePieceModelTest, OneSpaceAtASegmentsBeginningIsKeptUnlessLegacy) {
  std::string pieces = PieceField("<unk>", 0, 2) + PieceField("<x>", 0, 3);
  for (const char* piece : {"▁", "a", "b"}) pieces += PieceField(piece, -2, 1);
  pieces += PieceField("▁a", -1, 1);
  const std::string map =
      BytesField(3, BytesField(2, WriteCharMap({{"\t", " "}, {"㎈", " a  b "}, {"x", ""}})));
  for (const uint64_t kind : {uint64_t{1}, uint64_t{2}}) {
    const std::string model = pieces + BytesField(2, NumberField(3, kind)) + map;
    const auto encode = [&](const std::string& fields, const std::string& text) {
      return ModelPieces(model, text,
                         R"({"legacy": false, )" + fields +
                             R"("added_tokens_decoder": {"1": {"content": "<x>"}}})");
    };
    EXPECT_EQ(encode("", "a<x> a <x>  a<x>a"), "| a|<x>| a|<x>| a|<x>|a");
    EXPECT_EQ(encode("", "a  a"), "| a| a");
    EXPECT_EQ(encode("", "  a"), "| | a");
    EXPECT_EQ(encode("", "\ta"), "| | a");
    EXPECT_EQ(encode("", "㎈"), "| | a| | |b");
    EXPECT_EQ(encode("", "  <x>  <x> "), "|<x>|<x>");
    EXPECT_EQ(encode("", "x"), "");
    // What only becomes a space is none at a segment's beginning.
    EXPECT_EQ(encode("", "<x>\t a<x> \ta"), "|<x>|a|<x>| a");
    EXPECT_EQ(encode("", "▁ ▁a<x>▁▁a▁b▁"), "| | a|<x>| a| |b");
    const std::string none = R"("add_prefix_space": false, )";
    EXPECT_EQ(encode(none, "a<x> a"), "|a|<x>| a");
    EXPECT_EQ(encode(none, "  a"), "| a");
    EXPECT_EQ(encode(none, "\ta"), "|a");
    // With a table that makes a space of "▁", as nmt_nfkc does, the one in front is the first.
    const std::string spaces =
        pieces + BytesField(2, NumberField(3, kind)) +
        BytesField(3, BytesField(2, WriteCharMap({{"▁", " "}, {"\t", " "}})));
    const std::string legacy =
        R"({"legacy": false, "added_tokens_decoder": {"1": {"content": "<x>"}}})";
    EXPECT_EQ(ModelPieces(spaces, "  a<x>  a<x>\ta", legacy), "| a|<x>| a|<x>|a");
    EXPECT_EQ(ModelPieces(spaces, "\t ▁a", legacy), "| a");
  }
}

// The values come from transformers 5.24.
TEST(SentencePieceModelTest, AFolderSaysWhereTheSpaceInFrontIsWritten) {
  const Vocabulary gguf =
      MakeSentencePieceVocabulary("llama", {"▁", "a", "b", "▁a"}, true, {"<x>"});
  const auto pieces = [&](const std::string& config, bool dummy_prefix, const char* text) {
    const std::string model =
        ModelBytes(gguf, 2) + BytesField(3, NumberField(3, dummy_prefix ? 1 : 0));
    const auto folder = ReadHfVocabulary(
        {.tokenizer_model = model, .tokenizer_config = "{" + config + "\"x\": 0}"});
    EXPECT_TRUE(folder.ok()) << folder.status().message();
    const auto tokenizer = MakeTokenizer(*folder);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    std::string result;
    for (const TokenId id : (*tokenizer)->Encode(text, {.add_special = false})) {
      result.append("|").append((*tokenizer)->Bytes(id, true));
    }
    return result;
  };
  const std::string llama = R"("tokenizer_class": "LlamaTokenizer", )";
  for (const char* text : {"", R"("legacy": true, )", R"("legacy": null, )"}) {
    const std::string legacy = text;
    EXPECT_EQ(pieces(legacy, true, "a<x>a"), "| a|<x>| a");
    EXPECT_EQ(pieces(legacy, true, " a"), "| | a");
    EXPECT_EQ(pieces(legacy, false, "a<x>a"), "|a|<x>|a");
    EXPECT_EQ(pieces(legacy + R"("add_prefix_space": true, )", true, "a<x>a"), "| a|<x>| a");
    EXPECT_EQ(pieces(legacy + R"("add_prefix_space": false, )", true, "a<x>a"), "|a|<x>|a");
  }
  const std::string legacy = R"("legacy": false, )";
  for (const std::string& config : {legacy, legacy + llama}) {
    EXPECT_EQ(pieces(config, true, "a<x>a<x> b"), "| a|<x>|a|<x>| |b");
    EXPECT_EQ(pieces(config, true, "<x>a"), "|<x>|a");
    EXPECT_EQ(pieces(config, true, " a"), "| a");
    EXPECT_EQ(pieces(config, true, "  <x>  a"), "| | |<x>| | a");
    EXPECT_EQ(pieces(config, true, ""), "");
    EXPECT_EQ(pieces(config + R"("add_prefix_space": false, )", true, "a<x>a"), "|a|<x>|a");
    EXPECT_EQ(pieces(config + R"("add_prefix_space": false, )", true, " a"), "| a");
  }
  EXPECT_EQ(pieces(legacy, false, "a<x>a"), "|a|<x>|a");
  EXPECT_EQ(pieces(legacy + llama, false, "a<x>a"), "| a|<x>|a");
}

}  // namespace
}  // namespace ropeway::tokenizer
