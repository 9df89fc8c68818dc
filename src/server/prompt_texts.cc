#include "server/prompt_texts.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "api/parameter_json.h"
#include "core/parameters.h"

namespace ropeway::server {

StatusOr<bool> PromptTexts::Encode(const std::string& text, bool add_special, const char* field,
                                   std::vector<TokenId>* out) {
  const auto named = [&](const Status& status) {
    return Status(status.code(),
                  fmt::format("'{}' has a text to encode: {}", field, status.message()), field);
  };
  if (encoding_ == nullptr) {
    StatusOr<std::unique_ptr<service::Tokenization>> begun = backend_->Tokenize(text, add_special);
    if (!begun.ok()) return named(begun.status());
    encoding_ = *std::move(begun);
  }
  const StatusOr<bool> done = encoding_->Step();
  if (!done.ok()) return named(done.status());
  if (!*done) return false;
  *out = encoding_->Take();
  encoding_.reset();
  return true;
}

StatusOr<bool> PromptTexts::StepPrompt() {
  const api::MixedPrompt& mixed = api_->mixed_prompts[prompt_];
  const api::PromptPart& part = mixed.parts[part_];
  std::vector<TokenId> encoded;
  const std::vector<TokenId>* ids = std::get_if<std::vector<TokenId>>(&part);
  if (ids == nullptr) {
    const StatusOr<bool> done =
        Encode(std::get<std::string>(part), /*add_special=*/part_ == 0, "prompt", &encoded);
    if (!done.ok() || !*done) return done;
    ids = &encoded;
  }
  auto& all = std::get<std::vector<TokenId>>(api_->prompts[mixed.prompt]);
  all.insert(all.end(), ids->begin(), ids->end());
  if (++part_ == mixed.parts.size()) {
    part_ = 0;
    ++prompt_;
  }
  return true;
}

StatusOr<bool> PromptTexts::StepBias() {
  const api::TextBias& bias = api_->text_biases[bias_];
  std::vector<TokenId> ids;
  const StatusOr<bool> done = Encode(bias.text, /*add_special=*/false, "logit_bias", &ids);
  if (!done.ok() || !*done) return done;
  std::vector<LogitBias>* const biases = &api_->request.sampling.logit_bias;
  for (const TokenId id : ids) biases->push_back({id, bias.bias});
  ++bias_;
  const size_t most = core::FindParameter("logit_bias")->most;
  if (biases->size() > most || bias_ == api_->text_biases.size()) api::MergeBiases(biases);
  if (biases->size() > most) {
    return InvalidArgument(
        fmt::format("'logit_bias' is for more than the {} tokens that are allowed.", most),
        "logit_bias");
  }
  return true;
}

StatusOr<bool> PromptTexts::Step() {
  StatusOr<bool> moved = true;
  if (prompt_ < api_->mixed_prompts.size()) {
    moved = StepPrompt();
  } else if (bias_ < api_->text_biases.size()) {
    moved = StepBias();
  }
  if (!moved.ok()) return moved;
  return prompt_ == api_->mixed_prompts.size() && bias_ == api_->text_biases.size();
}

}  // namespace ropeway::server
