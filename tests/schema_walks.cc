// Random outputs of schemas' grammars, for tests that validate them (schemas_test.py):
//
//   schema_walks --model FILE [--walks N] [--seed S] [--max-tokens M]
//
// Reads lines {"name", "schema"} and writes a line for each: {"name", "error"} for a schema that is
// rejected, else {"name", "work", "bytes", "compile_ms", "mask_us": {"median", "p99"}, "texts",
// "cut", "failed"}. Each of the N walks chooses tokens among those that the masks allow, and is a
// text if it ends, counts as cut if it reaches M tokens, and fails with a message if a mask is
// empty or an error. The same seed gives the same texts. The model's weights are not read.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/words.h"
#include "engine/model_vocabulary.h"
#include "grammar/grammar.h"
#include "grammar/schema_ebnf.h"
#include "model/gguf.h"

namespace ropeway::test {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  uint64_t walks = 4;
  uint64_t seed = 1;
  uint64_t max_tokens = 400;
};

// The walks of one schema.
struct Outcome {
  std::vector<std::string> texts;
  int cut = 0;
  std::vector<std::string> failed;
  std::vector<double> mask_us;
};

double MicrosSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// Where a JSON text stands: inside a string or not.
class StringState {
 public:
  void Pass(std::string_view text) {
    for (const char c : text) {
      if (escaped_) {
        escaped_ = false;
      } else if (inside_ && c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        inside_ = !inside_;
      }
    }
  }
  bool inside() const { return inside_; }

 private:
  bool inside_ = false;
  bool escaped_ = false;
};

class Walker {
 public:
  Walker(std::unique_ptr<tokenizer::Tokenizer> tokenizer,
         std::shared_ptr<const grammar::Vocabulary> vocabulary)
      : tokenizer_(std::move(tokenizer)), vocabulary_(std::move(vocabulary)) {
    for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
      const std::string_view text = tokenizer_->IsEnd(id) ? "" : tokenizer_->Bytes(id);
      inside_rank_.push_back(InsideRank(text));
      outside_rank_.push_back(OutsideRank(text));
    }
  }

  const std::shared_ptr<const grammar::Vocabulary>& vocabulary() const { return vocabulary_; }

  void Walk(const std::shared_ptr<const grammar::Grammar>& grammar, uint64_t max_tokens,
            base::Random* random, Outcome* outcome) const {
    grammar::Matcher matcher(grammar);
    std::vector<uint32_t> mask(vocabulary_->mask_words());
    StringState state;
    std::string text;
    for (uint64_t step = 0; step < max_tokens; ++step) {
      const Clock::time_point begin = Clock::now();
      Status status = matcher.Mask(mask);
      outcome->mask_us.push_back(MicrosSince(begin));
      // From a tenth at first to always in the second half.
      const double hurry = 0.1 + 1.8 * static_cast<double>(step) / static_cast<double>(max_tokens);
      const std::optional<TokenId> id = Choose(mask, state, random->Chance(hurry), random);
      if (status.ok() && !id) status = InvalidArgument("no token is allowed behind " + text);
      if (status.ok()) status = matcher.Accept(*id);
      if (!status.ok()) {
        outcome->failed.push_back(status.message());
        return;
      }
      if (matcher.ended()) {
        outcome->texts.push_back(text);
        return;
      }
      text += tokenizer_->Bytes(*id);
      state.Pass(tokenizer_->Bytes(*id));
    }
    ++outcome->cut;
  }

 private:
  static constexpr int kRanks = 12;

  // The lower the rank, the sooner a string ends.
  static int8_t InsideRank(std::string_view text) { return text.starts_with('"') ? 0 : 1; }

  // The lower the rank, the sooner a value ends. An end of generation has no text.
  static int8_t OutsideRank(std::string_view text) {
    constexpr std::string_view kOrder = "}]ntf0\"[{,";
    if (text.empty()) return 0;
    const size_t rank = kOrder.find(text[0]);
    return rank == std::string_view::npos ? kRanks - 1 : static_cast<int8_t>(rank + 1);
  }

  // A random one of the allowed tokens; in a hurry, of those that end the text soonest.
  std::optional<TokenId> Choose(const std::vector<uint32_t>& mask, const StringState& state,
                                bool hurry, base::Random* random) const {
    const std::vector<int8_t>& rank = state.inside() ? inside_rank_ : outside_rank_;
    std::vector<TokenId> allowed;
    int best = kRanks;
    for (size_t word = 0; word < mask.size(); ++word) {
      for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
        const size_t id = word * 32 + static_cast<size_t>(std::countr_zero(bits));
        if (hurry && rank[id] > best) continue;
        if (hurry && rank[id] < best) allowed.clear();
        best = rank[id];
        allowed.push_back(static_cast<TokenId>(id));
      }
    }
    if (allowed.empty()) return std::nullopt;
    return allowed[random->Below(allowed.size())];
  }

  const std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  const std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  std::vector<int8_t> inside_rank_;  // By id.
  std::vector<int8_t> outside_rank_;
};

StatusOr<std::unique_ptr<Walker>> MakeWalker(const std::string& model) {
  auto file = model::GgufFile::Open(model);
  if (!file.ok()) return file.status();
  auto tokenizer = engine::LoadTokenizer(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  auto vocabulary = grammar::Vocabulary::Make(**tokenizer);
  if (!vocabulary.ok()) return vocabulary.status();
  return std::make_unique<Walker>(*std::move(tokenizer), *std::move(vocabulary));
}

// The value at a share of the sorted list.
double Percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(share * double(sorted.size() - 1))];
}

Json WalkSchema(const Walker& walker, const Options& options, uint64_t seed, const Json& entry) {
  Json line = {{"name", entry.at("name")}};
  const Clock::time_point begin = Clock::now();
  const StatusOr<std::string> ebnf = grammar::SchemaToEbnf(entry.at("schema"));
  if (!ebnf.ok()) {
    line["error"] = ebnf.status().message();
    return line;
  }
  const auto grammar = grammar::Grammar::Compile(walker.vocabulary(), *ebnf);
  if (!grammar.ok()) {
    line["error"] = grammar.status().message();
    return line;
  }
  line["work"] = (*grammar)->work();
  line["bytes"] = (*grammar)->bytes();
  line["compile_ms"] = MicrosSince(begin) / 1000;
  Outcome outcome;
  for (uint64_t walk = 0; walk < options.walks; ++walk) {
    base::SeededRandom random(base::Mix64(seed, walk));
    walker.Walk(*grammar, options.max_tokens, &random, &outcome);
  }
  std::sort(outcome.mask_us.begin(), outcome.mask_us.end());
  line["mask_us"] = {{"median", Percentile(outcome.mask_us, 0.5)},
                     {"p99", Percentile(outcome.mask_us, 0.99)}};
  line["texts"] = outcome.texts;
  line["cut"] = outcome.cut;
  line["failed"] = outcome.failed;
  return line;
}

std::optional<Options> ReadOptions(int argc, char** argv) {
  Options options;
  const std::array<std::pair<std::string, uint64_t*>, 3> numbers = {
      {{"--walks", &options.walks},
       {"--seed", &options.seed},
       {"--max-tokens", &options.max_tokens}}};
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return std::nullopt;
    if (name == "--model") {
      options.model = argv[i + 1];
      continue;
    }
    const auto number = std::find_if(numbers.begin(), numbers.end(),
                                     [&](const auto& each) { return each.first == name; });
    const auto value = base::ParseNumber<uint64_t>(argv[i + 1]);
    if (number == numbers.end() || !value) return std::nullopt;
    *number->second = *value;
  }
  if (options.model.empty()) return std::nullopt;
  return options;
}

int Main(const Options& options) {
  const auto walker = MakeWalker(options.model);
  if (!walker.ok()) {
    std::cerr << "schema_walks: " << walker.status().message() << "\n";
    return 1;
  }
  uint64_t lines = 0;
  for (std::string text; std::getline(std::cin, text);) {
    const Json entry = Json::parse(text);
    const uint64_t seed = base::Mix64(options.seed, ++lines);
    // A text that is no UTF-8 ends the program, as it is a bug.
    std::cout << WalkSchema(**walker, options, seed, entry).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace ropeway::test

int main(int argc, char** argv) {
  const auto options = ropeway::test::ReadOptions(argc, argv);
  if (!options) {
    std::cerr << "usage: schema_walks --model FILE [--walks N] [--seed S] [--max-tokens M]\n";
    return 2;
  }
  return ropeway::test::Main(*options);
}
