// The thread that compiles the grammars of requests, and the grammars that it keeps.
#ifndef ROPEWAY_ENGINE_GRAMMAR_POOL_H_
#define ROPEWAY_ENGINE_GRAMMAR_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fair_pool.h"
#include "base/sha256.h"
#include "grammar/grammar.h"
#include "ropeway/status.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// What the pool did since the start, and holds now.
struct GrammarStats {
  uint64_t hits = 0;     // Grammars that were there, compiled or being compiled.
  uint64_t misses = 0;   // Grammars that had to be compiled.
  uint64_t failed = 0;   // Misses that were rejected, such as for the work that they took.
  double seconds = 0.0;  // That compiling took.
  size_t grammars = 0;   // Kept, failed ones too.
  size_t bytes = 0;      // What they take, about.
};

// A grammar's text, and the key under which it is kept: made once, by the thread that has the text,
// as that takes up to a fifth of a millisecond.
struct GrammarText {
  explicit GrammarText(std::string text)
      : ebnf(std::move(text)), key(base::Sha256(ebnf.data(), ebnf.size())) {}

  const std::string ebnf;
  const base::Sha256Digest key;
};

// Grammars are kept by their text: those least recently used go once all take too much memory. A
// failure is kept like a grammar, since it would come out the same again. Compiling is in fair
// turns between tenants (base::FairPool); it usually takes 10 to 400 ms and at most a few seconds,
// and the next tenant's grammar need not wait for it. Requests with the same grammar share one
// compilation.
//
// The vocabulary is prepared for the first grammar: models whose requests have none save its
// memory.
//
// Thread rule: any thread, but for the constructor, Stop and the destructor.
class GrammarPool {
 public:
  using Compiled = StatusOr<std::shared_ptr<const grammar::Grammar>>;
  // Must not wait or throw. Called once from the pool's thread, or not at all after Stop.
  using DoneFn = std::function<void(const Compiled&)>;

  static constexpr size_t kCacheBytes = size_t{64} << 20;

  // A tenant alone may have `capacity` grammars in the queue, several tenants twice as many
  // together. `named`: control tokens that grammars name (grammar::Vocabulary).
  GrammarPool(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, size_t capacity,
              size_t cache_bytes = kCacheBytes, int64_t work = grammar::kCompileWork,
              std::vector<TokenId> named = {});

  // The grammar of `text`, if it is there. Throws std::bad_alloc.
  std::optional<Compiled> Find(const GrammarText& text);

  // Compiles it, and calls `done` with the result. `wanted` is asked when its turn has come: if the
  // grammar is not wanted any more, `done` is not called. False, with nothing changed, if there is
  // no place for it or after Stop. Throws std::bad_alloc, with nothing changed.
  bool TryAdd(const base::Flow& flow, std::shared_ptr<const GrammarText> text,
              std::function<bool()> wanted, DoneFn done);

  // Ends the thread after the grammar that is being compiled. The rest is dropped without a call.
  void Stop() { pool_.Stop(); }

  GrammarStats stats() const;

 private:
  using Key = base::Sha256Digest;
  struct Entry {
    Key key{};
    Compiled compiled;
    size_t bytes = 0;
  };

  // One grammar of the queue. Never throws.
  void Run(const GrammarText& text, const std::function<bool()>& wanted, const DoneFn& done);
  Compiled Compile(const std::string& ebnf);
  StatusOr<std::shared_ptr<const grammar::Vocabulary>> GetVocabulary();
  void Keep(const Key& key, const Compiled& compiled);
  // REQUIRES: mu_ is held.
  std::optional<Compiled> FindKey(const Key& key);

  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const size_t cache_bytes_;
  const int64_t work_;
  const std::vector<TokenId> named_;

  std::mutex vocabulary_mu_;                               // Held while the vocabulary is prepared.
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // GUARDED_BY(vocabulary_mu_)

  mutable std::mutex mu_;
  std::list<Entry> entries_;                         // Most recently used first. GUARDED_BY(mu_)
  std::map<Key, std::list<Entry>::iterator> index_;  // GUARDED_BY(mu_)
  // Grammars that are being compiled, and the requests that wait for each. GUARDED_BY(mu_)
  std::map<Key, std::vector<DoneFn>> compiling_;
  GrammarStats stats_;   // GUARDED_BY(mu_)
  base::FairPool pool_;  // Last: its threads use all of the above.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_GRAMMAR_POOL_H_
