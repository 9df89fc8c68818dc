#include "server/stored_record.h"

#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>

#include "store/session.h"

namespace ropeway::server {
namespace {

using store::RecordReader;
using store::RecordWriter;

constexpr uint64_t kVersion = 1;

// The least that one takes.
constexpr size_t kLeastPieceBytes = 2 * sizeof(uint64_t);
constexpr size_t kLeastCallBytes = 4 * sizeof(uint64_t);
constexpr size_t kLeastTokenBytes = 6 * sizeof(uint64_t);
constexpr size_t kLeastTopBytes = 2 * sizeof(uint64_t);
constexpr size_t kLeastStoredChoice = 3 * sizeof(uint64_t);

// A new field of one of these must be stored too, under a new version.
static_assert(sizeof(Usage) == 5 * sizeof(int32_t));
static_assert(sizeof(PhaseTimes) == 5 * sizeof(std::chrono::nanoseconds));
static_assert(sizeof(ToolCallDelta) == sizeof(int64_t) + 3 * sizeof(std::string));

Status DataLoss(const char* what) {
  return {StatusCode::kDataLoss, std::string(what) + " is damaged or has an unknown version"};
}

uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }

template <typename T>
T Signed(RecordReader* reader) {
  return static_cast<T>(static_cast<int64_t>(reader->Number()));
}

// --- Tokens, of answers that report them.

void PackLogprob(TokenId id, float logprob, const std::string& bytes, RecordWriter* writer) {
  writer->Number(Bits(id));
  writer->Number(std::bit_cast<uint32_t>(logprob));
  writer->Text(bytes);
}

void PackTokens(const std::vector<OutputToken>& tokens, RecordWriter* writer) {
  writer->Number(tokens.size());
  for (const OutputToken& token : tokens) {
    PackLogprob(token.id, token.logprob, token.bytes, writer);
    writer->Number(token.text_offset);
    writer->Number(token.top_logprobs.size());
    for (const TokenLogprob& top : token.top_logprobs) {
      writer->Number(Bits(top.id));
      writer->Number(std::bit_cast<uint32_t>(top.logprob));
    }
    writer->Number(token.top_bytes.size());
    for (const std::string& bytes : token.top_bytes) writer->Text(bytes);
  }
}

float UnpackFloat(RecordReader* reader) {
  return std::bit_cast<float>(static_cast<uint32_t>(reader->Number()));
}

std::vector<OutputToken> UnpackTokens(RecordReader* reader) {
  std::vector<OutputToken> tokens(reader->Count(kLeastTokenBytes));
  for (OutputToken& token : tokens) {
    token.id = Signed<TokenId>(reader);
    token.logprob = UnpackFloat(reader);
    token.bytes = reader->Text();
    token.text_offset = reader->Number();
    token.top_logprobs.resize(reader->Count(kLeastTopBytes));
    for (TokenLogprob& top : token.top_logprobs) {
      top.id = Signed<TokenId>(reader);
      top.logprob = UnpackFloat(reader);
    }
    token.top_bytes.resize(reader->Count(sizeof(uint64_t)));
    for (std::string& bytes : token.top_bytes) bytes = reader->Text();
  }
  return tokens;
}

// --- Pieces.

// What a piece has besides its text.
constexpr uint64_t kReasoning = 1;
constexpr uint64_t kCalls = 2;
constexpr uint64_t kTokens = 4;
constexpr uint64_t kPromptTokens = 8;

void PackPiece(const Delta& piece, RecordWriter* writer) {
  writer->Number((piece.reasoning.empty() ? 0U : kReasoning) |
                 (piece.tool_calls.empty() ? 0U : kCalls) | (piece.tokens.empty() ? 0U : kTokens) |
                 (piece.prompt_tokens.empty() ? 0U : kPromptTokens));
  writer->Text(piece.text);
  if (!piece.reasoning.empty()) writer->Text(piece.reasoning);
  if (!piece.tool_calls.empty()) {
    writer->Number(piece.tool_calls.size());
    for (const ToolCallDelta& call : piece.tool_calls) {
      writer->Number(Bits(call.index));
      writer->Text(call.id);
      writer->Text(call.name);
      writer->Text(call.arguments);
    }
  }
  if (!piece.tokens.empty()) PackTokens(piece.tokens, writer);
  if (!piece.prompt_tokens.empty()) PackTokens(piece.prompt_tokens, writer);
}

Delta UnpackPiece(RecordReader* reader) {
  Delta piece;
  const uint64_t has = reader->Number();
  piece.text = reader->Text();
  if ((has & kReasoning) != 0) piece.reasoning = reader->Text();
  if ((has & kCalls) != 0) {
    piece.tool_calls.resize(reader->Count(kLeastCallBytes));
    for (ToolCallDelta& call : piece.tool_calls) {
      call.index = Signed<int32_t>(reader);
      call.id = reader->Text();
      call.name = reader->Text();
      call.arguments = reader->Text();
    }
  }
  if ((has & kTokens) != 0) piece.tokens = UnpackTokens(reader);
  if ((has & kPromptTokens) != 0) piece.prompt_tokens = UnpackTokens(reader);
  return piece;
}

// --- Ends.

// The numbers of a Finish, in the order of their record.
template <typename Each>
void EachNumber(const Each& each) {
  each([](auto& f) -> auto& { return f.usage.prompt_tokens; });
  each([](auto& f) -> auto& { return f.usage.completion_tokens; });
  each([](auto& f) -> auto& { return f.usage.cached_tokens; });
  each([](auto& f) -> auto& { return f.usage.reasoning_tokens; });
  each([](auto& f) -> auto& { return f.seed; });
  each([](auto& f) -> auto& { return f.preemptions; });
  each([](auto& f) -> auto& { return f.first_token_step; });
  each([](auto& f) -> auto& { return f.session_tokens; });
  each([](auto& f) -> auto& { return f.batch_num; });
  each([](auto& f) -> auto& { return f.batch_size; });
  each([](auto& f) -> auto& { return f.max_tokens; });
}

template <typename Each>
void EachTime(const Each& each) {
  each([](auto& f) -> auto& { return f.times.queue; });
  each([](auto& f) -> auto& { return f.times.formation; });
  each([](auto& f) -> auto& { return f.times.prefill; });
  each([](auto& f) -> auto& { return f.times.decode; });
  each([](auto& f) -> auto& { return f.times.output; });
}

// With the reason goes the stop string, if there is one: records without any are as they were.
constexpr uint64_t kReasons = 4;

void PackFinish(const Finish& finish, RecordWriter* writer) {
  writer->Number(static_cast<uint64_t>(finish.reason) +
                 kReasons * static_cast<uint64_t>(finish.stop + 1));
  writer->Number(finish.usage.estimated ? 1 : 0);
  // The server has one limit that ends answers.
  writer->Number(*finish.cut_by != '\0' ? 1 : 0);
  EachNumber([&](auto field) { writer->Number(static_cast<uint64_t>(field(finish))); });
  EachTime([&](auto field) { writer->Number(Bits(field(finish).count())); });
}

Finish UnpackFinish(RecordReader* reader) {
  Finish finish;
  const uint64_t end = reader->Number();
  finish.reason = static_cast<FinishReason>(end % kReasons);
  finish.stop = static_cast<int32_t>(end / kReasons) - 1;
  finish.usage.estimated = reader->Number() != 0;
  finish.cut_by = reader->Number() != 0 ? kTokensPerMinute : "";
  EachNumber([&](auto field) {
    auto& number = field(finish);
    number = static_cast<std::remove_reference_t<decltype(number)>>(reader->Number());
  });
  EachTime([&](auto field) { field(finish) = std::chrono::nanoseconds(Signed<int64_t>(reader)); });
  return finish;
}

void PackChoice(const ChoicePart& part, RecordWriter* writer) {
  writer->Number(part.finish ? 1 : 0);
  if (part.finish) PackFinish(*part.finish, writer);
  writer->Ids(part.ids);
  writer->Number(part.count);
  part.pieces.ForEach(0, part.count, [writer](const Delta& piece) { PackPiece(piece, writer); });
}

StoredChoice UnpackChoice(RecordReader* reader) {
  StoredChoice choice;
  if (reader->Number() != 0) choice.finish = UnpackFinish(reader);
  choice.ids = reader->Ids();
  choice.pieces.resize(reader->Count(kLeastPieceBytes));
  for (Delta& piece : choice.pieces) piece = UnpackPiece(reader);
  return choice;
}

}  // namespace

std::string PackRequest(const StoredRequest& request) {
  RecordWriter writer;
  writer.Number(kVersion);
  for (const std::string* text :
       {&request.tenant, &request.id, &request.body, &request.cache_scope, &request.previous,
        &request.conversation, &request.basis, &request.head.id, &request.head.model,
        &request.head.fingerprint}) {
    writer.Text(*text);
  }
  writer.Number(Bits(request.head.created));
  writer.Number(static_cast<uint64_t>(request.head.priority));
  writer.Number(request.seed);
  writer.Number((request.background ? 1U : 0U) | (request.stream ? 2U : 0U));
  writer.Number(std::bit_cast<uint64_t>(request.weight));
  writer.Number(request.head.prompt_texts.size());
  for (const std::string& text : request.head.prompt_texts) writer.Text(text);
  return std::move(writer).Seal();
}

StatusOr<StoredRequest> UnpackRequest(std::string_view packed) {
  RecordReader reader(packed);
  StoredRequest request;
  const bool known = reader.Number() == kVersion;
  for (std::string* text : {&request.tenant, &request.id, &request.body, &request.cache_scope,
                            &request.previous, &request.conversation, &request.basis,
                            &request.head.id, &request.head.model, &request.head.fingerprint}) {
    *text = reader.Text();
  }
  request.head.stored = true;
  request.head.created = Signed<int64_t>(&reader);
  const uint64_t priority = reader.Number();
  request.head.priority = static_cast<Priority>(priority);
  request.seed = reader.Number();
  const uint64_t bits = reader.Number();
  request.background = (bits & 1U) != 0;
  request.stream = (bits & 2U) != 0;
  request.weight = std::bit_cast<double>(reader.Number());
  request.head.prompt_texts.resize(reader.Count(sizeof(uint64_t)));
  for (std::string& text : request.head.prompt_texts) text = reader.Text();
  if (!known || !reader.ok() || priority >= kNumPriorities)
    return DataLoss("The record of its request");
  return request;
}

std::string PackAnswer(api::AnswerState state, const std::optional<api::ApiError>& error,
                       const std::vector<ChoicePart>& choices) {
  RecordWriter writer;
  writer.Number(kVersion);
  writer.Number(static_cast<uint64_t>(state));
  writer.Number(error ? 1 : 0);
  if (error) {
    writer.Number(Bits(error->http_status));
    for (const std::string* text : {&error->message, &error->type, &error->param, &error->code}) {
      writer.Text(*text);
    }
  }
  writer.Number(choices.size());
  for (const ChoicePart& choice : choices) PackChoice(choice, &writer);
  return std::move(writer).Seal();
}

StatusOr<StoredAnswer> UnpackAnswer(std::string_view packed) {
  RecordReader reader(packed);
  StoredAnswer answer;
  const bool known = reader.Number() == kVersion;
  const uint64_t state = reader.Number();
  answer.state = static_cast<api::AnswerState>(state);
  if (reader.Number() != 0) {
    api::ApiError& error = answer.error.emplace();
    error.http_status = Signed<int>(&reader);
    for (std::string* text : {&error.message, &error.type, &error.param, &error.code}) {
      *text = reader.Text();
    }
  }
  answer.choices.resize(reader.Count(kLeastStoredChoice));
  for (StoredChoice& choice : answer.choices) choice = UnpackChoice(&reader);
  const bool valid = state <= static_cast<uint64_t>(api::AnswerState::kCancelled);
  if (!known || !valid || !reader.ok()) return DataLoss("The record of its output");
  return answer;
}

}  // namespace ropeway::server
