// Request bodies for tests of how the OpenAI dialects read them.
#ifndef ROPEWAY_API_TEST_REQUEST_BODIES_H_
#define ROPEWAY_API_TEST_REQUEST_BODIES_H_

#include <nlohmann/json.hpp>
#include <string>

#include "api/openai_format.h"

namespace ropeway::api {

StatusOr<OpenAiBody> Completion(const std::string& body, const BodyLimits& limits = {});
StatusOr<OpenAiBody> ChatBody(const std::string& body, const BodyLimits& limits = {});

// A completion, or a chat, whose only unusual field is `field`.
StatusOr<OpenAiBody> CompletionWith(const std::string& field, const std::string& value);
StatusOr<OpenAiBody> ChatWith(const std::string& field, const std::string& value);

// Replaces each part of a good request by all kinds of values, and expects no crash and errors that
// name a field. Returns how many of these requests were rejected.
int RejectedWithAnythingAnywhere(const nlohmann::json& good, ApiFormatMaker make_format);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_TEST_REQUEST_BODIES_H_
