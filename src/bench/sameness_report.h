// What a tally says, for a person and for a program.
#ifndef ROPEWAY_BENCH_SAMENESS_REPORT_H_
#define ROPEWAY_BENCH_SAMENESS_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/answer_tally.h"

namespace ropeway {

// A few lines: the number of outputs, and where there are more than one, how often each came and
// where the two most frequent ones first differ.
std::string TallyText(const AnswerTally& tally);

// The same with all counts: answers, distinct, distinct_with_logprobs (null where they are not
// told), counts, logprob_counts, largest_logprob_difference, most_frequent (its tokens and
// logprobs), first_difference (null or its position, tokens and logprobs).
nlohmann::ordered_json TallyJson(const AnswerTally& tally);

// Exactly one output, by tokens and by log-probabilities.
bool AllTheSame(const AnswerTally& tally);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SAMENESS_REPORT_H_
