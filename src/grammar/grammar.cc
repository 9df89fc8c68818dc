#include "grammar/grammar.h"

#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "grammar/schema_limits.h"
#include "work_counter.h"

namespace ropeway::grammar {

namespace {

static_assert(kMaxMinLength <= xgrammar::kMostMinimum);

// A thread's work is counted while one of these lives.
class WorkLimit {
 public:
  explicit WorkLimit(int64_t work) : work_(work) { xgrammar::work_left = work; }
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;
  ~WorkLimit() { xgrammar::work_left = INT64_MAX; }

  int64_t used() const { return work_ - std::max<int64_t>(xgrammar::work_left, 0); }

 private:
  const int64_t work_;
};

// Without memory of its own, as it is made where an exception is handled.
Status TooMuchWork() {
  return base::MakeStatus(StatusCode::kInvalidArgument,
                          "the grammar is too complex: it takes too much work; fewer optional "
                          "properties and choices, and smaller limits, take less");
}

// Whether each use of the rule is between quotation marks, so that it is all of a string's text:
// behind `\"" `, the end of a literal, and before ` "\"`, the beginning of one.
bool IsWithinQuotes(std::string_view ebnf, std::string_view rule) {
  for (size_t at = ebnf.find(rule); at != std::string_view::npos; at = ebnf.find(rule, at + 1)) {
    const std::string_view behind = ebnf.substr(at + rule.size());
    if (!behind.empty() && std::isdigit(static_cast<unsigned char>(behind[0])) != 0) continue;
    if (behind.starts_with('[')) continue;  // Its definition.
    if (!ebnf.substr(0, at).ends_with("\\\"\" ") || !behind.starts_with(" \"\\\"")) return false;
  }
  return true;
}

// What a grammar's text says of rules of limited length (`r2[max_chars=4] ::= ...`).
struct Limits {
  int64_t least = INT64_MAX;  // The smallest limit; INT64_MAX: there is none.
  bool in_strings = true;     // Each limited rule is all of a string's text.
};

Limits LimitsOf(std::string_view ebnf) {
  constexpr std::string_view kMark = "[max_chars=";
  Limits limits;
  for (size_t at = ebnf.find(kMark); at != std::string_view::npos; at = ebnf.find(kMark, at + 1)) {
    const size_t line = ebnf.rfind('\n', at) + 1;  // 0 on the first line.
    int64_t limit = 0;
    std::from_chars(ebnf.data() + at + kMark.size(), ebnf.data() + ebnf.size(), limit);
    limits.least = std::min(limits.least, limit);
    limits.in_strings = limits.in_strings && IsWithinQuotes(ebnf, ebnf.substr(line, at - line));
  }
  return limits;
}

// Whether a limited rule may begin inside of a token with this text, and go on beyond its limit.
bool MayPassLimit(std::string_view text, const Limits& limits) {
  const size_t begin = limits.in_strings ? text.find('"') + 1 : 1;
  if (begin == 0 || begin >= text.size()) return false;
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return std::count_if(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), starts) >
         limits.least;
}

DLTensor AsTensor(std::span<uint32_t> words, int64_t* shape) {
  *shape = static_cast<int64_t>(words.size());
  DLTensor tensor{};
  tensor.data = words.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 32, 1};
  tensor.shape = shape;
  return tensor;
}

}  // namespace

struct Vocabulary::Parts {
  xgrammar::TokenizerInfo info;
};

struct Grammar::Parts {
  xgrammar::CompiledGrammar compiled;
};

struct Matcher::Parts {
  xgrammar::GrammarMatcher matcher;
};

Vocabulary::Vocabulary() = default;
Vocabulary::~Vocabulary() = default;

StatusOr<std::shared_ptr<const Vocabulary>> Vocabulary::Make(const tokenizer::Tokenizer& tokenizer,
                                                             std::span<const TokenId> named) try {
  std::vector<std::string> texts(static_cast<size_t>(tokenizer.vocab_size()));
  std::vector<int32_t> ends;
  size_t bytes = 0;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsEnd(id)) {
      ends.push_back(id);
    } else if (!tokenizer.IsUnused(id)) {
      texts[static_cast<size_t>(id)] = tokenizer.Bytes(id);
    }
  }
  for (const TokenId id : named) {
    if (tokenizer.IsEnd(id)) continue;
    texts[static_cast<size_t>(id)] = "\xFF" + std::string(tokenizer.Bytes(id, true));
  }
  for (const std::string& text : texts) bytes += text.size();
  std::shared_ptr<Vocabulary> vocabulary(new Vocabulary());
  vocabulary->size_ = tokenizer.vocab_size();
  // xgrammar keeps each text twice: by id, and in order with its id and the size of its subtree.
  constexpr size_t kBytesOfToken = 2 * sizeof(std::string) + 3 * sizeof(int32_t);
  vocabulary->bytes_ = texts.size() * kBytesOfToken + 2 * bytes;
  vocabulary->parts_ = std::make_unique<Parts>(Parts{xgrammar::TokenizerInfo(
      texts, xgrammar::VocabType::RAW, tokenizer.vocab_size(), std::move(ends))});
  return {std::shared_ptr<const Vocabulary>(std::move(vocabulary))};
} catch (...) {
  return base::CurrentFailure("preparing the vocabulary for grammars");
}

Grammar::Grammar(std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {}
Grammar::~Grammar() = default;

StatusOr<std::shared_ptr<const Grammar>> Grammar::Compile(
    std::shared_ptr<const Vocabulary> vocabulary, const std::string& ebnf, int64_t work) {
  try {
    const WorkLimit limit(work);
    std::shared_ptr<Grammar> grammar(new Grammar(std::move(vocabulary)));
    // One thread: more would be started and joined for each grammar, and the counter is the
    // thread's.
    xgrammar::GrammarCompiler compiler(grammar->vocabulary_->parts_->info, /*max_threads=*/1,
                                       /*cache_enabled=*/false);
    grammar->parts_ =
        std::make_unique<Parts>(Parts{compiler.CompileGrammar(xgrammar::Grammar::FromEBNF(ebnf))});
    grammar->work_ = limit.used();
    const Limits limits = LimitsOf(ebnf);
    grammar->limits_in_strings_ = limits.in_strings;
    if (limits.least < INT64_MAX) {
      const std::vector<std::string>& texts = grammar->vocabulary_->parts_->info.GetDecodedVocab();
      for (size_t id = 0; id < texts.size(); ++id) {
        if (MayPassLimit(texts[id], limits)) grammar->unsure_.push_back(static_cast<TokenId>(id));
      }
    }
    grammar->bytes_ =
        grammar->parts_->compiled.MemorySizeBytes() + grammar->unsure_.size() * sizeof(TokenId);
    return {std::shared_ptr<const Grammar>(std::move(grammar))};
  } catch (const xgrammar::OutOfWork&) {
    return TooMuchWork();
  } catch (const std::runtime_error& error) {
    try {
      return InvalidArgument(fmt::format("the grammar cannot be read: {}", error.what()));
    } catch (...) {
      return base::OutOfMemory();
    }
  } catch (...) {
    return base::CurrentFailure("compiling the grammar");
  }
}

std::unique_ptr<core::ConstraintState> Grammar::Begin() const {
  return std::make_unique<Matcher>(shared_from_this());
}

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) noexcept : grammar_(std::move(grammar)) {}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

template <typename Fn>
Status Matcher::Guard(int64_t work, Fn&& fn) {
  if (!dead_.ok()) return base::CopyStatus(dead_);
  try {
    const WorkLimit limit(work);
    xgrammar::limits_in_strings = grammar_->limits_in_strings_;
    if (parts_ == nullptr) {
      parts_ = std::make_unique<Parts>(Parts{xgrammar::GrammarMatcher(grammar_->parts_->compiled)});
    }
    dead_ = fn(&parts_->matcher);
  } catch (const xgrammar::OutOfWork&) {
    dead_ = TooMuchWork();
  } catch (...) {
    dead_ = base::CurrentFailure("matching the grammar");
  }
  if (dead_.ok()) return {};
  parts_.reset();  // Its state may be half changed.
  return base::CopyStatus(dead_);
}

Status Matcher::Mask(std::span<uint32_t> words, int64_t work) {
  return Guard(work, [&](xgrammar::GrammarMatcher* matcher) -> Status {
    std::fill(words.begin(), words.end(), 0);
    int64_t shape = 0;
    DLTensor tensor = AsTensor(words, &shape);
    matcher->FillNextTokenBitmask(&tensor);
    // It sets bits behind the last token, too.
    if (const int32_t odd = grammar_->vocabulary().size() % 32; odd != 0) {
      words.back() &= (uint32_t{1} << odd) - 1;
    }
    for (const TokenId id : grammar_->unsure_) {
      uint32_t& word = words[static_cast<size_t>(id) / 32];
      const uint32_t bit = uint32_t{1} << (id % 32);
      if ((word & bit) == 0) continue;
      if (matcher->AcceptToken(id)) {
        matcher->Rollback(1);
      } else {
        word &= ~bit;
      }
    }
    return {};
  });
}

Status Matcher::Accept(TokenId id, int64_t work) {
  return Guard(work, [&](xgrammar::GrammarMatcher* matcher) -> Status {
    const bool is_token = id >= 0 && id < grammar_->vocabulary().size();
    if (is_token && !matcher->IsTerminated() && matcher->AcceptToken(id)) {
      ++accepted_;
      return {};
    }
    return InvalidArgument(fmt::format("the grammar does not allow token {} here", id));
  });
}

Matcher Matcher::Copy() const {
  Matcher copy(grammar_);
  if (parts_ != nullptr) copy.parts_ = std::make_unique<Parts>(Parts{parts_->matcher.Fork()});
  copy.accepted_ = accepted_;
  return copy;
}

size_t Matcher::bytes() const {
  const size_t masks = kMasks * grammar_->mask_words() * sizeof(uint32_t);
  return sizeof(*this) + masks + accepted_ * kBytesPerToken;
}

bool Matcher::complete() const { return parts_ != nullptr && parts_->matcher.IsCompleted(); }
bool Matcher::ended() const { return parts_ != nullptr && parts_->matcher.IsTerminated(); }

}  // namespace ropeway::grammar
