// Predicts how many tokens a request will generate.
#ifndef ROPEWAY_POLICY_OUTPUT_PREDICTOR_H_
#define ROPEWAY_POLICY_OUTPUT_PREDICTOR_H_

#include <array>
#include <cstdint>

#include "core/job.h"

namespace ropeway::policy {

// Learns from completed requests: an exponentially weighted mean of their output lengths, for each
// power of two of max_tokens and for all together. Requests with similar limits are often of one
// kind (a title, an answer, a document).
//
// Thread rule: the engine thread.
class OutputPredictor {
 public:
  // Before the first completed request: an answer of a few sentences. Only max_tokens tells
  // requests apart then, so the value matters little.
  static constexpr double kFirstGuess = 128.0;
  // Weight of the newest length in a mean: about the last 16 count.
  static constexpr double kNewest = 1.0 / 16;
  // A bucket with fewer lengths than this is less reliable than all buckets together.
  static constexpr int kMinLengths = 4;

  // A request with this limit completed after `generated` tokens.
  void Learn(int32_t max_tokens, int32_t generated);

  // Returns the predicted number of tokens that the request has still to generate: at least 1 and
  // at most what max_tokens leaves, or 0 if that leaves none. One that has outgrown its
  // prediction is predicted twice what it has generated: lengths have a long tail. One that no
  // token ends is predicted all that max_tokens leaves.
  int32_t Remaining(const core::JobRequest& request, int32_t generated) const;
  int32_t Remaining(const core::Job& job) const { return Remaining(job.request, job.generated()); }
  // Whether only max_tokens ends it, as far as is known: stop strings are found elsewhere.
  static bool RunsToItsLimit(const core::JobRequest& request) {
    return request.ignore_eos && request.stop_ids.empty();
  }

 private:
  struct Mean {
    double tokens = 0.0;
    int64_t count = 0;
    void Add(double value);
  };
  // 0 for max_tokens 0, else 1 + floor(log2(max_tokens)).
  static size_t BucketOf(int32_t max_tokens);

  std::array<Mean, 33> buckets_;
  Mean all_;
};

}  // namespace ropeway::policy

#endif  // ROPEWAY_POLICY_OUTPUT_PREDICTOR_H_
