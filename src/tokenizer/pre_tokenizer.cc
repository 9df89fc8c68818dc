#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::tokenizer {
namespace {

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using CodePtr = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchDataPtr = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContextPtr = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using JitStackPtr = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

constexpr size_t kFirstJitStackBytes = size_t{32} << 10U;

// The beginning of the first character at or after `at`.
size_t NextCharacter(std::string_view text, size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
  return std::min(at, text.size());
}

// After so many steps a match is left, so that others have their turn: about a millisecond.
constexpr size_t kStepsAtOnce = size_t{1} << 17U;

// What one look for a match takes.
struct StepCount {
  size_t most = 0;     // That are left.
  size_t from = 0;     // Where it began.
  size_t reached = 0;  // Where it was left: no match begins in [from, reached).
  size_t at = 0;       // Where the last step was.
  size_t steps = 0;
};

// Called before each item of a pattern that is tried, if its steps are counted. The bytes that lie
// between two such places were passed.
int CountStep(pcre2_callout_block* block, void* data) {
  auto* const count = static_cast<StepCount*>(data);
  const size_t at = block->current_position;
  count->steps += 1 + std::max(at, count->at) - std::min(at, count->at);
  count->at = at;
  if (count->steps > count->most) return PCRE2_ERROR_CALLOUT;
  if (count->steps <= kStepsAtOnce || block->start_match <= count->from) return 0;
  count->reached = block->start_match;
  return PCRE2_ERROR_CALLOUT;
}

// What no pattern may have, "" if `expression` has none of it: \K makes matches that begin before
// the place where they were looked for, and the others differ from the rules of `tokenizers`.
std::string_view ForbiddenIn(std::string_view expression) {
  constexpr std::array<std::string_view, 3> kEscapes = {"\\K", "\\Q", "\\c"};
  constexpr std::array<std::string_view, 2> kGroups = {"(*", "(?C"};
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const std::string_view rest = expression.substr(i);
    if (rest.front() == '\\') {
      for (const std::string_view escape : kEscapes) {
        if (rest.starts_with(escape)) return escape;
      }
      ++i;
      continue;
    }
    for (const std::string_view group : kGroups) {
      if (!in_class && rest.starts_with(group)) return group;
    }
    if (rest.front() == '[') in_class = true;
    if (rest.front() == ']') in_class = false;
  }
  return {};
}

// Replaces \s and \S: PCRE2's \s includes U+180E, which Unicode removed from White_Space in 6.3,
// and the engine that the patterns were written for follows Unicode.
std::string WithUnicodeSpace(std::string_view expression) {
  constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char escaped = expression[++i];
      const std::string open = escaped == 'S' ? "[^" : "[";
      if (escaped == 's' && in_class) {
        out += kSpace;
      } else if (escaped == 'S' && in_class) {
        out += R"(\S)";
      } else if (escaped == 's' || escaped == 'S') {
        out.append(open).append(kSpace).append("]");
      } else {
        out.append({c, escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

// Appends all pieces to come.
template <typename Walk>
void WalkAll(Walk* walk, std::vector<std::string_view>* pieces) {
  std::string_view piece;
  SplitStep step = SplitStep::kPause;
  while (step != SplitStep::kEnd) {
    Work all(SIZE_MAX);
    step = walk->Next(&all, &piece);
    if (step == SplitStep::kPiece) pieces->push_back(piece);
  }
}

}  // namespace

struct SplitPattern::Code {
  CodePtr pcre;
  SplitUnit unit = SplitUnit::kCharacters;
};

// PCRE2's match state must not be shared between threads, so each walk has its own; the large JIT
// stack is only allocated when a match needs it.
class SplitPattern::Matcher {
 public:
  // `steps`: those that are left to all of its walk; it must outlive this.
  Matcher(std::shared_ptr<const Code> code, const Limits& limits, size_t* steps)
      : code_(std::move(code)),
        limits_(limits),
        steps_(*steps),
        data_(pcre2_match_data_create_from_pattern(code_->pcre.get(), nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
    pcre2_set_heap_limit(context_.get(), limits.heap_limit_kib);
    pcre2_set_match_limit(context_.get(), limits.match_limit);
    pcre2_set_depth_limit(context_.get(), limits.match_limit);
    if (limits.counts_steps) pcre2_set_callout(context_.get(), &CountStep, &count_);
  }

  void Begin(std::string_view text) {
    text_ = text;
    at_ = looked_ = 0;
    found_ = false;
  }

  // The next match, or stretch between matches.
  SplitStep Next(Work* work, std::string_view* piece) {
    if (at_ == text_.size()) return SplitStep::kEnd;
    while (!found_) {
      if (!work->left()) return SplitStep::kPause;
      Look(work);
    }
    const bool stretch = begin_ > at_;
    const size_t end = stretch ? begin_ : end_;
    *piece = text_.substr(at_, end - at_);
    at_ = end;
    if (stretch && begin_ < end_) return SplitStep::kPiece;
    looked_ = at_;
    found_ = false;
    return SplitStep::kPiece;
  }

  const Detours& detours() const { return detours_; }

 private:
  // Looks for a match that begins in the next window.
  void Look(Work* work) {
    const size_t last = looked_ + work->window();
    count_ = {.most = steps_, .from = looked_, .reached = looked_, .at = looked_};
    const int result = Match(looked_, std::min(last, text_.size()));
    steps_ -= std::min(count_.steps, steps_);
    if (result > 0) {
      TakeMatch();
      work->SpendScan(std::max(count_.steps, end_ - looked_));
      return;
    }
    if (result == PCRE2_ERROR_CALLOUT && count_.reached > looked_) {
      looked_ = count_.reached;
      work->SpendScan(count_.steps);
      return;
    }
    if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (result != PCRE2_ERROR_NOMATCH) {
      throw EncodingError(
          "the split patterns of the model's tokenizer take too many steps for this text of " +
          std::to_string(text_.size()) + " bytes");
    }
    work->SpendScan(std::max(count_.steps, std::min(last, text_.size()) - looked_));
    if (last >= text_.size()) {
      begin_ = end_ = text_.size();
      found_ = true;
      return;
    }
    looked_ = code_->unit == SplitUnit::kBytes ? last + 1 : NextCharacter(text_, last + 1);
  }

  void TakeMatch() {
    const size_t* const ends = pcre2_get_ovector_pointer(data_.get());
    // Else the walk would not go on.
    if (ends[0] < looked_ || ends[1] <= ends[0] || ends[1] > text_.size()) {
      throw EncodingError(
          "a split pattern of the model's tokenizer has a match that is empty or begins outside of "
          "the text");
    }
    begin_ = ends[0];
    end_ = ends[1];
    found_ = true;
  }

  // A match that begins in [at, last].
  int Match(size_t at, size_t last) {
    pcre2_set_offset_limit(context_.get(), last);
    int result = MatchOnce(at, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && jit_stack_ == nullptr) {
      ++detours_.large_stack;
      jit_stack_.reset(
          pcre2_jit_stack_create(std::min(kFirstJitStackBytes, limits_.jit_stack_bytes),
                                 limits_.jit_stack_bytes, nullptr));
      if (jit_stack_ != nullptr) {
        pcre2_jit_stack_assign(context_.get(), nullptr, jit_stack_.get());
        result = MatchOnce(at, 0);
      }
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      ++detours_.interpreted;
      result = MatchOnce(at, PCRE2_NO_JIT);
    }
    return result;
  }

  int MatchOnce(size_t at, uint32_t options) {
    // Without NO_UTF_CHECK each match would check the whole text again: quadratic.
    return pcre2_match(code_->pcre.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                       at, options | PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK, data_.get(),
                       context_.get());
  }

  const std::shared_ptr<const Code> code_;
  const Limits limits_;
  size_t& steps_;
  StepCount count_;  // The last look's.
  MatchDataPtr data_;
  MatchContextPtr context_;
  JitStackPtr jit_stack_;
  Detours detours_;

  std::string_view text_;
  size_t at_ = 0;      // The end of what was given out.
  size_t looked_ = 0;  // No match begins in [at_, looked_).
  bool found_ = false;
  size_t begin_ = 0;  // Where the next match begins, if found_; else the end of the text.
  size_t end_ = 0;    // The end of that match, or of the text.
};

SplitPattern::SplitPattern(std::shared_ptr<const Code> code, Limits limits)
    : code_(std::move(code)), limits_(limits) {}

StatusOr<SplitPattern> SplitPattern::Create(const std::string& expression, Limits limits,
                                            SplitUnit unit) {
  if (const std::string_view found = ForbiddenIn(expression); !found.empty()) {
    return InvalidArgument("the pattern has " + std::string(found) + ", which is not supported");
  }
  int error = 0;
  size_t where = 0;
  // \C would cut characters, and what comes after believes in whole ones.
  const uint32_t options = PCRE2_USE_OFFSET_LIMIT | PCRE2_NEVER_BACKSLASH_C |
                           (limits.counts_steps ? PCRE2_AUTO_CALLOUT : 0U) |
                           (unit == SplitUnit::kCharacters ? PCRE2_UTF | PCRE2_UCP : 0U);
  CodePtr pcre(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                             options, &error, &where, nullptr));
  if (pcre == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return InvalidArgument("the pattern is invalid at byte " + std::to_string(where) + ": " +
                           reinterpret_cast<const char*>(text.data()));
  }
  // Without JIT for this machine the pieces are the same, only slower.
  pcre2_jit_compile(pcre.get(), PCRE2_JIT_COMPLETE);
  auto code = std::make_shared<Code>();
  code->pcre = std::move(pcre);
  code->unit = unit;
  return SplitPattern(std::move(code), limits);
}

SplitPattern::Detours SplitPattern::Split(const std::vector<std::string_view>& texts,
                                          std::vector<std::string_view>& pieces) const {
  size_t steps = kSteps;
  Matcher matcher(code_, limits_, &steps);
  for (const std::string_view text : texts) {
    steps += kStepsPerByte * text.size();
    matcher.Begin(text);
    WalkAll(&matcher, &pieces);
  }
  return matcher.detours();
}

StatusOr<PreTokenizer> PreTokenizer::Create(const std::string& name) {
  const SplitFamily* const family = FindSplitFamily(name);
  if (family == nullptr) {
    return Status(StatusCode::kUnimplemented,
                  "tokenizer.ggml.pre: \"" + base::PrintableText(name.substr(0, 64)) +
                      "\" is not supported; supported: " + SplitFamilyNames(),
                  "tokenizer.ggml.pre");
  }
  PreTokenizer result;
  for (const SplitExpression& expression : family->expressions) {
    const Status status = result.Add(expression.text, expression.unit, false);
    if (!status.ok()) return Status(StatusCode::kInternal, status.message());
  }
  result.ignore_merges_ = family->ignore_merges;
  result.adds_bos_ = family->adds_bos;
  return result;
}

StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<std::string>& patterns,
                                            bool ignore_merges) {
  PreTokenizer result;
  for (const std::string& pattern : patterns) {
    // Those of the families pass each byte a few times.
    const bool counts_steps = !IsFamilyExpression(pattern);
    Status status = result.Add(pattern, SplitUnit::kCharacters, counts_steps);
    if (!status.ok()) return status;
  }
  result.ignore_merges_ = ignore_merges;
  return result;
}

Status PreTokenizer::Add(std::string_view expression, SplitUnit unit, bool counts_steps) {
  StatusOr<SplitPattern> pattern =
      SplitPattern::Create(WithUnicodeSpace(expression), {.counts_steps = counts_steps}, unit);
  if (!pattern.ok()) return pattern.status();
  patterns_.push_back(*std::move(pattern));
  return {};
}

PreTokenizer::Cursor::Cursor(const PreTokenizer* owner) {
  for (const SplitPattern& pattern : owner->patterns_) {
    levels_.push_back(
        std::make_unique<SplitPattern::Matcher>(pattern.code_, pattern.limits_, &steps_));
  }
}

PreTokenizer::Cursor::~Cursor() = default;

void PreTokenizer::Cursor::Begin(std::string_view text) {
  level_ = 0;
  steps_ += SplitPattern::kStepsPerByte * text.size();
  levels_[0]->Begin(text);
}

SplitStep PreTokenizer::Cursor::Next(Work* work, std::string_view* piece) {
  while (true) {
    const SplitStep step = levels_[level_]->Next(work, piece);
    if (step == SplitStep::kPause || (step == SplitStep::kEnd && level_ == 0)) return step;
    if (step == SplitStep::kEnd) {
      --level_;
    } else if (level_ + 1 == levels_.size()) {
      return step;
    } else {
      levels_[++level_]->Begin(*piece);
    }
  }
}

std::vector<std::string_view> PreTokenizer::Split(std::string_view text) const {
  Cursor cursor(this);
  cursor.Begin(text);
  std::vector<std::string_view> pieces;
  WalkAll(&cursor, &pieces);
  return pieces;
}

}  // namespace ropeway::tokenizer
