// A toy dialect, all of it: newline-delimited JSON.
#include <pthread.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/api_format.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

std::string ThisThread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

// {"ask": text, "lines": bool} -> {"said": text}, or a line {"more": text} for each delta and
// {"over": true} at the end. Errors are {"oops": message}. With "again" the answer begins with the
// text that was asked, and says by which thread it was written: in "by", or in a line.
class ToyFormat final : public api::ApiFormat {
 public:
  Status Parse(std::string_view body, const api::BodyLimits&) override {
    const json document = json::parse(body, nullptr, false);
    if (!document.is_object() || !document.contains("ask")) {
      return InvalidArgument("'ask' is required.", "ask");
    }
    request_.prompts = {document["ask"].get<std::string>()};
    request_.request.max_tokens = 3;
    request_.stream = document.value("lines", false);
    request_.shows_prompts = document.value("again", false);
    return {};
  }

  api::ApiRequest* request() override { return &request_; }
  void Start(api::AnswerHead head) override { head_ = std::move(head); }

  std::string Whole(const std::vector<api::ChoiceOutput>& choices) const override {
    if (!request_.shows_prompts) {
      return json{{"said", choices[0].text}, {"by", head_.model}}.dump();
    }
    return json{{"said", head_.prompt_texts.at(0) + choices[0].text}, {"by", ThisThread()}}.dump();
  }

  std::string_view stream_content_type() const override { return "application/x-ndjson"; }
  std::string Begin() override {
    return request_.shows_prompts ? Line({{"by", ThisThread()}}) : "";
  }
  std::string OnDelta(size_t, Delta delta) override { return Line({{"more", delta.text}}); }
  std::string OnEnd(size_t, const Finish&) override { return Line({{"over", true}}); }
  std::string Done() override { return ""; }
  std::string StreamError(const api::ApiError& error) const override { return Line(Oops(error)); }
  std::string_view id_prefix() const override { return "toy-"; }
  std::string Pending(api::AnswerState state, const api::ApiError*) const override {
    return json{{"will", api::AnswerStateName(state)}}.dump();
  }
  std::string ErrorBody(const api::ApiError& error) const override { return Oops(error).dump(); }

 private:
  static json Oops(const api::ApiError& error) { return {{"oops", error.message}}; }
  static std::string Line(const json& object) { return object.dump() + "\n"; }

  api::ApiRequest request_;
  api::AnswerHead head_;
};

}  // namespace

std::unique_ptr<api::ApiFormat> MakeToyDialect() { return std::make_unique<ToyFormat>(); }

}  // namespace ropeway::server
