// The tokenizer's files of a model folder: tokenizer.json (or SentencePiece's tokenizer.model),
// tokenizer_config.json and generation_config.json, and the tokenizer that they make.
//
// An input is up to three texts with a NUL byte between them, in this order. Where the first does
// not begin with '{', it is a tokenizer.model, and has all bytes up to the last two NULs.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/fuzz_target.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/make_tokenizer.h"

namespace ropeway::fuzz {
namespace {

constexpr size_t kRows = 300;
constexpr std::string_view kText = "Hello <|im_start|> w\xC3\xB6rld 123\n\n  it's <s>\xFF";

// Cuts the last text off.
std::string TakeLast(std::string_view* rest) {
  const size_t nul = rest->rfind('\0');
  if (nul == rest->npos) return "";
  const std::string last(rest->substr(nul + 1));
  *rest = rest->substr(0, nul);
  return last;
}

std::string TakeFirst(std::string_view* rest) {
  const size_t nul = std::min(rest->find('\0'), rest->size());
  const std::string first(rest->substr(0, nul));
  rest->remove_prefix(std::min(nul + 1, rest->size()));
  return first;
}

tokenizer::HfTokenizerFiles FilesOf(std::string_view input) {
  tokenizer::HfTokenizerFiles files;
  files.rows = kRows;
  if (input.starts_with('{')) {
    files.tokenizer_json = TakeFirst(&input);
    files.tokenizer_config = TakeFirst(&input);
    files.generation_config = TakeFirst(&input);
  } else {
    files.generation_config = TakeLast(&input);
    files.tokenizer_config = TakeLast(&input);
    files.tokenizer_model = input;
  }
  return files;
}

void CheckVocabulary(const tokenizer::Vocabulary& v) {
  Require(v.types.size() == v.tokens.size(), "a type for each token");
  Require(v.scores.empty() || v.scores.size() == v.tokens.size(), "a score for each token");
  const auto within = [&](TokenId id) {
    Require(id >= 0 && static_cast<size_t>(id) < v.tokens.size(), "an id outside the vocabulary");
  };
  for (const auto& id : {v.bos, v.eos, v.unk}) {
    if (id) within(*id);
  }
  for (const auto* ids : {&v.ends, &v.strip_left, &v.strip_right}) {
    for (const TokenId id : *ids) within(id);
  }
}

void CheckFiles(const tokenizer::HfTokenizerFiles& files) {
  auto vocabulary = tokenizer::ReadHfVocabulary(files);
  if (!vocabulary.ok()) {
    RequirePrintableError(vocabulary.status());
    return;
  }
  CheckVocabulary(*vocabulary);
  const auto parsed = tokenizer::ChatTemplate::Parse(vocabulary->chat_template);
  if (!parsed.ok()) RequirePrintableError(parsed.status());
  const auto tokenizer = tokenizer::MakeTokenizer(*std::move(vocabulary));
  if (!tokenizer.ok()) {
    RequirePrintableError(tokenizer.status());
    return;
  }
  try {
    for (const TokenId id : (*tokenizer)->Encode(kText, {})) {
      Require(id >= 0 && id < (*tokenizer)->vocab_size(), "an id outside the vocabulary");
    }
  } catch (const tokenizer::EncodingError&) {
    // A split pattern took too many steps.
  }
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ropeway::fuzz::CheckFiles(ropeway::fuzz::FilesOf({reinterpret_cast<const char*>(data), size}));
  return 0;
}
