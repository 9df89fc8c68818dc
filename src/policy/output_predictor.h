// Guesses how many tokens a request will generate.
#ifndef ROPEWAY_POLICY_OUTPUT_PREDICTOR_H_
#define ROPEWAY_POLICY_OUTPUT_PREDICTOR_H_

#include <array>
#include <cstdint>

#include "core/sequence.h"

namespace ropeway {

// Learns from the requests that ended of themselves: an exponentially weighted mean of their
// lengths, for each power of two of max_tokens and for all together. Requests that ask for similar
// limits are often of one kind (a title, an answer, a document).
//
// Thread rule: the engine thread.
class OutputPredictor {
 public:
  // Before anything has ended. Only max_tokens tells requests apart then, so the number matters
  // little: it is an answer of a few sentences.
  static constexpr double kFirstGuess = 128.0;
  // The newest length's weight in a mean: about the last 16 count.
  static constexpr double kNewest = 1.0 / 16;
  // A bucket that saw fewer lengths than this says less than all buckets together.
  static constexpr int kMinLengths = 4;

  // A request with this limit ended of itself after `generated` tokens.
  void Learn(int32_t max_tokens, int32_t generated);

  // Tokens that the sequence has still to generate, as far as one can say: at least 1 and at most
  // what its max_tokens leaves, 0 where that leaves none. One that has outgrown what was predicted
  // is predicted twice what it has generated: the longer it has run, the longer it will
  // (lengths have a long tail).
  int32_t Remaining(const Sequence& sequence) const;

 private:
  struct Mean {
    double tokens = 0.0;
    int64_t count = 0;
    void Add(double value);
  };
  // Of max_tokens; 0 for 0, else 1 + floor(log2).
  static size_t BucketOf(int32_t max_tokens);

  std::array<Mean, 33> buckets_;
  Mean all_;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_OUTPUT_PREDICTOR_H_
