// A body of a dialect for embeddings, and what a server behind the gateway sends as one. The first
// byte says which dialect it is. What is accepted is a request that an engine takes, its answer is
// JSON, and the answer read as a server's is the same embedding.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/wire_format.h"
#include "base/json.h"
#include "core/request_check.h"
#include "fuzz/fuzz_target.h"

namespace ropeway::fuzz {
namespace {

constexpr api::ApiFormatMaker kMakers[] = {api::MakeOpenAiEmbeddings, api::MakeOllamaEmbed,
                                           api::MakeOllamaOldEmbeddings, api::MakeLlamaEmbedding};

std::vector<float> ReadBack(const std::string& answer) {
  Request request;
  request.embedding.emplace();
  const auto wire = api::MakeWireFormat(api::BackendKind::kOpenAi, {});
  const std::unique_ptr<api::WireReply> reply = wire->MakeReply(request);
  std::vector<float> read;
  const auto give = [&](Delta delta) { read = std::move(delta.embedding); };
  if (reply->Feed(answer, give)) return read;
  const Outcome end = reply->End(give);
  Require(end.status.ok() != read.empty(), "an end without an embedding, or a fault with one");
  for (const float x : read) Require(std::isfinite(x), "a number that is not finite");
  return read;
}

void CheckBody(size_t dialect, std::string_view body) {
  const std::unique_ptr<api::ApiFormat> format = kMakers[dialect]();
  const Status status = format->Parse(body, {});
  if (!status.ok()) return RequireError(status);
  const api::ApiRequest& asked = *format->request();
  // Ollama takes no input at all for a question without an answer.
  const bool may_be_empty = dialect == 1 || dialect == 2;
  Require(asked.n == 1 && !asked.stream, "inputs, whole");
  Require(may_be_empty || !asked.prompts.empty(), "no input");
  Require(asked.prompts.size() <= 2048, "too many inputs");
  for (const api::Prompt& prompt : asked.prompts) {
    Request request = asked.request;
    request.prompt = prompt;
    const Status fits = core::CheckRequest(request);
    if (!fits.ok()) RequireError(fits);
  }
  const size_t inputs = asked.prompts.size();
  api::AnswerHead head;
  head.id = "1";
  head.model = std::string(body.substr(0, 8));
  format->Start(head);
  api::ChoiceOutput output;
  output.embedding = {0.1F, -1e-30F, 3.0F};
  const std::string whole = format->Whole(std::vector<api::ChoiceOutput>(inputs, output));
  Require(base::ReadJson(whole, {}, "the answer").ok(), "the answer is no JSON");
  const bool all = asked.dimensions == 0 || asked.dimensions >= 3;
  if (dialect == 0 && inputs == 1 && all) {
    Require(ReadBack(whole) == output.embedding, "another embedding is read");
  }
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t what = data[0] % 5;
  if (what < 4) {
    ropeway::fuzz::CheckBody(what, rest);
  } else {
    ropeway::fuzz::ReadBack(std::string(rest));
  }
  return 0;
}
