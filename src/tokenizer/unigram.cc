#include "tokenizer/unigram.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/char_map.h"
#include "tokenizer/characters.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/sentencepiece_text.h"
#include "tokenizer/special_tokens.h"

namespace ropeway::tokenizer {
namespace {

// What a character without a token costs beyond the worst token.
constexpr double kUnknownPenalty = 10.0;

class Unigram final : public TextModel {
 public:
  Unigram(const Vocabulary& vocabulary, const TokenTable* table, CharMap char_map)
      : table_(*table),
        prefix_(vocabulary.space_prefix),
        remove_extra_spaces_(vocabulary.remove_extra_spaces),
        unknown_(*vocabulary.unk),
        scores_(vocabulary.scores),
        char_map_(std::move(char_map)) {
    double worst = std::numeric_limits<double>::max();
    for (TokenId id = 0; id < static_cast<TokenId>(table->size()); ++id) {
      const std::string_view text = table->Text(id);
      if (table->Type(id) != TokenType::kNormal || text.empty()) continue;
      worst = std::min(worst, Score(id));
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
  bool AddsSpace(Before before) const override { return MayHaveSpacePrefix(prefix_, before); }

  const TokenTable& table() const { return table_; }
  SpacePrefix prefix() const { return prefix_; }
  bool remove_extra_spaces() const { return remove_extra_spaces_; }
  TokenId unknown() const { return unknown_; }
  double unknown_score() const { return unknown_score_; }
  double Score(TokenId id) const { return scores_[static_cast<size_t>(id)]; }
  const CharMap& char_map() const { return char_map_; }
  const WordBounds& bounds() const { return bounds_; }
  const ByteTrie& trie() const { return trie_; }
  // The token of a node of the trie; -1: none.
  TokenId TokenOf(uint32_t node) const { return tokens_[node]; }

 private:
  const TokenTable& table_;
  const SpacePrefix prefix_;
  const bool remove_extra_spaces_;
  const TokenId unknown_;
  const std::vector<float> scores_;
  const CharMap char_map_;
  WordBounds bounds_;
  ByteTrie trie_;
  std::vector<TokenId> tokens_;
  double unknown_score_ = 0;
};

// Normalizes a text, word by word.
class UnigramText {
 public:
  explicit UnigramText(const Unigram* model) : model_(*model) {}

  void Begin(std::string_view text, Before before) {
    text_ = text;
    at_ = 0;
    letters_ = {};
    prefix_ = MayHaveSpacePrefix(model_.prefix(), before);
    any_ = before == Before::kText;
    owes_space_ = false;
    word_.clear();
  }

  // Goes on until the next word is whole. Returns whether it is; false: no work is left. It is
  // empty where there are no more.
  bool Next(Work* work) {
    while (!letters_.empty() || at_ < text_.size()) {
      if (!work->left()) return false;
      if (letters_.empty()) TakeLetters(work);
      if (TakeLetter()) return true;
    }
    EndText();
    return true;
  }

  const std::string& word() const { return word_; }
  // The word is not needed any more.
  void Drop() { word_.clear(); }

 private:
  // What the next bytes of the text are normalized to.
  void TakeLetters(Work* work) {
    const CharMap::Mapping mapping = model_.char_map().Find(text_, at_);
    if (mapping.length > 0) {
      letters_ = mapping.to;
      at_ += mapping.length;
      work->Spend(1 + mapping.length);
      return;
    }
    const base::Utf8Step step = base::StepUtf8(text_, at_);
    const bool valid = step.kind == base::Utf8Kind::kValid;
    letters_ = valid ? text_.substr(at_, step.length) : base::kReplacementCharacter;
    at_ += valid ? step.length : 1;
    work->Spend(1);
  }

  // Adds the next letter to the word; or returns true, where the word ends before it.
  bool TakeLetter() {
    if (letters_.empty()) return false;
    const std::string_view letter = letters_.substr(0, CharacterLength(letters_, 0));
    const bool space = letter == " ";
    if (space && model_.remove_extra_spaces()) {
      owes_space_ = any_;
      letters_.remove_prefix(1);
      return false;
    }
    const bool symbol = space || letter == kSpaceSymbol;
    if (std::exchange(prefix_, false)) {
      owes_space_ = model_.prefix() == SpacePrefix::kEach || !symbol;
    }
    if (owes_space_) {
      if (EndsWord()) return true;
      word_ += kSpaceSymbol;
      owes_space_ = false;
    }
    if (symbol && EndsWord()) return true;
    word_ += space ? kSpaceSymbol : letter;
    letters_.remove_prefix(letter.size());
    any_ = true;
    return false;
  }

  // Whether the word ends before a space.
  bool EndsWord() const {
    return !word_.empty() && model_.bounds().MayCutAfter(static_cast<uint8_t>(word_.back()));
  }

  void EndText() {
    if (!model_.remove_extra_spaces()) return;
    while (word_.ends_with(kSpaceSymbol)) word_.resize(word_.size() - kSpaceSymbol.size());
  }

  const Unigram& model_;
  std::string_view text_;
  size_t at_ = 0;             // Up to where the text was normalized.
  std::string_view letters_;  // What of that is in no word yet.
  bool prefix_ = false;       // A space may have to come first.
  bool any_ = false;          // Something came before.
  bool owes_space_ = false;   // A space comes before the next letter.
  std::string word_;
};

// Finds the best division of each word (Viterbi): for each end of a beginning of the word, the best
// last token.
class UnigramEncoder final : public SegmentEncoder {
 public:
  explicit UnigramEncoder(const Unigram* model) : model_(*model), text_(model) {}

  void Begin(std::string_view text, Before before) override {
    text_.Begin(text, before);
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
        text_.Drop();
        stage_ = Stage::kWord;
      }
    }
    return true;
  }

  size_t bytes() const override {
    return best_.capacity() * sizeof(Best) + path_.capacity() * sizeof(uint32_t);
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
      Offer(end, before + model_.Score(id), id);
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
    bool unknown = false;
    for (size_t i = path_.size(); i > 0; --i) {
      const Best& best = best_[path_[i - 1]];
      if (best.id != model_.unknown()) {
        ids->push_back(best.id);
        unknown = false;
      } else if (!AppendBytes(word.substr(best.from, path_[i - 1] - best.from), ids)) {
        if (!std::exchange(unknown, true)) ids->push_back(best.id);
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
  UnigramText text_;
  Stage stage_ = Stage::kEnd;
  std::vector<Best> best_;  // By the end of the beginning.
  size_t begin_ = 0;        // Tokens that begin before it have been looked at.
  std::vector<uint32_t> path_;
};

std::unique_ptr<SegmentEncoder> Unigram::NewEncoder() const {
  return std::make_unique<UnigramEncoder>(this);
}

}  // namespace

StatusOr<std::unique_ptr<const TextModel>> MakeUnigram(const Vocabulary& vocabulary,
                                                       const TokenTable* table) {
  if (Status status = CheckScores(vocabulary.scores, *table); !status.ok()) return status;
  if (!vocabulary.unk.has_value()) {
    return VocabularyError("tokenizer.ggml.unknown_token_id", "it is missing");
  }
  StatusOr<CharMap> char_map = CharMap::Create(vocabulary.char_map);
  if (!char_map.ok()) return char_map.status();
  return std::unique_ptr<const TextModel>(
      std::make_unique<Unigram>(vocabulary, table, *std::move(char_map)));
}

}  // namespace ropeway::tokenizer
