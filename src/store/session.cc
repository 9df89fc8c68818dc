#include "store/session.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <utility>

namespace ropeway::store {
namespace {

constexpr size_t kNumberBytes = 8;
constexpr size_t kIdBytes = 4;

void Append(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t Parse(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

}  // namespace

uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void RecordWriter::Number(uint64_t value) { Append(value, kNumberBytes, &bytes_); }

void RecordWriter::Text(std::string_view text) {
  Number(text.size());
  bytes_ += text;
}

void RecordWriter::Ids(std::span<const TokenId> ids) {
  Number(ids.size());
  bytes_.reserve(bytes_.size() + ids.size() * kIdBytes + kNumberBytes);
  for (const TokenId id : ids) Append(static_cast<uint32_t>(id), kIdBytes, &bytes_);
}

std::string RecordWriter::Seal() && {
  Append(Checksum(bytes_), kNumberBytes, &bytes_);
  return std::move(bytes_);
}

RecordReader::RecordReader(std::string_view record) {
  broken_ = record.size() < kNumberBytes;
  if (broken_) return;
  bytes_ = record.substr(0, record.size() - kNumberBytes);
  broken_ = Parse(record.substr(bytes_.size())) != Checksum(bytes_);
}

std::string_view RecordReader::Take(size_t bytes) {
  if (broken_ || bytes > bytes_.size()) {
    broken_ = true;
    return {};
  }
  const std::string_view taken = bytes_.substr(0, bytes);
  bytes_.remove_prefix(bytes);
  return taken;
}

uint64_t RecordReader::Number() { return Parse(Take(kNumberBytes)); }

std::string RecordReader::Text() { return std::string(Take(Number())); }

size_t RecordReader::Count(size_t least_bytes) {
  const uint64_t count = Number();
  if (count > bytes_.size() / least_bytes) broken_ = true;
  return broken_ ? 0 : count;
}

std::vector<TokenId> RecordReader::Ids() {
  std::vector<TokenId> ids(Count(kIdBytes));
  for (TokenId& id : ids) id = static_cast<TokenId>(Parse(Take(kIdBytes)));
  return ids;
}

namespace {

constexpr uint64_t kHeadVersion = 1;
// 2: messages have what the assistant thought, its calls of tools, and parts.
constexpr uint64_t kStateVersion = 2;
constexpr uint64_t kOldestStateVersion = 1;

// A new field of a message must be stored too, under a new version.
static_assert(sizeof(ChatMessage) == 5 * sizeof(std::string) + 2 * sizeof(std::vector<size_t>));
static_assert(sizeof(ToolCall) == 3 * sizeof(std::string));
constexpr size_t kLeastMessageBytes = 4 * kNumberBytes;
constexpr size_t kLeastCallBytes = 3 * kNumberBytes;

void PackMessage(const ChatMessage& message, RecordWriter* writer) {
  for (const std::string* text : {&message.role, &message.content, &message.name,
                                  &message.tool_call_id, &message.reasoning_content}) {
    writer->Text(*text);
  }
  writer->Number(message.tool_calls.size());
  for (const ToolCall& call : message.tool_calls) {
    writer->Text(call.id);
    writer->Text(call.name);
    writer->Text(call.arguments);
  }
  writer->Number(message.part_sizes.size());
  for (const size_t size : message.part_sizes) writer->Number(size);
}

void UnpackMessage(uint64_t version, RecordReader* reader, ChatMessage* message) {
  for (std::string* text :
       {&message->role, &message->content, &message->name, &message->tool_call_id}) {
    *text = reader->Text();
  }
  if (version < 2) return;
  message->reasoning_content = reader->Text();
  message->tool_calls.resize(reader->Count(kLeastCallBytes));
  for (ToolCall& call : message->tool_calls) {
    call.id = reader->Text();
    call.name = reader->Text();
    call.arguments = reader->Text();
  }
  message->part_sizes.resize(reader->Count(kNumberBytes));
  for (size_t& size : message->part_sizes) size = reader->Number();
}

Status DataLoss(const char* what) { return {StatusCode::kDataLoss, what}; }

// Returns the record's version, at most `newest`.
StatusOr<uint64_t> ReadBeginning(RecordReader* reader, uint64_t oldest, uint64_t newest,
                                 const std::string& key) {
  const uint64_t found = reader->Number();
  const std::string owner = reader->Text();
  const bool known = found >= oldest && found <= newest;
  if (known && owner == key) return found;
  return !known ? DataLoss("its record is damaged or has an unknown version")
                : DataLoss("its record is another session's");
}

}  // namespace

Status CheckKind(const std::string& id, const SessionState& before, SessionState::Kind kind) {
  if (before.kind == kind) return {};
  return InvalidArgument(
      fmt::format("the turns of the session '{}' must be {}, like its first one", id,
                  before.kind == SessionState::Kind::kChat ? "chat messages" : "text or token ids"),
      "prompt");
}

std::string SessionKey(const std::string& tenant, const std::string& id) {
  return std::to_string(tenant.size()) + ":" + tenant + id;
}

bool ParseSessionKey(std::string_view key, std::string* tenant, std::string* id) {
  size_t size = 0;
  size_t i = 0;
  for (; i < key.size() && key[i] >= '0' && key[i] <= '9' && size < key.size(); ++i) {
    size = size * 10 + static_cast<size_t>(key[i] - '0');
  }
  if (i == 0 || i >= key.size() || key[i] != ':' || size > key.size() - i - 1) return false;
  *tenant = key.substr(i + 1, size);
  *id = key.substr(i + 1 + size);
  return true;
}

std::string PackHead(const std::string& key, const SessionHead& head) {
  RecordWriter writer;
  writer.Number(kHeadVersion);
  writer.Text(key);
  for (const int64_t value :
       {head.created_ms, head.last_used_ms, head.expires_ms, head.turns, head.tokens}) {
    writer.Number(static_cast<uint64_t>(value));
  }
  writer.Number(head.state_bytes);
  writer.Number(head.state_checksum);
  return std::move(writer).Seal();
}

StatusOr<SessionHead> UnpackHead(const std::string& key, std::string_view record) {
  RecordReader reader(record);
  const StatusOr<uint64_t> version = ReadBeginning(&reader, kHeadVersion, kHeadVersion, key);
  if (!version.ok()) return version.status();
  SessionHead head;
  for (int64_t* value :
       {&head.created_ms, &head.last_used_ms, &head.expires_ms, &head.turns, &head.tokens}) {
    *value = static_cast<int64_t>(reader.Number());
  }
  head.state_bytes = reader.Number();
  head.state_checksum = reader.Number();
  if (!reader.ok()) return DataLoss("its record is damaged");
  return head;
}

std::string PackState(const std::string& key, const SessionState& state) {
  RecordWriter writer;
  writer.Number(kStateVersion);
  writer.Text(key);
  writer.Number(static_cast<uint64_t>(state.kind));
  writer.Text(state.vocabulary);
  writer.Ids(state.ids);
  writer.Number(static_cast<uint64_t>(state.end_ids));
  writer.Text(state.tail);
  writer.Number(state.messages.size());
  for (const ChatMessage& message : state.messages) PackMessage(message, &writer);
  return std::move(writer).Seal();
}

StatusOr<SessionState> UnpackState(const std::string& key, const SessionHead& head,
                                   std::string_view record) {
  if (record.size() != head.state_bytes || Checksum(record) != head.state_checksum) {
    return DataLoss("its state is damaged or does not belong to its last turn");
  }
  RecordReader reader(record);
  const StatusOr<uint64_t> version =
      ReadBeginning(&reader, kOldestStateVersion, kStateVersion, key);
  if (!version.ok()) return version.status();
  SessionState state;
  const uint64_t kind = reader.Number();
  state.kind = kind == 0 ? SessionState::Kind::kChat : SessionState::Kind::kText;
  state.vocabulary = reader.Text();
  state.ids = reader.Ids();
  const uint64_t end_ids = reader.Number();
  state.end_ids = static_cast<int32_t>(end_ids);
  state.tail = reader.Text();
  state.messages.resize(reader.Count(kLeastMessageBytes));
  for (ChatMessage& message : state.messages) UnpackMessage(*version, &reader, &message);
  if (!reader.ok() || kind > 1 || end_ids > state.ids.size()) {
    return DataLoss("its state is damaged");
  }
  if (state.ids.empty()) state.tokens = head.tokens;
  return state;
}

}  // namespace ropeway::store
