#include "store/conversation.h"

#include <utility>

#include "store/session.h"

namespace ropeway::store {
namespace {

constexpr uint64_t kVersion = 2;
constexpr size_t kLeastItemBytes = 8;  // Its length.

}  // namespace

std::string PackConversation(const Conversation& conversation) {
  RecordWriter writer;
  writer.Number(kVersion);
  writer.Text(conversation.metadata);
  writer.Number(conversation.items.size());
  for (const std::string& item : conversation.items) writer.Text(item);
  return std::move(writer).Seal();
}

StatusOr<Conversation> UnpackConversation(std::string_view packed) {
  RecordReader reader(packed);
  const uint64_t version = reader.Number();
  Conversation conversation;
  conversation.metadata = reader.Text();
  conversation.items.resize(reader.Count(kLeastItemBytes));
  for (std::string& item : conversation.items) item = reader.Text();
  if (!reader.ok() || version != kVersion) {
    return Status(StatusCode::kDataLoss, "its record is damaged or has an unknown version");
  }
  return conversation;
}

}  // namespace ropeway::store
