// The texts that a body leaves to the server to encode: parts of its prompts, and those whose
// tokens get a bias.
#ifndef ROPEWAY_SERVER_PROMPT_TEXTS_H_
#define ROPEWAY_SERVER_PROMPT_TEXTS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "api/api_format.h"
#include "ropeway/status.h"
#include "service/front_desk.h"

namespace ropeway::server {

// Puts the ids of these texts where they belong in a request. Thread rule: one thread at a time,
// as for the backend's tokenizer.
class PromptTexts {
 public:
  // Both must outlive it.
  PromptTexts(const service::FrontDesk* backend, api::ApiRequest* api)
      : backend_(backend), api_(api) {}

  // Goes on for about a millisecond. Whether all texts are encoded; after that, or a failure, it is
  // not called again.
  StatusOr<bool> Step();

 private:
  // The same, of one text. Whether `out` has its ids.
  StatusOr<bool> Encode(const std::string& text, bool add_special, const char* field,
                        std::vector<TokenId>* out);
  StatusOr<bool> StepPrompt();
  StatusOr<bool> StepBias();

  const service::FrontDesk* const backend_;
  api::ApiRequest* const api_;
  std::unique_ptr<service::Tokenization> encoding_;  // Of the text that it is at; null: not begun.
  size_t prompt_ = 0;                                // Where it is.
  size_t part_ = 0;
  size_t bias_ = 0;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_PROMPT_TEXTS_H_
