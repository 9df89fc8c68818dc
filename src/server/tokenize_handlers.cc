#include "server/tokenize_handlers.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/chat_messages.h"
#include "server/event_writer.h"
#include "server/json_fields.h"
#include "server/logprobs_json.h"
#include "server/plain_handlers.h"
#include "server/request_draft.h"
#include "server/send_answer.h"

namespace ropeway {
namespace {

using nlohmann::json;

// What a body of either path asks for.
struct TokenizerDraft {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::vector<ChatMessage>> messages;
  std::optional<std::vector<TokenId>> tokens;
  std::optional<bool> add_special_tokens;
  bool add_generation_prompt = true;
  bool return_token_strs = false;
};

using Reader = Status (*)(const json& value, const std::string& field, TokenizerDraft* draft);
using ReaderTable = std::unordered_map<std::string, Reader>;

// A reader of one field, or one that refuses what would change the answer.
template <typename T, auto Read, auto Member>
Status ReadInto(const json& value, const std::string& field, TokenizerDraft* draft) {
  return Store(StatusOr<T>(Read(value, field)), &(draft->*Member));
}

template <FieldReader Check>
Status Checked(const json& value, const std::string& field, TokenizerDraft*) {
  return Check(value, field, nullptr);
}

Status ReadTokens(const json& value, const std::string& field, TokenizerDraft* draft) {
  if (!value.is_array()) return Mismatch(value, field, "a list of token ids");
  return Store(ReadTokenIds(value, field), &draft->tokens);
}

using D = TokenizerDraft;

const ReaderTable& TokenizeTable() {
  static const ReaderTable table = {
      {"model", ReadInto<std::string, ReadString, &D::model>},
      {"prompt", ReadInto<std::string, ReadString, &D::prompt>},
      {"messages", ReadInto<std::vector<ChatMessage>, ReadChatMessages, &D::messages>},
      {"add_special_tokens", ReadInto<bool, ReadBool, &D::add_special_tokens>},
      {"add_generation_prompt", ReadInto<bool, ReadBool, &D::add_generation_prompt>},
      {"return_token_strs", ReadInto<bool, ReadBool, &D::return_token_strs>},
      {"continue_final_message", Checked<RefuseUnlessFalse>},
      {"chat_template", Checked<Refuse>},
      {"chat_template_kwargs", Checked<RefuseUnlessEmpty>},
      {"mm_processor_kwargs", Checked<RefuseUnlessEmpty>},
      {"tools", Checked<RefuseUnlessEmpty>}};
  return table;
}

const ReaderTable& DetokenizeTable() {
  static const ReaderTable table = {{"model", ReadInto<std::string, ReadString, &D::model>},
                                    {"tokens", ReadTokens}};
  return table;
}

StatusOr<TokenizerDraft> ReadDraft(std::string_view body, const JsonBounds& bounds,
                                   const ReaderTable& table) {
  StatusOr<json> document = ReadJson(body, bounds);
  if (!document.ok()) return document.status();
  if (!document->is_object()) return InvalidArgument("The body must be a JSON object.");
  TokenizerDraft draft;
  for (const auto& [name, value] : document->items()) {
    const auto found = table.find(name);
    if (found == table.end()) return UnknownField(ShownName(name));
    if (value.is_null()) continue;
    Status status = found->second(value, name, &draft);
    if (!status.ok()) return status;
  }
  return draft;
}

StatusOr<std::vector<TokenId>> Encode(const TokenizerDraft& draft, const Backend& backend) {
  if (draft.messages) {
    return backend.TokenizeChat(*draft.messages, draft.add_generation_prompt,
                                draft.add_special_tokens.value_or(false));
  }
  return backend.Tokenize(*draft.prompt, draft.add_special_tokens.value_or(true));
}

// Millions of numbers are written as they come: as JSON values they would take ten times as long.
void AppendIds(const std::vector<TokenId>& ids, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out->push_back(',');
    const fmt::format_int digits(ids[i]);
    out->append(digits.data(), digits.size());
  }
  out->push_back(']');
}

Status AppendTokenStrings(const std::vector<TokenId>& ids, const Backend& backend,
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

}  // namespace

StatusOr<std::string> Tokenize(std::string_view body, const JsonBounds& bounds,
                               const Backend& backend) {
  StatusOr<TokenizerDraft> draft = ReadDraft(body, bounds, TokenizeTable());
  if (!draft.ok()) return draft.status();
  if (draft->prompt.has_value() == draft->messages.has_value()) {
    return InvalidArgument("Exactly one of 'prompt' and 'messages' is required.", "prompt");
  }
  StatusOr<ModelInfo> model = FindModel(draft->model, backend);
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

StatusOr<std::string> Detokenize(std::string_view body, const JsonBounds& bounds,
                                 const Backend& backend) {
  StatusOr<TokenizerDraft> draft = ReadDraft(body, bounds, DetokenizeTable());
  if (!draft.ok()) return draft.status();
  if (!draft->tokens) return InvalidArgument("'tokens' is required.", "tokens");
  StatusOr<ModelInfo> model = FindModel(draft->model, backend);
  if (!model.ok()) return model.status();
  StatusOr<std::string> text = backend.Detokenize(*draft->tokens);
  if (!text.ok()) return text.status();
  std::string answer = "{\"prompt\":";
  AppendJsonString(*text, &answer);
  answer += '}';
  return answer;
}

boost::asio::awaitable<HttpReply> AnswerTokenizer(ServerContext* context, HttpRequest request,
                                                  bool detokenize) {
  const ServerLimits& limits = context->limits();
  const JsonBounds bounds = {.max_depth = limits.max_json_depth,
                             .max_values = limits.max_json_values};
  const Backend& backend = *context->backend;
  std::function<StatusOr<std::string>()> work = [&]() -> StatusOr<std::string> {
    return detokenize ? Detokenize(request.body, bounds, backend)
                      : Tokenize(request.body, bounds, backend);
  };
  StatusOr<std::string> answer = std::string();
  try {
    answer = co_await context->helpers.Run<std::string>(std::move(work));
  } catch (...) {
    answer = HelperPool::FromException();
  }
  HttpReply reply;
  if (answer.ok()) {
    reply.body = *std::move(answer);
  } else {
    reply = RefusalFor(answer.status(), backend);
  }
  co_return reply;
}

}  // namespace ropeway
