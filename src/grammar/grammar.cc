#include "grammar/grammar.h"

#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "work_counter.h"

namespace ropeway::grammar {

namespace {

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

Status TooMuchWork(const char* doing) {
  return InvalidArgument(fmt::format("the grammar is too complex: {} takes too much work", doing));
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

StatusOr<std::shared_ptr<const Vocabulary>> Vocabulary::Make(
    const tokenizer::Tokenizer& tokenizer) try {
  std::vector<std::string> texts(static_cast<size_t>(tokenizer.vocab_size()));
  std::vector<int32_t> ends;
  size_t bytes = 0;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsEnd(id)) {
      ends.push_back(id);
    } else if (!tokenizer.IsUnused(id)) {
      texts[static_cast<size_t>(id)] = tokenizer.Bytes(id);
      bytes += texts[static_cast<size_t>(id)].size();
    }
  }
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
  constexpr const char* kDoing = "compiling it";
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
    grammar->bytes_ = grammar->parts_->compiled.MemorySizeBytes();
    return {std::shared_ptr<const Grammar>(std::move(grammar))};
  } catch (const xgrammar::OutOfWork&) {
    return TooMuchWork(kDoing);
  } catch (const std::runtime_error& error) {
    return InvalidArgument(fmt::format("the grammar cannot be read: {}", error.what()));
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
Status Matcher::Guard(int64_t work, const char* doing, Fn&& fn) {
  if (!dead_.ok()) return base::CopyStatus(dead_);
  try {
    const WorkLimit limit(work);
    if (parts_ == nullptr) {
      parts_ = std::make_unique<Parts>(Parts{xgrammar::GrammarMatcher(grammar_->parts_->compiled)});
    }
    dead_ = fn(&parts_->matcher);
  } catch (const xgrammar::OutOfWork&) {
    dead_ = TooMuchWork(doing);
  } catch (...) {
    dead_ = base::CurrentFailure("matching the grammar");
  }
  if (dead_.ok()) return {};
  parts_.reset();  // Its state may be half changed.
  return base::CopyStatus(dead_);
}

Status Matcher::Mask(std::span<uint32_t> words, int64_t work) {
  return Guard(work, "finding the tokens that may come next",
               [&](xgrammar::GrammarMatcher* matcher) -> Status {
                 std::fill(words.begin(), words.end(), 0);
                 int64_t shape = 0;
                 DLTensor tensor = AsTensor(words, &shape);
                 matcher->FillNextTokenBitmask(&tensor);
                 // It sets bits behind the last token, too.
                 if (const int32_t odd = grammar_->vocabulary().size() % 32; odd != 0) {
                   words.back() &= (uint32_t{1} << odd) - 1;
                 }
                 return {};
               });
}

Status Matcher::Accept(TokenId id, int64_t work) {
  return Guard(work, "accepting a token", [&](xgrammar::GrammarMatcher* matcher) -> Status {
    const bool is_token = id >= 0 && id < grammar_->vocabulary().size();
    if (is_token && !matcher->IsTerminated() && matcher->AcceptToken(id)) {
      ++accepted_;
      return {};
    }
    return InvalidArgument(fmt::format("the grammar does not allow token {} here", id));
  });
}

void Matcher::Undo(int count) {
  if (parts_ == nullptr) return;
  parts_->matcher.Rollback(count);
  accepted_ -= static_cast<size_t>(count);
}

bool Matcher::complete() const { return parts_ != nullptr && parts_->matcher.IsCompleted(); }
bool Matcher::ended() const { return parts_ != nullptr && parts_->matcher.IsTerminated(); }

}  // namespace ropeway::grammar
