// How many different answers one prompt got.
#ifndef ROPEWAY_BENCH_ANSWER_TALLY_H_
#define ROPEWAY_BENCH_ANSWER_TALLY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ropeway {

// One answer, as far as whoever gave it tells.
struct Answer {
  std::vector<std::string> tokens;  // Ids or texts; the whole text as one where no more is told.
  std::vector<double> logprobs;     // Of each token; empty where none is told.
};

// Counts answers that differ: by their tokens, and by tokens and log-probabilities together. Two
// log-probabilities are the same only if their bits are.
// Thread rule: one thread at a time.
class AnswerTally {
 public:
  struct Output {
    Answer answer;  // The first such answer.
    int count = 0;
  };

  // Where two answers part: at `position`, where one has `first` and the other `second` ("" where
  // it has ended). Both tokens' log-probabilities, where they are told.
  struct Difference {
    size_t position = 0;
    std::string first;
    std::string second;
    std::optional<double> first_logprob;
    std::optional<double> second_logprob;
  };

  void Add(Answer answer);

  int answers() const { return answers_; }
  int distinct() const { return static_cast<int>(by_tokens_.size()); }
  int distinct_with_logprobs() const { return static_cast<int>(by_logprobs_.size()); }
  // Whether every answer told its tokens' log-probabilities; without, nothing is known of them.
  bool has_logprobs() const { return answers_ > 0 && without_logprobs_ == 0; }

  // The outputs that differ in tokens, most frequent first; those equally frequent, in the order in
  // which they came.
  std::vector<Output> ByTokens() const;
  // How often each of the outputs that differ in tokens or log-probabilities came; falling.
  std::vector<int> LogprobCounts() const;

  // Between the two most frequent outputs; none where there is one output.
  std::optional<Difference> FirstDifference() const;

  // The largest difference between an answer's log-probability and the first answer's, over all
  // positions up to where their tokens part.
  double LargestLogprobDifference() const { return largest_difference_; }

 private:
  std::vector<Output> by_tokens_;    // In the order in which they came.
  std::vector<Output> by_logprobs_;  // Likewise.
  int answers_ = 0;
  int without_logprobs_ = 0;
  double largest_difference_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_ANSWER_TALLY_H_
