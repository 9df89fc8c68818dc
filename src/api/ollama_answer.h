// What all answers of Ollama's API have in common.
#ifndef ROPEWAY_API_OLLAMA_ANSWER_H_
#define ROPEWAY_API_OLLAMA_ANSWER_H_

#include <chrono>
#include <string>

#include "api/api_format.h"

namespace ropeway::api {

// {"error": message} as JSON text.
std::string OllamaErrorJson(const ApiError& error);

// A time as Ollama writes it: RFC 3339 in UTC, "2026-08-21T18:48:22.123456789Z".
std::string OllamaTime(std::chrono::system_clock::time_point time);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_OLLAMA_ANSWER_H_
