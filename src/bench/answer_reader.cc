#include "bench/answer_reader.h"

#include <nlohmann/json.hpp>

namespace ropeway {
namespace {

using Json = nlohmann::json;

Status NoCompletion() {
  return {StatusCode::kDataLoss, "the reply is no completion with a choice's text"};
}

// False: these are no log-probs of this form.
bool ReadLists(const Json& logprobs, Answer* answer) {
  if (!logprobs.contains("tokens") || !logprobs.contains("token_logprobs")) return false;
  for (const Json& token : logprobs["tokens"]) {
    if (!token.is_string()) return false;
    answer->tokens.push_back(token.get<std::string>());
  }
  for (const Json& logprob : logprobs["token_logprobs"]) {
    if (!logprob.is_number()) return false;
    answer->logprobs.push_back(logprob.get<double>());
  }
  return answer->logprobs.size() == answer->tokens.size();
}

bool ReadContent(const Json& logprobs, Answer* answer) {
  if (!logprobs.contains("content") || !logprobs["content"].is_array()) return false;
  for (const Json& entry : logprobs["content"]) {
    if (!entry.is_object() || !entry.contains("token") || !entry["token"].is_string() ||
        !entry.contains("logprob") || !entry["logprob"].is_number()) {
      return false;
    }
    answer->tokens.push_back(entry["token"].get<std::string>());
    answer->logprobs.push_back(entry["logprob"].get<double>());
  }
  return true;
}

}  // namespace

StatusOr<Answer> ReadAnswer(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("choices") || !json["choices"].is_array() ||
      json["choices"].empty() || !json["choices"][0].is_object()) {
    return NoCompletion();
  }
  const Json& choice = json["choices"][0];
  if (!choice.contains("text") || !choice["text"].is_string()) return NoCompletion();
  if (choice.contains("logprobs") && choice["logprobs"].is_object()) {
    Answer answer;
    if (ReadLists(choice["logprobs"], &answer)) return answer;
    answer = {};
    if (ReadContent(choice["logprobs"], &answer)) return answer;
  }
  return Answer{{choice["text"].get<std::string>()}, {}};
}

}  // namespace ropeway
