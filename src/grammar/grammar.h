// Grammars hold the output of a model to a form: a grammar and the tokens so far say which tokens
// may come next.
//
// xgrammar's parser does the work, and grammar.cc is the only file that includes it. Everything
// here is a function of the grammar's text, the vocabulary and the ids: limits count work and not
// time, so the same output ends at the same token on every machine.
#ifndef ROPEWAY_GRAMMAR_GRAMMAR_H_
#define ROPEWAY_GRAMMAR_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/constraint.h"
#include "core/mask_bits.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::grammar {

// The work that compiling a grammar may take, in states of the parser: 0.5 to 3 s of processor
// time. Usual schemas take 10,000 to 1 million, with vocabularies of 262,144 tokens up to 5
// million.
inline constexpr int64_t kCompileWork = 30'000'000;
// The work that a mask, or a token's acceptance, may take: up to 50 ms with a vocabulary of 49,152
// tokens, and up to 73 ms, as measured, with one of 262,144. Usual ones take 2 to 1,000; the first
// tokens of a string of limited length up to 1.4 million.
inline constexpr int64_t kStepWork = 2'000'000;

// What the tokens of a model stand for, prepared for masks. Const and thread-safe.
class Vocabulary {
 public:
  // A token's text is Tokenizer::Bytes. A control token has none, so no grammar allows it, but for
  // the tokens at which generation ends: they are allowed where the output is complete. Those of
  // `named` get the text "\xFF" and their own, which is no UTF-8: no class of characters has it, so
  // they stand only where a grammar names them (Ebnf::Token) or has any text at all (Ebnf::Behind).
  // Takes 20 to 100 ms.
  static StatusOr<std::shared_ptr<const Vocabulary>> Make(const tokenizer::Tokenizer& tokenizer,
                                                          std::span<const TokenId> named = {});

  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary();

  int32_t size() const { return size_; }
  // The words of a mask: a bit for each token.
  size_t mask_words() const { return core::MaskWords(size_); }
  // The memory that it takes, about.
  size_t bytes() const { return bytes_; }

 private:
  friend class Grammar;
  struct Parts;
  Vocabulary();

  std::unique_ptr<const Parts> parts_;
  int32_t size_ = 0;
  size_t bytes_ = 0;
};

// A compiled grammar. Const and thread-safe; shared by the sequences that it holds.
class Grammar final : public core::Constraint, public std::enable_shared_from_this<Grammar> {
 public:
  // `ebnf` is in xgrammar's notation; its first rule is `root`. It must have no left recursion
  // (masks would be too narrow) and no rule that can come back to itself without a character. Masks
  // near the limit of a rule of limited length (`r2[max_chars=4]`) are cheap where each such rule
  // is all of a JSON string's text: it stands between literals that end and begin with its
  // quotation marks.
  //
  // kInvalidArgument: the text is no grammar, or compiling takes more than `work`. Takes 10 to 400
  // ms; what xgrammar does not count (reading the text, building automata) grows with the text,
  // which the caller must bound.
  static StatusOr<std::shared_ptr<const Grammar>> Compile(
      std::shared_ptr<const Vocabulary> vocabulary, const std::string& ebnf,
      int64_t work = kCompileWork);

  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;
  ~Grammar();

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  size_t mask_words() const override { return vocabulary_->mask_words(); }
  std::unique_ptr<core::ConstraintState> Begin() const override;
  // The work that compiling it took.
  int64_t work() const { return work_; }
  // The memory that it takes, about, without the vocabulary.
  size_t bytes() const { return bytes_; }

 private:
  friend class Matcher;
  struct Parts;
  explicit Grammar(std::shared_ptr<const Vocabulary> vocabulary);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const Parts> parts_;
  // Tokens in whose text a rule of limited length may begin and go on beyond its limit: xgrammar's
  // masks do not see that, its parser does.
  std::vector<TokenId> unsure_;
  bool limits_in_strings_ = true;  // Each limited rule is all of a JSON string's text.
  int64_t work_ = 0;
  size_t bytes_ = 0;
};

// Where an output stands in its grammar: a function of the grammar and of the accepted ids, so it
// is never saved but made again by accepting the ids again (1 to 3 us each). Not thread-safe;
// distinct ones may be used from distinct threads.
//
// After an error it is dead: each call returns that error.
class Matcher final : public core::ConstraintState {
 public:
  // What it takes of memory for each accepted token, about, and beside that in masks.
  static constexpr size_t kBytesPerToken = 600;
  static constexpr size_t kMasks = 3;

  // Errors come from the first call.
  explicit Matcher(std::shared_ptr<const Grammar> grammar) noexcept;
  ~Matcher() override;
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // Sets bit (id & 31) of word (id >> 5) for each token that may come next, and clears all others.
  // Usually takes 2 to 100 us. kInvalidArgument: it takes more than `work`. REQUIRES: words.size()
  // == mask_words(); !ended().
  Status Mask(std::span<uint32_t> words, int64_t work);
  Status Mask(std::span<uint32_t> words) override { return Mask(words, kStepWork); }

  // Goes on behind `id`. kInvalidArgument: the grammar does not allow it, or it takes more than
  // `work`.
  Status Accept(TokenId id, int64_t work);
  Status Accept(TokenId id) override { return Accept(id, kStepWork); }

  // Another one at the same place. Takes microseconds, and as long again for each few accepted
  // tokens. REQUIRES: no call failed.
  Matcher Copy() const;

  // Whether the output may end here.
  bool complete() const override;
  // Whether a token at which generation ends was accepted.
  bool ended() const override;
  size_t bytes() const override;

 private:
  struct Parts;
  template <typename Fn>
  Status Guard(int64_t work, Fn&& fn);

  std::shared_ptr<const Grammar> grammar_;
  std::unique_ptr<Parts> parts_;  // Null before the first call, and when dead.
  size_t accepted_ = 0;           // Tokens.
  Status dead_;                   // Why it is dead; OK: it is not.
};

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_GRAMMAR_H_
