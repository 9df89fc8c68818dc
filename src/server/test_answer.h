// Parts of an answer for the tests of its JSON.
#ifndef ROPEWAY_SERVER_TEST_ANSWER_H_
#define ROPEWAY_SERVER_TEST_ANSWER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "ropeway/request.h"
#include "server/openai_response.h"

namespace ropeway {

inline AnswerHead HeadOf(bool chat, std::string model) {
  AnswerHead head;
  head.id = "id-1";
  head.created = 1700000000;
  head.model = std::move(model);
  head.chat = chat;
  return head;
}

inline OutputToken Token(const std::string& bytes, uint64_t offset, float logprob = -1.0F) {
  OutputToken token;
  token.bytes = bytes;
  token.text_offset = offset;
  token.logprob = logprob;
  return token;
}

inline Finish EndedWith(FinishReason reason, uint64_t seed) {
  Finish finish;
  finish.reason = reason;
  finish.usage = {.prompt_tokens = 10, .completion_tokens = 4, .cached_tokens = 2};
  finish.first_token_step = 9;
  finish.seed = seed;
  finish.batch_num = 3;
  finish.batch_size = 2;
  return finish;
}

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_TEST_ANSWER_H_
