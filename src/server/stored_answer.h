// A stored answer as a value.
#ifndef ROPEWAY_SERVER_STORED_ANSWER_H_
#define ROPEWAY_SERVER_STORED_ANSWER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "ropeway/request.h"

namespace ropeway::server {

// What a stored answer is made of, apart from its output: all that a restart needs to go on.
struct StoredRequest {
  std::string tenant;
  std::string id;        // With its dialect's prefix, by which the dialect is found.
  std::string body;      // As the client sent it.
  api::AnswerHead head;  // `id` without the prefix.
  uint64_t seed = 0;     // Drawn, where the body gives none.
  bool background = false;
  bool stream = false;
  double weight = 1.0;
  std::string cache_scope;
  std::string previous;      // Keeping::previous.
  std::string conversation;  // Keeping::conversation.
  std::string basis;         // What decides the bits of its output; "": not known. See ModelInfo.
};

// One choice of it so far.
struct StoredChoice {
  std::vector<Delta> pieces;  // What was said, as it came. Tokens only where they are reported.
  std::vector<TokenId> ids;   // Generated so far; empty where the backend does not tell them.
  std::optional<Finish> finish;
};

// A stored answer as it is now.
struct StoredAnswer {
  std::shared_ptr<const StoredRequest> request;
  api::AnswerState state = api::AnswerState::kQueued;
  std::optional<api::ApiError> error;  // With kFailed.
  std::vector<StoredChoice> choices;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_ANSWER_H_
