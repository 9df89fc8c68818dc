#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/characters.h"
#include "tokenizer/piece_merger.h"
#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

// What a character without a token costs beyond the worst token.
constexpr double kUnknownPenalty = 10.0;
// What a symbol gains for each of its bytes but one, as in sentencepiece 0.2.3.
constexpr double kSymbolGain = 0.1;

class Unigram final : public TextModel {
 public:
  Unigram(const Vocabulary& vocabulary, const TokenTable* table, SentencePieceRules rules)
      : table_(*table),
        unknown_(*vocabulary.unk),
        scores_(vocabulary.scores),
        rules_(std::move(rules)) {
    double worst = std::numeric_limits<double>::max();
    for (TokenId id = 0; id < static_cast<TokenId>(table->size()); ++id) {
      const std::string_view text = table->Text(id);
      const bool normal = table->Type(id) == TokenType::kNormal;
      if ((!normal && table->Type(id) != TokenType::kSymbol) || text.empty()) continue;
      if (normal) worst = std::min(worst, Score(id));
      bounds_.Add(text);
      const uint32_t node = trie_.Add(text);
      tokens_.resize(trie_.nodes(), -1);
      if (tokens_[node] < 0) tokens_[node] = id;
    }
    unknown_score_ = worst - kUnknownPenalty;
  }

  std::unique_ptr<SegmentEncoder> NewEncoder() const override;
  // What is normalized, and unknown, may be any number of bytes.
  bool Counts(uint8_t /*byte*/) const override { return false; }
  bool AddsSpace(Before before) const override {
    return MayHaveSpacePrefix(rules_.prefix(), before);
  }

  const TokenTable& table() const { return table_; }
  TokenId unknown() const { return unknown_; }
  double unknown_score() const { return unknown_score_; }
  double Score(TokenId id) const { return scores_[static_cast<size_t>(id)]; }
  // What the token adds to a sum; of a symbol so much that nearly always it is taken.
  double Gain(TokenId id) const {
    if (table_.Type(id) != TokenType::kSymbol) return Score(id);
    return kSymbolGain * static_cast<double>(table_.Text(id).size() - 1);
  }
  const SentencePieceRules& rules() const { return rules_; }
  const WordBounds& bounds() const { return bounds_; }
  const ByteTrie& trie() const { return trie_; }
  // The token of a node of the trie; -1: none.
  TokenId TokenOf(uint32_t node) const { return tokens_[node]; }

 private:
  const TokenTable& table_;
  const TokenId unknown_;
  const std::vector<float> scores_;
  const SentencePieceRules rules_;
  WordBounds bounds_;
  ByteTrie trie_;
  std::vector<TokenId> tokens_;
  double unknown_score_ = 0;
};

// Finds the best division of each word (Viterbi): for each end of a beginning of the word, the best
// last token.
class UnigramEncoder final : public SegmentEncoder {
 public:
  explicit UnigramEncoder(const Unigram* model)
      : model_(*model), text_(&model->rules(), &model->bounds()) {}

  void Begin(std::string_view text, Before before) override {
    text_.Begin(text, before);
    unknown_ = false;
    stage_ = Stage::kWord;
  }

  bool Run(Work* work, std::vector<TokenId>* ids) override {
    while (stage_ != Stage::kEnd) {
      if (!work->left()) return false;
      if (stage_ == Stage::kWord) {
        if (!text_.Next(work)) return false;
        StartWord();
      } else if (begin_ < text_.word().size()) {
        Extend(work);
      } else {
        work->Spend(text_.word().size());
        AppendBest(ids);
        stage_ = Stage::kWord;
      }
    }
    return true;
  }

  size_t bytes() const override {
    return best_.capacity() * sizeof(Best) + path_.capacity() * sizeof(uint32_t) + text_.bytes();
  }

 private:
  enum class Stage {
    kWord,    // The next word.
    kDivide,  // Its division.
    kEnd,
  };

  // The best division of a beginning of the word, by its last token.
  struct Best {
    double score = 0;
    uint32_t from = 0;  // Where that token begins.
    TokenId id = -1;    // -1: there is no division yet.
  };
  // What a word may leave allocated.
  static constexpr size_t kMostKept = size_t{1} << 16U;

  void StartWord() {
    if (text_.word().empty()) {
      stage_ = Stage::kEnd;
      return;
    }
    best_.assign(text_.word().size() + 1, Best());
    begin_ = 0;
    stage_ = Stage::kDivide;
  }

  // Looks at all tokens that begin at begin_.
  void Extend(Work* work) {
    const std::string_view word = text_.word();
    const size_t character = CharacterLength(word, begin_);
    const double before = best_[begin_].score;
    bool whole_character = false;
    uint32_t node = ByteTrie::kRoot;
    size_t end = begin_;
    while (end < word.size()) {
      node = model_.trie().Child(node, static_cast<uint8_t>(word[end]));
      if (node == ByteTrie::kNone) break;
      ++end;
      const TokenId id = model_.TokenOf(node);
      if (id < 0) continue;
      Offer(end, before + model_.Gain(id), id);
      whole_character |= end - begin_ == character;
    }
    if (!whole_character) {
      Offer(begin_ + character, before + model_.unknown_score(), model_.unknown());
    }
    work->Spend(1 + end - begin_);
    begin_ += character;
  }

  void Offer(size_t end, double score, TokenId id) {
    Best& best = best_[end];
    if (best.id < 0 || score > best.score) {
      best = {score, static_cast<uint32_t>(begin_), id};
    }
  }

  void AppendBest(std::vector<TokenId>* ids) {
    const std::string_view word = text_.word();
    path_.clear();
    for (size_t end = word.size(); end > 0; end = best_[end].from) {
      path_.push_back(static_cast<uint32_t>(end));
    }
    for (size_t i = path_.size(); i > 0; --i) {
      const Best& best = best_[path_[i - 1]];
      if (best.id != model_.unknown()) {
        ids->push_back(best.id);
        unknown_ = false;
      } else if (!AppendBytes(word.substr(best.from, path_[i - 1] - best.from), ids)) {
        if (!std::exchange(unknown_, true)) ids->push_back(best.id);
      }
    }
    if (best_.capacity() > kMostKept) {
      std::vector<Best>().swap(best_);
      std::vector<uint32_t>().swap(path_);
    }
  }

  bool AppendBytes(std::string_view letter, std::vector<TokenId>* ids) const {
    for (const char byte : letter) {
      if (model_.table().ByteToken(static_cast<uint8_t>(byte)) < 0) return false;
    }
    for (const char byte : letter) {
      ids->push_back(model_.table().ByteToken(static_cast<uint8_t>(byte)));
    }
    return true;
  }

  const Unigram& model_;
  NormalizedWords text_;
  Stage stage_ = Stage::kEnd;
  std::vector<Best> best_;  // By the end of the beginning.
  size_t begin_ = 0;        // Tokens that begin before it have been looked at.
  std::vector<uint32_t> path_;
  bool unknown_ = false;  // The last id is the unknown one.
};

std::unique_ptr<SegmentEncoder> Unigram::NewEncoder() const {
  return std::make_unique<UnigramEncoder>(this);
}

}  // namespace

StatusOr<std::unique_ptr<const TextModel>> MakeUnigram(const Vocabulary& vocabulary,
                                                       const TokenTable* table) {
  if (Status status = CheckScores(vocabulary.scores, *table); !status.ok()) return status;
  if (!vocabulary.unk.has_value()) {
    return VocabularyError("tokenizer.ggml.unknown_token_id", "is missing");
  }
  StatusOr<SentencePieceRules> rules = SentencePieceRules::Create(vocabulary, table);
  if (!rules.ok()) return rules.status();
  return std::unique_ptr<const TextModel>(
      std::make_unique<Unigram>(vocabulary, table, *std::move(rules)));
}

}  // namespace ropeway::tokenizer
