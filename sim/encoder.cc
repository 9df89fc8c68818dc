#include "encoder.h"

#include <algorithm>

namespace ropeway::sim {

void SimEncoder::Add(SimRequest made) {
  const RequestId id = made.request.id;
  const base::Flow flow{.tenant = made.request.tenant,
                        .cls = static_cast<int>(made.request.priority),
                        .weight = made.request.tenant_weight};
  const auto text = std::make_shared<Text>(
      Text{.made = std::move(made), .came = clock_->Now(), .left = EncodingTime(setup_, id)});
  checks_->OnText(id);
  queue_.Add(flow, [this, text] { return Encode(text.get()); }, {});
}

bool SimEncoder::Encode(Text* text) {
  const RequestId id = text->made.request.id;
  const base::Duration took = std::min(text->left, kSimEncodingPiece);
  text->left -= took;
  end_ = begin_ + took;
  checks_->OnPiece(id, took);
  if (text->left > base::Duration{}) return false;
  checks_->OnEncoded(id, end_ - text->came);
  done_(std::move(text->made), end_);
  return true;
}

void SimEncoder::Run() {
  base::TimePoint begin = clock_->Now();
  while (true) {
    if (!piece_.empty()) {
      if (end_ > clock_->Now()) return;
      const bool charged = setup_.plant != Plant::kEncodingUncharged;
      queue_.Return(&piece_, charged ? end_ - begin_ : base::Duration{}, last_);
      piece_.clear();
      begin = end_;
    }
    piece_ = queue_.Take();
    if (piece_.empty()) return;
    begin_ = begin;
    last_ = piece_.front().piece();
  }
}

}  // namespace ropeway::sim
