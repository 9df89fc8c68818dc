// Embeds texts with a model, for tests and measurements that compare with other programs:
//
//   embed_lines MODEL [q8_0 | q4_0 | "" [TOKENS]] <TEXTS
//
// TEXTS is a JSON list of texts; the end of what is longer than TOKENS, or else than the model
// takes, is cut off. Prints {"seconds": of all requests at once, "embeddings": [[...], ...]}.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ropeway/engine.h"

namespace ropeway::test {
namespace {

int Run(const std::string& path, const std::string& quantize, int tokens) {
  const nlohmann::json texts = nlohmann::json::parse(std::cin);
  EngineOptions options;
  options.model.path = path;
  options.model.quantize = quantize;
  options.model.max_model_len = tokens;
  options.queue.max_queued_requests = static_cast<int>(texts.size()) + 1;
  auto engine = Engine::Create(options);
  if (!engine.ok()) {
    std::cerr << engine.status().message() << "\n";
    return 1;
  }
  std::vector<Request> requests;
  for (const nlohmann::json& text : texts) {
    Request& request = requests.emplace_back();
    request.prompt = text.get<std::string>();
    request.embedding.emplace();
    request.embedding->truncate = true;
  }
  const auto begin = std::chrono::steady_clock::now();
  auto handles = (*engine)->SubmitMany(std::move(requests));
  nlohmann::json all = nlohmann::json::array();
  for (auto& handle : handles) {
    const Status status = handle.ok() ? Status() : handle.status();
    if (!status.ok()) {
      std::cerr << status.message() << "\n";
      return 1;
    }
    const StatusOr<Result> result = handle->Wait();
    const Status ended = result.ok() ? result->status : result.status();
    if (!ended.ok()) {
      std::cerr << ended.message() << "\n";
      return 1;
    }
    all.push_back(result->embedding);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << nlohmann::json{{"seconds", took.count()}, {"embeddings", all}} << "\n";
  return 0;
}

}  // namespace
}  // namespace ropeway::test

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return ropeway::test::Run(argv[1], argc > 2 ? argv[2] : "", argc > 3 ? std::stoi(argv[3]) : 0);
}
