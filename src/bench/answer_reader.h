// From the JSON of a completion to an Answer.
#ifndef ROPEWAY_BENCH_ANSWER_READER_H_
#define ROPEWAY_BENCH_ANSWER_READER_H_

#include <string>

#include "bench/answer_tally.h"
#include "ropeway/status.h"

namespace ropeway {

// Takes the first choice's tokens and log-probabilities, in either of the two forms that servers of
// /v1/completions use: OpenAI's lists (logprobs.tokens, logprobs.token_logprobs) or its chats'
// objects (logprobs.content[].token and .logprob, which llama-server also uses here). Without
// either, the text is the one token. Fails with kDataLoss and one sentence on what is no
// completion.
StatusOr<Answer> ReadAnswer(const std::string& body);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_ANSWER_READER_H_
