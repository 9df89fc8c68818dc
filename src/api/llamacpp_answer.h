// What llama.cpp's own API answers: the members of a completion's answer, and of its errors.
#ifndef ROPEWAY_API_LLAMACPP_ANSWER_H_
#define ROPEWAY_API_LLAMACPP_ANSWER_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "ropeway/request.h"

namespace ropeway::api {

// What "generation_settings" says beside the request itself.
struct LlamaCppSettings {
  uint64_t seed = 0;
  bool stream = false;
  // Those that are used, in order; absent: all that Ropeway has.
  std::optional<std::vector<std::string>> samplers = {};
  // With the texts of the request, such as its stop strings.
  bool texts = true;
};
nlohmann::ordered_json LlamaCppSettingsJson(const Request& request,
                                            const LlamaCppSettings& settings);

// "timings".
nlohmann::ordered_json LlamaCppTimings(const Finish& finish);

// "completion_probabilities".
nlohmann::ordered_json LlamaCppProbabilities(const std::vector<OutputToken>& tokens);

// "stop_type", "stopping_word" and "truncated" of a completion that ended.
struct LlamaCppEnd {
  const char* type = "none";
  std::string word;
  bool truncated = false;  // By the end of the model's context.
};
LlamaCppEnd LlamaCppEndOf(const Request& request, const Finish& finish);

// Of `answer` the members that `paths` name: "a/b" is member b of a, under that name. What is not
// there is left out. Without paths, all of it.
nlohmann::ordered_json Selected(nlohmann::ordered_json answer,
                                const std::vector<std::string>& paths);

// {"error": {"code", "message", "type"}}, with the HTTP status as the code.
std::string LlamaCppError(const ApiError& error);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_LLAMACPP_ANSWER_H_
