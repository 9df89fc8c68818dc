#include "tokenizer/test_folder_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

// A field of protocol buffers with fewer than 128 bytes.
std::string MessageField(char number, const std::string& bytes) {
  return static_cast<char>(number << 3 | 2) + std::string(1, static_cast<char>(bytes.size())) +
         bytes;
}

std::string ModelOfPieces(const Vocabulary& vocabulary) {
  std::string model;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    std::string score(4, '\0');
    std::memcpy(score.data(), &vocabulary.scores[i], 4);
    const std::string type(1, static_cast<char>(vocabulary.types[i]));
    model +=
        MessageField(1, MessageField(1, vocabulary.tokens[i]) + "\x15" + score + "\x18" + type);
  }
  // BPE; without a map of characters, with a space in front, extra spaces kept.
  return model + MessageField(2, "\x18\x02") + MessageField(3, std::string("\x18\x01\x20\x00", 4));
}

}  // namespace

HfTokenizerFiles TextsOf(const FolderFiles& files, size_t rows) {
  HfTokenizerFiles texts;
  texts.rows = rows;
  for (const auto& [name, text] : kHfTokenizerFiles) {
    if (!files.contains(name)) continue;
    const json& file = files[name];
    texts.*text = file.is_binary() ? std::string(file.get_binary().begin(), file.get_binary().end())
                  : file.is_string() ? file.get<std::string>()
                                     : file.dump();
  }
  return texts;
}

FolderFiles BytesFolder() {
  const Vocabulary vocabulary = MakeVocabulary("gpt-2", {"h e"}, {"<a>", "<b>"});
  json vocab = json::object();
  json added = json::array();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    if (i < 257) vocab[token] = i;
    if (i >= 257) added.push_back({{"id", i}, {"content", token}, {"special", true}});
  }
  const json pre = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {{"tokenizer.json",
           {{"added_tokens", added},
            {"pre_tokenizer", pre},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", vocabulary.merges}}}}}};
}

FolderFiles PiecesFolder() {
  const std::string model =
      ModelOfPieces(MakeSentencePieceVocabulary("llama", {"▁", "h", "i", "▁h", "hi", "▁hi"}));
  return {{"tokenizer.model", json::binary({model.begin(), model.end()})},
          {"tokenizer_config.json", {{"tokenizer_class", "LlamaTokenizer"}}}};
}

std::vector<TokenId> IdsIn(const FolderFiles& files, const std::string& text) {
  StatusOr<Vocabulary> read = ReadHfVocabulary(TextsOf(files));
  EXPECT_TRUE(read.ok()) << read.status().message();
  if (!read.ok()) return {};
  const auto tokenizer = MakeTokenizer(*std::move(read));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? (*tokenizer)->Encode(text, {}) : std::vector<TokenId>();
}

}  // namespace ropeway::tokenizer
