#include "engine/grammar_pool.h"

#include <new>
#include <utility>

#include "base/clock.h"
#include "engine/failure.h"

namespace ropeway::engine {
namespace {

// What an entry takes besides its grammar, about.
constexpr size_t kEntryBytes = 512;

}  // namespace

GrammarPool::GrammarPool(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, size_t capacity,
                         size_t cache_bytes, int64_t work, std::vector<TokenId> named)
    : tokenizer_(std::move(tokenizer)),
      cache_bytes_(cache_bytes),
      work_(work),
      named_(std::move(named)),
      // One tenant alone gets half of a FairPool's places.
      pool_(1, 2 * (static_cast<int64_t>(capacity) + 1 + base::FairPool::kSpareThreads),
            "ropeway-grammar") {}

std::optional<GrammarPool::Compiled> GrammarPool::FindKey(const Key& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  ++stats_.hits;
  return found->second->compiled;
}

std::optional<GrammarPool::Compiled> GrammarPool::Find(const GrammarText& text) {
  const std::lock_guard lock(mu_);
  return FindKey(text.key);
}

bool GrammarPool::TryAdd(const base::Flow& flow, std::shared_ptr<const GrammarText> text,
                         std::function<bool()> wanted, DoneFn done) {
  return pool_.TryAdd(flow,
                      [this, text = std::move(text), wanted = std::move(wanted),
                       done = std::move(done)]() -> base::PieceEnd {
                        Run(*text, wanted, done);
                        return true;
                      });
}

void GrammarPool::Run(const GrammarText& text, const std::function<bool()>& wanted,
                      const DoneFn& done) {
  if (!wanted()) return;
  const Key& key = text.key;
  std::optional<Compiled> found;
  try {
    std::vector<DoneFn> waiting = {done};
    const std::lock_guard lock(mu_);
    found = FindKey(key);
    if (!found) {
      const auto [entry, first] = compiling_.try_emplace(key, std::move(waiting));
      if (!first) {
        entry->second.push_back(done);
        ++stats_.hits;
        return;
      }
      ++stats_.misses;
    }
  } catch (const std::bad_alloc&) {
    found = OutOfMemory();
  }
  if (found) {
    done(*found);
    return;
  }
  const Compiled compiled = Compile(text.ebnf);
  Keep(key, compiled);
  std::vector<DoneFn> waiting;
  {
    const std::lock_guard lock(mu_);
    const auto entry = compiling_.find(key);
    waiting = std::move(entry->second);
    compiling_.erase(entry);
  }
  for (const DoneFn& each : waiting) each(compiled);
}

GrammarPool::Compiled GrammarPool::Compile(const std::string& ebnf) {
  const StatusOr<std::shared_ptr<const grammar::Vocabulary>> vocabulary = GetVocabulary();
  if (!vocabulary.ok()) return CopyStatus(vocabulary.status());
  const base::RealClock clock;
  const base::TimePoint begin = clock.Now();
  Compiled compiled = grammar::Grammar::Compile(*vocabulary, ebnf, work_);
  const std::lock_guard lock(mu_);
  stats_.seconds += base::ToSeconds(clock.Now() - begin);
  if (!compiled.ok()) ++stats_.failed;
  return compiled;
}

StatusOr<std::shared_ptr<const grammar::Vocabulary>> GrammarPool::GetVocabulary() {
  const std::lock_guard lock(vocabulary_mu_);
  if (vocabulary_ != nullptr) return vocabulary_;
  StatusOr<std::shared_ptr<const grammar::Vocabulary>> made =
      grammar::Vocabulary::Make(*tokenizer_, named_);
  if (made.ok()) vocabulary_ = *made;
  return made;
}

// Where memory is short nothing is kept: the next request compiles it again.
void GrammarPool::Keep(const Key& key, const Compiled& compiled) {
  if (!compiled.ok() && compiled.status().code() != StatusCode::kInvalidArgument) return;
  try {
    const size_t bytes = kEntryBytes + (compiled.ok() ? (*compiled)->bytes() : 0);
    const std::lock_guard lock(mu_);
    entries_.push_front({key, compiled, bytes});
    try {
      index_.emplace(key, entries_.begin());
    } catch (const std::bad_alloc&) {
      entries_.pop_front();
      return;
    }
    stats_.bytes += bytes;
    // The newest one stays, however large it is.
    while (stats_.bytes > cache_bytes_ && entries_.size() > 1) {
      stats_.bytes -= entries_.back().bytes;
      index_.erase(entries_.back().key);
      entries_.pop_back();
    }
    stats_.grammars = entries_.size();
  } catch (const std::bad_alloc&) {
  }
}

GrammarStats GrammarPool::stats() const {
  const std::lock_guard lock(mu_);
  return stats_;
}

}  // namespace ropeway::engine
