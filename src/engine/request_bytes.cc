#include "engine/request_bytes.h"

#include <string>
#include <variant>
#include <vector>

namespace ropeway {
namespace {

size_t BytesOf(const std::string& text) { return text.size(); }
size_t BytesOf(const std::vector<TokenId>& ids) { return ids.size() * sizeof(TokenId); }
size_t BytesOf(const std::vector<ChatMessage>& messages) {
  size_t bytes = messages.size() * sizeof(ChatMessage);
  for (const ChatMessage& message : messages) {
    bytes += message.role.size() + message.content.size() + message.name.size() +
             message.tool_call_id.size();
  }
  return bytes;
}

}  // namespace

size_t BytesOf(const Request& request) {
  size_t bytes = std::visit([](const auto& prompt) { return BytesOf(prompt); }, request.prompt);
  for (const std::string& stop : request.stop) bytes += sizeof(std::string) + stop.size();
  bytes += request.sampling.logit_bias.size() * sizeof(LogitBias);
  bytes += request.tenant.size() + request.cache_scope.size() + request.cache_salt.size();
  return bytes + BytesOf(request.stop_token_ids) + request.session_id.size();
}

}  // namespace ropeway
