#include "server/tokenize_handlers.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/handlers.h"
#include "server/json.h"
#include "server/openai_format.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

// A body of either path.
struct TokenizerDraft {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::vector<ChatMessage>> messages;
  std::optional<std::vector<TokenId>> tokens;
  std::optional<bool> add_special_tokens;
  bool add_generation_prompt = true;
  bool return_token_strs = false;
};

Status ReadTokens(const json& value, const std::string& field, TokenizerDraft* draft) {
  if (!value.is_array()) return Mismatch(value, field, "a list of token ids");
  return Store(ReadTokenIds(value, field), &draft->tokens);
}

using D = TokenizerDraft;
using TokenizerFields = FieldTable<TokenizerDraft>;

const TokenizerFields& TokenizeFields() {
  static const TokenizerFields table = {
      {"model", FieldOf(ReadString, &D::model)},
      {"prompt", FieldOf(ReadString, &D::prompt)},
      {"messages", FieldOf(ReadChatMessages, &D::messages)},
      {"add_special_tokens", FieldOf(ReadBool, &D::add_special_tokens)},
      {"add_generation_prompt", FieldOf(ReadBool, &D::add_generation_prompt)},
      {"return_token_strs", FieldOf(ReadBool, &D::return_token_strs)},
      {"continue_final_message", RejectUnlessFalse},
      {"chat_template", Reject},
      {"chat_template_kwargs", RejectUnlessEmpty},
      {"mm_processor_kwargs", RejectUnlessEmpty},
      {"tools", RejectUnlessEmpty}};
  return table;
}

const TokenizerFields& DetokenizeFields() {
  static const TokenizerFields table = {{"model", FieldOf(ReadString, &D::model)},
                                        {"tokens", ReadTokens}};
  return table;
}

StatusOr<TokenizerDraft> ReadDraft(std::string_view body, const JsonBounds& bounds,
                                   const TokenizerFields& fields) {
  StatusOr<json> document = ReadJson(body, bounds);
  if (!document.ok()) return document.status();
  TokenizerDraft draft;
  Status status = ReadFields(*document, fields, &draft);
  if (!status.ok()) return status;
  return draft;
}

StatusOr<std::vector<TokenId>> Encode(const TokenizerDraft& draft, const engine::Backend& backend) {
  if (draft.messages) {
    return backend.TokenizeChat(*draft.messages, draft.add_generation_prompt,
                                draft.add_special_tokens.value_or(false));
  }
  return backend.Tokenize(*draft.prompt, draft.add_special_tokens.value_or(true));
}

// Writes the numbers directly: as JSON values, millions of them would take ten times as long.
void AppendIds(const std::vector<TokenId>& ids, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out->push_back(',');
    const fmt::format_int digits(ids[i]);
    out->append(digits.data(), digits.size());
  }
  out->push_back(']');
}

Status AppendTokenStrings(const std::vector<TokenId>& ids, const engine::Backend& backend,
                          std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out->push_back(',');
    StatusOr<std::string> bytes = backend.Detokenize({ids[i]});
    if (!bytes.ok()) return bytes.status();
    AppendJsonString(TokenKey(*bytes), out);
  }
  out->push_back(']');
  return {};
}

// {"model"?, "prompt" | "messages", "add_special_tokens"?, "add_generation_prompt"?,
// "return_token_strs"?} -> {"count", "max_model_len", "tokens"[, "token_strs"]} as JSON texts.
// Special tokens written in a text are recognised. A failed status names the field at fault.
StatusOr<std::string> Tokenize(std::string_view body, const JsonBounds& bounds,
                               const engine::Backend& backend) {
  StatusOr<TokenizerDraft> draft = ReadDraft(body, bounds, TokenizeFields());
  if (!draft.ok()) return draft.status();
  if (draft->prompt.has_value() == draft->messages.has_value()) {
    return InvalidArgument("Exactly one of 'prompt' and 'messages' is required.", "prompt");
  }
  StatusOr<engine::ModelInfo> model = FindModel(draft->model, backend);
  if (!model.ok()) return model.status();
  StatusOr<std::vector<TokenId>> ids = Encode(*draft, backend);
  if (!ids.ok()) return ids.status();
  std::string answer = fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":", ids->size(),
                                   model->max_model_len);
  AppendIds(*ids, &answer);
  if (draft->return_token_strs) {
    answer += ",\"token_strs\":";
    Status status = AppendTokenStrings(*ids, backend, &answer);
    if (!status.ok()) return status;
  }
  answer += '}';
  return answer;
}

// {"model"?, "tokens"} -> {"prompt"}, likewise.
StatusOr<std::string> Detokenize(std::string_view body, const JsonBounds& bounds,
                                 const engine::Backend& backend) {
  StatusOr<TokenizerDraft> draft = ReadDraft(body, bounds, DetokenizeFields());
  if (!draft.ok()) return draft.status();
  if (!draft->tokens) return InvalidArgument("'tokens' is required.", "tokens");
  StatusOr<engine::ModelInfo> model = FindModel(draft->model, backend);
  if (!model.ok()) return model.status();
  StatusOr<std::string> text = backend.Detokenize(*draft->tokens);
  if (!text.ok()) return text.status();
  std::string answer = "{\"prompt\":";
  AppendJsonString(*text, &answer);
  answer += '}';
  return answer;
}

}  // namespace

boost::asio::awaitable<HttpReply> AnswerTokenizer(ServerContext* context,
                                                  std::shared_ptr<SocketStream> stream,
                                                  HttpRequest request, bool detokenize) {
  HttpReply reply;
  const std::string tenant = request.caller.tenant;
  StatusOr<std::string> answer = std::string();
  try {
    auto shared = std::make_shared<HttpRequest>(std::move(request));
    std::function<StatusOr<std::string>()> work = [=]() -> StatusOr<std::string> {
      const auto handler = detokenize ? Detokenize : Tokenize;
      return handler(shared->body, context->limits().json, *context->backend);
    };
    answer = co_await context->RunOnHelper(stream, std::move(work));
  } catch (...) {
    answer = StatusFromException();
  }
  if (answer.ok()) {
    reply.body = *std::move(answer);
  } else {
    reply = RejectionReply(answer.status(), *context->backend, tenant);
  }
  co_return reply;
}

}  // namespace ropeway::server
