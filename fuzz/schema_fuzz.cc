// A JSON Schema: converted to a grammar, which is compiled with a small vocabulary and walked at
// random. Each text at which a walk may end is JSON, and no walk comes to a place where nothing is
// allowed.
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "fuzz/fuzz_target.h"
#include "grammar/grammar.h"
#include "grammar/schema_ebnf.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::fuzz {
namespace {

constexpr int kWalks = 2;
constexpr int kWalkTokens = 120;
// Less than a server allows, so that many schemas are tried.
constexpr int64_t kWork = 300'000;
// Larger grammars are not compiled: with sanitizers, 20 KB take 15 s.
constexpr size_t kMostCompiledBytes = 4'000;
// Processor time of a conversion. Sanitizers take a multiple of the second that is meant.
constexpr double kMostSeconds = 10;

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Words {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
};

// Bytes, a few pairs of them, and an end.
const Words& SmallWords() {
  static const Words words = [] {
    tokenizer::Vocabulary vocabulary = tokenizer::MakeVocabulary(
        "gpt-2", {"\" }", "\" ]", "\" ,", "\" :", ": \"", "\\ u", "\\ \"", "Ġ {", "{ \"", "1 2"},
        {"<|end|>"});
    vocabulary.eos = static_cast<TokenId>(vocabulary.tokens.size() - 1);
    auto tokenizer = tokenizer::MakeTokenizer(std::move(vocabulary));
    Require(tokenizer.ok(), "the vocabulary is wrong");
    auto prepared = grammar::Vocabulary::Make(**tokenizer);
    Require(prepared.ok(), "the vocabulary cannot be prepared");
    return Words{*std::move(tokenizer), *std::move(prepared)};
  }();
  return words;
}

// A random token of a mask; with `closing`, one that begins with a closing sign if there is one.
std::optional<TokenId> Choose(const std::vector<uint32_t>& mask, bool closing,
                              base::Random* random) {
  constexpr std::string_view kClosing = "\"}]";
  std::vector<TokenId> allowed;
  std::vector<TokenId> preferred;
  for (TokenId id = 0; id < SmallWords().vocabulary->size(); ++id) {
    if ((mask[static_cast<size_t>(id) / 32] >> (static_cast<size_t>(id) % 32) & 1) == 0) continue;
    allowed.push_back(id);
    const std::string_view text = SmallWords().tokenizer->Bytes(id);
    const bool ends = SmallWords().tokenizer->IsEnd(id);
    if (ends || kClosing.find(text[0]) != std::string_view::npos) preferred.push_back(id);
  }
  const std::vector<TokenId>& from = closing && !preferred.empty() ? preferred : allowed;
  if (from.empty()) return std::nullopt;
  return from[random->Below(from.size())];
}

void Walk(const std::shared_ptr<const grammar::Grammar>& grammar, base::Random* random) {
  grammar::Matcher matcher(grammar);
  std::vector<uint32_t> mask(grammar->vocabulary().mask_words());
  std::string text;
  for (int step = 0; step < kWalkTokens; ++step) {
    if (!matcher.Mask(mask, kWork).ok()) return;  // Too much work.
    const auto id = Choose(mask, random->Chance(0.5), random);
    Require(id.has_value(), "nothing is allowed behind " + text);
    const Status accepted = matcher.Accept(*id, kWork);
    if (!accepted.ok()) {
      Require(accepted.message().find("too much work") != std::string::npos,
              "an allowed token is not accepted behind " + text);
      return;
    }
    if (matcher.ended()) return;
    text += SmallWords().tokenizer->Bytes(*id);
    Require(!matcher.complete() || nlohmann::json::accept(text), "no JSON: " + text);
  }
}

void CheckSchema(std::string_view text, uint64_t seed) {
  // What servers read; the order of keys matters, which that reader does not keep.
  const base::JsonBounds bounds{.max_depth = 100, .max_values = 20'000, .repeated_keys = true};
  if (!base::ReadJson(text, bounds, "the schema").ok()) return;
  const auto schema = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  Require(!schema.is_discarded(), "two readers disagree");
  const double begin = ProcessorSeconds();
  const StatusOr<std::string> ebnf = grammar::SchemaToEbnf(schema);
  Require(ProcessorSeconds() - begin < kMostSeconds, "the conversion takes too long");
  if (!ebnf.ok()) {
    RequireError(ebnf.status());
    return;
  }
  Require(ebnf->size() <= grammar::kMaxEbnfBytes, "a long grammar");
  if (ebnf->size() > kMostCompiledBytes) return;
  const auto grammar = grammar::Grammar::Compile(SmallWords().vocabulary, *ebnf, 10 * kWork);
  if (!grammar.ok()) {
    Require(grammar.status().message().find("too much work") != std::string::npos,
            "the grammar cannot be compiled: " + grammar.status().message());
    return;
  }
  base::SeededRandom random(seed);
  for (int walk = 0; walk < kWalks; ++walk) Walk(*grammar, &random);
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t seed = size;
  for (size_t i = 0; i < size; ++i) seed = seed * 31 + data[i];
  ropeway::fuzz::CheckSchema({reinterpret_cast<const char*>(data), size}, seed);
  return 0;
}
