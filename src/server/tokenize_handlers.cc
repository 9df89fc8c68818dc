#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "api/json.h"
#include "api/openai_format.h"
#include "base/utf8.h"
#include "http/exchange.h"
#include "server/handlers.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

// A body of any of the paths.
struct TokenizerDraft : api::ChatDraft {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::string> content;  // llama.cpp's name of it, and so are the next two.
  std::optional<bool> add_special;
  bool with_pieces = false;
  std::optional<Chat> chat;  // Of the fields, once all are read.
  std::optional<std::vector<TokenId>> tokens;
  std::optional<bool> add_special_tokens;
  bool return_token_strs = false;
};

Status ReadTokens(const json& value, const std::string& field, TokenizerDraft* draft) {
  if (!value.is_array()) return api::Mismatch(value, field, "a list of token ids");
  return api::Store(api::ReadTokenIds(value, field), &draft->tokens);
}

using D = TokenizerDraft;
using TokenizerFields = api::FieldTable<TokenizerDraft>;

const TokenizerFields& TokenizeFields() {
  static const TokenizerFields table = [] {
    auto readers = api::ChatReaders<TokenizerDraft>();
    readers.insert({{"model", api::FieldOf(api::ReadString, &D::model)},
                    {"prompt", api::FieldOf(api::ReadString, &D::prompt)},
                    {"content", api::FieldOf(api::ReadString, &D::content)},
                    {"add_special", api::FieldOf(api::ReadBool, &D::add_special)},
                    {"with_pieces", api::FieldOf(api::ReadBool, &D::with_pieces)},
                    {"add_special_tokens", api::FieldOf(api::ReadBool, &D::add_special_tokens)},
                    {"return_token_strs", api::FieldOf(api::ReadBool, &D::return_token_strs)}});
    return TokenizerFields{api::kTokenize, std::move(readers)};
  }();
  return table;
}

const TokenizerFields& TemplateFields() {
  static const TokenizerFields table = [] {
    auto readers = api::ChatReaders<TokenizerDraft>();
    readers.emplace("model", api::FieldOf(api::ReadString, &D::model));
    return TokenizerFields{api::kTokenize, std::move(readers)};
  }();
  return table;
}

const TokenizerFields& DetokenizeFields() {
  static const TokenizerFields table = {
      api::kDetokenize,
      {{"model", api::FieldOf(api::ReadString, &D::model)}, {"tokens", ReadTokens}}};
  return table;
}

// `ignored`: see ApiRequest.
StatusOr<TokenizerDraft> ReadDraft(std::string_view body, const api::BodyLimits& limits,
                                   const TokenizerFields& fields,
                                   std::vector<std::string>* ignored) {
  StatusOr<json> document = api::ReadJson(body, limits.json);
  if (!document.ok()) return document.status();
  TokenizerDraft draft;
  api::FieldReport report(fields.dialect, limits);
  draft.report = &report;
  draft.text = body;
  draft.bounds = limits.json;
  Status status = api::ReadFields(*document, fields, &draft);
  *ignored = report.ignored();
  if (!status.ok()) return status;
  if (draft.has_messages) draft.chat = api::TakeChat(&draft, &report);
  if (status = report.status(); !status.ok()) return status;
  return draft;
}

// What one piece of an answer writes: about a millisecond's worth.
constexpr size_t kIdsAtOnce = 16384;
constexpr size_t kTokenStringsAtOnce = 2048;
constexpr size_t kDecodedAtOnce = 8192;  // Ids.
constexpr size_t kTextAtOnce = size_t{256} << 10;

// An end of a part of `text` at about `at`, between two characters.
size_t PartEnd(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  size_t end = at;
  const auto continues = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; };
  while (at - end < 4 && continues()) --end;
  // So many of them are no character.
  return at - end < 4 ? end : at;
}

// Appends the part of `text` that begins at `at` to a JSON string; returns where it ends.
size_t AppendPart(std::string_view text, size_t at, std::string* to) {
  const size_t end = PartEnd(text, at + kTextAtOnce);
  // Without its quotation marks.
  std::string part;
  api::AppendJsonString(text.substr(at, end - at), &part);
  to->append(part, 1, part.size() - 2);
  return end;
}

// One request to one of the paths on its way through the helper threads, in pieces. What it holds
// in memory is charged to its tenant's answers as it grows.
class TokenizerJob {
 public:
  using Answer = std::optional<StatusOr<std::string>>;

  // Takes the body of `request`.
  TokenizerJob(ServerContext* context, http::HttpRequest* request)
      : context_(context),
        caller_(request->caller),
        body_(std::move(request->body)),
        body_hold_(std::move(request->body_hold)) {}
  virtual ~TokenizerJob() = default;
  TokenizerJob(const TokenizerJob&) = delete;
  TokenizerJob& operator=(const TokenizerJob&) = delete;

  // Does the next piece; the answer, or what is wrong, once it is there.
  Answer Run() {
    const StatusOr<bool> done = read_ ? Step() : ReadBody();
    if (!done.ok()) return done.status();
    if (Status status = Charge(); !status.ok()) return status;
    if (!*done) return std::nullopt;
    return std::move(text_);
  }
  // See ApiRequest. Once it does not run any more.
  const std::vector<std::string>& ignored() const { return ignored_; }

 protected:
  // Takes what the body says. Puts the names of fields that it does not know into `ignored`.
  virtual Status TakeBody(std::string_view body, std::vector<std::string>* ignored) = 0;
  // Does a piece of the answer; whether that is complete.
  virtual StatusOr<bool> Step() = 0;
  // The memory of what it has made besides the answer's text.
  virtual size_t bytes() const = 0;

  const service::FrontDesk& backend() const { return *context_->backend; }
  const api::BodyLimits& limits() const { return context_->limits().body; }
  StatusOr<service::ModelInfo> Model(const std::string& name) const {
    return ModelToAsk(name, caller_, *context_);
  }

  std::string text_;  // The answer so far, JSON.

 private:
  StatusOr<bool> ReadBody() {
    read_ = true;
    Status status = TakeBody(body_, &ignored_);
    body_ = std::string();
    body_hold_.Release();
    if (!status.ok()) return status;
    return false;
  }

  Status Charge() {
    const size_t all = bytes() + text_.capacity();
    if (all <= http::kFreeAnswerBytes) return {};
    const auto more = static_cast<int64_t>(all) - hold_.amount();
    if (more <= 0) return {};
    const bool good = hold_.taken() ? hold_.Grow(more)
                                    : context_->http.answers->Take(caller_.tenant, more, &hold_);
    if (good) return {};
    context_->http.metrics.CountCutAnswer();
    return http::TooManyAnswers();
  }

  ServerContext* const context_;
  const http::Caller caller_;
  std::string body_;  // Released once it is read.
  base::SharedBudget::Hold body_hold_;
  base::SharedBudget::Hold hold_;
  bool read_ = false;
  std::vector<std::string> ignored_;
};

// One whose body is a draft.
class DraftJob : public TokenizerJob {
 public:
  using TokenizerJob::TokenizerJob;

 protected:
  virtual Status Read(TokenizerDraft* draft, const service::ModelInfo& model) = 0;
  virtual const TokenizerFields& fields() const = 0;

 private:
  Status TakeBody(std::string_view body, std::vector<std::string>* ignored) override {
    StatusOr<TokenizerDraft> draft = ReadDraft(body, limits(), fields(), ignored);
    if (!draft.ok()) return draft.status();
    StatusOr<service::ModelInfo> model = Model(draft->model);
    if (!model.ok()) return model.status();
    return Read(&*draft, *model);
  }
};

// {"model"?, "prompt" | "messages", "add_special_tokens"?, "add_generation_prompt"?,
// "return_token_strs"?} -> {"count", "max_model_len", "tokens"[, "token_strs"]}. Special tokens
// written in a prompt are recognised. As llama.cpp's clients ask: {"content", "add_special"?,
// "with_pieces"?}; with pieces each of the tokens is {"id", "piece"}. A failed status names the
// field at fault.
class TokenizeJob final : public DraftJob {
 public:
  using DraftJob::DraftJob;

 private:
  const TokenizerFields& fields() const override { return TokenizeFields(); }
  size_t bytes() const override {
    return encoding_ != nullptr ? encoding_->bytes() : ids_.capacity() * sizeof(TokenId);
  }

  Status Read(TokenizerDraft* draft, const service::ModelInfo& model) override {
    if (draft->prompt && draft->content) {
      return InvalidArgument("'prompt' and 'content' are the same; give one of them.", "content");
    }
    if ((draft->prompt || draft->content) == draft->chat.has_value()) {
      return InvalidArgument("Exactly one of 'prompt' and 'messages' is required.", "prompt");
    }
    pieces_ = draft->with_pieces;
    max_model_len_ = model.max_model_len;
    strings_ = draft->return_token_strs;
    StatusOr<std::unique_ptr<service::Tokenization>> begun = Begin(draft);
    if (!begun.ok()) return begun.status();
    encoding_ = *std::move(begun);
    return {};
  }

  StatusOr<std::unique_ptr<service::Tokenization>> Begin(TokenizerDraft* draft) {
    // vLLM adds special tokens to a prompt, and llama.cpp none to a content.
    std::optional<bool> special = draft->add_special_tokens;
    if (!special) special = draft->add_special;
    if (draft->prompt) {
      return backend().Tokenize(*std::move(draft->prompt), special.value_or(true));
    }
    if (draft->content) {
      return backend().Tokenize(*std::move(draft->content), special.value_or(false));
    }
    return backend().TokenizeChat(*std::move(draft->chat), special.value_or(false));
  }

  StatusOr<bool> Step() override {
    if (encoding_ != nullptr) {
      const StatusOr<bool> done = encoding_->Step();
      if (!done.ok()) return done.status();
      if (!*done) return false;
      ids_ = encoding_->Take();
      encoding_.reset();
      text_ = fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[", ids_.size(),
                          max_model_len_);
      return false;
    }
    if (listed_ < ids_.size() && pieces_) {
      Status status = AppendPieces();
      if (!status.ok()) return status;
      return false;
    }
    if (listed_ < ids_.size()) {
      AppendIds();
      return false;
    }
    if (strings_ && shown_ == 0) text_ += "],\"token_strs\":[";
    if (strings_ && shown_ < ids_.size()) {
      Status status = AppendTokenStrings();
      if (!status.ok()) return status;
      return false;
    }
    text_ += "]}";
    return true;
  }

  // Writes the numbers directly: as JSON values, millions of them would take ten times as long.
  void AppendIds() {
    const size_t end = std::min(ids_.size(), listed_ + kIdsAtOnce);
    for (; listed_ < end; ++listed_) {
      if (listed_ > 0) text_.push_back(',');
      const fmt::format_int digits(ids_[listed_]);
      text_.append(digits.data(), digits.size());
    }
  }

  // A piece that is not UTF-8 is a list of its bytes.
  Status AppendPieces() {
    const size_t end = std::min(ids_.size(), listed_ + kTokenStringsAtOnce);
    for (; listed_ < end; ++listed_) {
      StatusOr<std::string> bytes = backend().Detokenize({ids_[listed_]});
      if (!bytes.ok()) return bytes.status();
      text_ += fmt::format("{}{{\"id\":{},\"piece\":", listed_ > 0 ? "," : "", ids_[listed_]);
      if (base::IsValidUtf8(*bytes)) {
        api::AppendJsonString(*bytes, &text_);
      } else {
        std::vector<int> values;
        for (const char c : *bytes) values.push_back(static_cast<unsigned char>(c));
        text_ += fmt::format("[{}]", fmt::join(values, ","));
      }
      text_ += "}";
    }
    return {};
  }

  Status AppendTokenStrings() {
    const size_t end = std::min(ids_.size(), shown_ + kTokenStringsAtOnce);
    for (; shown_ < end; ++shown_) {
      if (shown_ > 0) text_.push_back(',');
      StatusOr<std::string> bytes = backend().Detokenize({ids_[shown_]});
      if (!bytes.ok()) return bytes.status();
      api::AppendJsonString(api::TokenKey(*bytes), &text_);
    }
    return {};
  }

  int32_t max_model_len_ = 0;
  bool strings_ = false;
  bool pieces_ = false;
  std::unique_ptr<service::Tokenization> encoding_;  // Until all ids are there.
  std::vector<TokenId> ids_;
  size_t listed_ = 0;  // Ids that are in "tokens".
  size_t shown_ = 0;   // Ids that are in "token_strs".
};

// {"model"?, "tokens"} -> {"prompt", "content"}, in pieces. Both are the text: vLLM's clients read
// the first, llama.cpp's the second.
class DetokenizeJob final : public DraftJob {
 public:
  using DraftJob::DraftJob;

 private:
  const TokenizerFields& fields() const override { return DetokenizeFields(); }
  size_t bytes() const override { return ids_.capacity() * sizeof(TokenId) + decoded_.capacity(); }

  Status Read(TokenizerDraft* draft, const service::ModelInfo& /*model*/) override {
    if (!draft->tokens) return InvalidArgument("'tokens' is required.", "tokens");
    ids_ = *std::move(draft->tokens);
    return {};
  }

  StatusOr<bool> Step() override {
    if (next_ < ids_.size()) {
      const size_t end = std::min(ids_.size(), next_ + kDecodedAtOnce);
      const auto at = [this](size_t i) { return ids_.begin() + static_cast<std::ptrdiff_t>(i); };
      StatusOr<std::string> part = backend().Detokenize({at(next_), at(end)});
      if (!part.ok()) return part.status();
      decoded_ += *part;
      next_ = end;
      return false;
    }
    if (text_.empty()) text_ = "{\"prompt\":\"";
    written_ = AppendPart(decoded_, written_, &text_);
    if (written_ < decoded_.size()) return false;
    text_ += again_ ? "\"}" : "\",\"content\":\"";
    if (again_) return true;
    again_ = true;
    written_ = 0;
    return false;
  }

  std::vector<TokenId> ids_;
  size_t next_ = 0;      // Ids before it are decoded.
  std::string decoded_;  // Their text; any bytes.
  size_t written_ = 0;   // Bytes of it that are in the answer,
  bool again_ = false;   // which has it once already.
};

// {"messages", ...} -> {"prompt"}: what the model's chat template makes of a chat.
class TemplateJob final : public DraftJob {
 public:
  using DraftJob::DraftJob;

 private:
  const TokenizerFields& fields() const override { return TemplateFields(); }
  size_t bytes() const override { return rendering_ == nullptr ? 0 : rendering_->bytes(); }

  Status Read(TokenizerDraft* draft, const service::ModelInfo& /*model*/) override {
    if (!draft->chat) return InvalidArgument("'messages' is required.", "messages");
    StatusOr<std::unique_ptr<service::Tokenization>> begun =
        backend().TokenizeChat(*std::move(draft->chat), /*add_special=*/false);
    if (!begun.ok()) return begun.status();
    rendering_ = *std::move(begun);
    return {};
  }

  // The text is all that is wanted: it is not encoded.
  StatusOr<bool> Step() override {
    const std::string* const text = rendering_->text();
    if (text == nullptr) {
      const StatusOr<bool> done = rendering_->Step();
      return done.ok() ? StatusOr<bool>(false) : done;
    }
    if (text_.empty()) text_ = "{\"prompt\":\"";
    written_ = AppendPart(*text, written_, &text_);
    if (written_ < text->size()) return false;
    text_ += "\"}";
    return true;
  }

  std::unique_ptr<service::Tokenization> rendering_;
  size_t written_ = 0;  // Bytes of the text that are in the answer.
};

// A chat's tokens, counted.
class CountJob final : public TokenizerJob {
 public:
  CountJob(ServerContext* context, http::HttpRequest* request, api::ApiFormatMaker make_format)
      : TokenizerJob(context, request), format_(make_format()) {}

 private:
  Status TakeBody(std::string_view body, std::vector<std::string>* ignored) override {
    Status status = format_->Parse(body, limits());
    api::ApiRequest* const api = format_->request();
    *ignored = api->ignored;
    if (!status.ok()) return status;
    if (StatusOr<service::ModelInfo> model = Model(api->request.model); !model.ok()) {
      return model.status();
    }
    auto& chat = std::get<Chat>(api->prompts.front());
    StatusOr<std::unique_ptr<service::Tokenization>> begun =
        backend().TokenizeChat(std::move(chat), /*add_special=*/false);
    if (!begun.ok()) return begun.status();
    encoding_ = *std::move(begun);
    return {};
  }

  StatusOr<bool> Step() override {
    StatusOr<bool> done = encoding_->Step();
    if (!done.ok() || !*done) return done;
    api::ChoiceOutput counted;
    counted.finish.usage.prompt_tokens = static_cast<int32_t>(encoding_->Take().size());
    text_ = format_->Whole({counted});
    return true;
  }

  size_t bytes() const override { return encoding_ != nullptr ? encoding_->bytes() : 0; }

  const std::unique_ptr<api::ApiFormat> format_;
  std::unique_ptr<service::Tokenization> encoding_;
};

// `more`: what the job is made of besides.
template <typename Job, typename... More>
boost::asio::awaitable<http::Sent> AnswerTokenizer(std::shared_ptr<http::Exchange> exchange,
                                                   ServerContext* context, More... more) {
  const std::shared_ptr<http::SocketStream>& stream = exchange->stream;
  stream->set_answering(true);
  StatusOr<std::string> answer = std::string();
  std::shared_ptr<Job> job;  // The answer's memory is charged by it until it is sent.
  try {
    base::Flow flow = http::FlowOf(exchange->request.caller);
    job = std::make_shared<Job>(context, &exchange->request, more...);
    HelperWork work = [job] { return job->Run(); };
    answer = co_await context->RunOnHelper(std::move(flow), stream, std::move(work));
    if (!stream->gone()) context->TellIgnored(job->ignored(), exchange.get());
  } catch (...) {
    answer = http::StatusFromException();
  }
  stream->set_answering(false);
  job.reset();
  http::HttpReply reply = context->ReplyOf(std::move(answer), exchange->request.caller.tenant);
  const http::Sent sent = co_await exchange->Send(std::move(reply));
  co_return sent;
}

template <typename Job, typename... More>
http::Route::Handler TokenizerHandler(ServerContext* context, More... more) {
  return [=](std::shared_ptr<http::Exchange> exchange) {
    return AnswerTokenizer<Job>(std::move(exchange), context, more...);
  };
}

}  // namespace

http::Route::Handler Tokenizes(ServerContext* context) {
  return TokenizerHandler<TokenizeJob>(context);
}

http::Route::Handler Detokenizes(ServerContext* context) {
  return TokenizerHandler<DetokenizeJob>(context);
}

http::Route::Handler AppliesTemplate(ServerContext* context) {
  return TokenizerHandler<TemplateJob>(context);
}

http::Route::Handler CountsTokens(ServerContext* context, api::ApiFormatMaker make_format) {
  return TokenizerHandler<CountJob>(context, make_format);
}

}  // namespace ropeway::server
