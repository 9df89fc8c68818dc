// Request bodies for tests of how they are read.
#ifndef ROPEWAY_SERVER_TEST_REQUEST_BODIES_H_
#define ROPEWAY_SERVER_TEST_REQUEST_BODIES_H_

#include <nlohmann/json.hpp>
#include <string>

#include "server/openai_request.h"

namespace ropeway {

StatusOr<ApiRequest> Completion(const std::string& body);
StatusOr<ApiRequest> Chat(const std::string& body);

// A completion, or a chat, whose only unusual field is `field`.
StatusOr<ApiRequest> CompletionWith(const std::string& field, const std::string& value);
StatusOr<ApiRequest> ChatWith(const std::string& field, const std::string& value);

// Whatever is put in place of any part of a good request: an answer, never a crash. How many of
// these requests were refused, each of them by a field's name.
int RefusedWithAnythingAnywhere(const nlohmann::json& good, bool chat);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_TEST_REQUEST_BODIES_H_
