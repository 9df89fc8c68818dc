// The two parts of a stored answer's object in the store (store::ObjectChange).
#ifndef ROPEWAY_SERVER_STORED_RECORD_H_
#define ROPEWAY_SERVER_STORED_RECORD_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"
#include "server/piece_log.h"
#include "server/stored_answer.h"

namespace ropeway::server {

// The part that never changes.
std::string PackRequest(const StoredRequest& request);
// kDataLoss for what PackRequest did not make.
StatusOr<StoredRequest> UnpackRequest(std::string_view packed);

// What a record holds of a choice.
struct ChoicePart {
  PieceLog pieces;
  size_t count = 0;  // Of the pieces, the first that it holds.
  std::vector<TokenId> ids;
  std::optional<Finish> finish;
};

// The part that changes.
std::string PackAnswer(api::AnswerState state, const std::optional<api::ApiError>& error,
                       const std::vector<ChoicePart>& choices);
// kDataLoss for what PackAnswer did not make. Its request is null.
StatusOr<StoredAnswer> UnpackAnswer(std::string_view packed);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_RECORD_H_
