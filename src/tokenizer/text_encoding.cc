#include "tokenizer/text_encoding.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "tokenizer/characters.h"

namespace ropeway::tokenizer {

TokenLengths::TokenLengths(const TokenTable& table, const TextModel& model) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    // An added token may take along any white space beside it.
    counts_[byte] = model.Counts(value) && !(table.takes_space() && IsByteOfSpace(value));
  }
  longest_.assign(size_t{1} << 16U, 1);
  if (!known()) return;
  std::string kept;
  for (TokenId id = 0; id < static_cast<TokenId>(table.size()); ++id) {
    kept.clear();
    for (const char byte : table.Bytes(id, true)) {
      if (Counts(static_cast<uint8_t>(byte))) kept.push_back(byte);
    }
    if (kept.size() < 2) continue;
    uint32_t& longest = longest_[static_cast<size_t>(static_cast<uint8_t>(kept[0])) << 8U |
                                 static_cast<uint8_t>(kept[1])];
    longest = std::max(longest, static_cast<uint32_t>(kept.size()));
  }
}

Before BeforeSegment(const TokenTable& table, std::optional<TokenId> token) {
  if (!token) return Before::kNothing;
  return table.IsAdded(*token) && !table.IsBehindSpace(*token) ? Before::kAddedToken
                                                               : Before::kText;
}

TextEncoding::TextEncoding(const Parts* parts, std::string_view text, const EncodeOptions& options,
                           size_t most)
    : table_(*parts->table),
      model_(*parts->model),
      lengths_(*parts->lengths),
      end_id_(options.add_special ? parts->end : std::nullopt),
      text_(text),
      options_(options),
      most_(most),
      stage_(most < text.size() && lengths_.known() ? Stage::kCount : Stage::kFind),
      segment_(model_.NewEncoder()) {
  if (options.add_special && parts->begin) ids_.push_back(*parts->begin);
  if (!options.after) return;
  comes_after_ = BeforeSegment(table_, options.after);
  Work uncounted(0);
  SkipSpace(*options.after, &uncounted);
}

bool TextEncoding::Run(size_t units) {
  Work work(std::max<size_t>(units, 1));
  while (stage_ != Stage::kEnd) {
    if (!work.left()) return false;
    Advance(&work);
    if (least() > most_) stage_ = Stage::kEnd;
  }
  return true;
}

void TextEncoding::Advance(Work* work) {
  switch (stage_) {
    case Stage::kCount:
      return Count(work);
    case Stage::kFind:
      return Find(work);
    case Stage::kSegment:
      if (segment_->Run(work, &ids_)) EndSegment(work);
      return;
    case Stage::kEnd:
      return;
  }
}

// The fewest tokens that can cover the text: each reaches no further than the longest one that
// begins with the two bytes at some position that those before it reach.
void TextEncoding::Count(Work* work) {
  const size_t end = std::min(text_.size(), counted_ + work->window());
  work->SpendScan(end - counted_);
  for (; counted_ < end; ++counted_) {
    const auto byte = static_cast<uint8_t>(text_[counted_]);
    if (!lengths_.Counts(byte)) continue;
    if (before_ >= 0) {
      CountAt(lengths_.LongestFrom(static_cast<uint8_t>(before_), byte));
      if (least_ > most_) return;
    }
    before_ = byte;
  }
  if (counted_ < text_.size()) return;
  if (before_ >= 0) CountAt(1);
  stage_ = Stage::kFind;
}

void TextEncoding::CountAt(size_t longest) {
  furthest_ = std::max(furthest_, position_ + longest);
  if (position_++ != reach_) return;
  ++least_;
  reach_ = furthest_;
}

void TextEncoding::Find(Work* work) {
  size_t to = std::min(text_.size(), found_from_ + work->window());
  SpecialTokens::Limits limits = {.control_until = text_.size(),
                                  .segment = ordinary_,
                                  .segment_has_prefix = model_.AddsSpace(comes_after_)};
  const bool parse = options_.parse_special;
  if (parse) {
    // Within quoted text no control token begins, and none reaches into it.
    while (quoted_ < options_.quoted.size() && options_.quoted[quoted_].end <= found_from_) {
      ++quoted_;
    }
    if (quoted_ < options_.quoted.size()) {
      const Span& span = options_.quoted[quoted_];
      const bool inside = span.begin <= found_from_;
      limits.control_until = inside ? 0 : span.begin;
      to = std::min(to, inside ? span.end : span.begin);
    }
  }
  const SpecialTokens& added = parse ? table_.all_added() : table_.user_defined();
  found_ = added.FindFirst(text_, found_from_, to, limits);
  work->SpendScan((found_ ? found_->begin : to) - found_from_);
  found_from_ = to;
  if (!found_ && to < text_.size()) return;
  BeginSegment(work);
}

void TextEncoding::BeginSegment(Work* work) {
  ordinary_end_ = found_ ? found_->begin : text_.size();
  if (found_ && table_.StripsLeft(found_->id)) {
    const std::string_view text = text_.substr(ordinary_, ordinary_end_ - ordinary_);
    const size_t space = TrailingSpace(text);
    work->SpendScan(space);
    ordinary_end_ -= space;
  }
  if (found_ && table_.IsBehindSpace(found_->id) && ordinary_ < ordinary_end_) {
    const size_t space = LastSpace(text_.substr(ordinary_, ordinary_end_ - ordinary_));
    if (ordinary_end_ - ordinary_ > space || !model_.AddsSpace(comes_after_)) {
      ordinary_end_ -= space;
    } else {
      // The text's only space stands for the one that is written before it.
      comes_after_ = Before::kText;
    }
  }
  if (ordinary_ == ordinary_end_) return EndSegment(work);
  segment_->Begin(text_.substr(ordinary_, ordinary_end_ - ordinary_), comes_after_);
  stage_ = Stage::kSegment;
}

void TextEncoding::EndSegment(Work* work) {
  if (found_) ids_.push_back(found_->id);
  CheckRows();
  if (!found_) {
    if (end_id_) ids_.push_back(*end_id_);
    stage_ = Stage::kEnd;
    return;
  }
  ordinary_ = found_from_ = found_->begin + found_->length;
  comes_after_ = BeforeSegment(table_, found_->id);
  SkipSpace(found_->id, work);
  stage_ = Stage::kFind;
}

// An added token, or the unknown one, or a piece that has an added token's text.
void TextEncoding::CheckRows() {
  if (options_.without_row || table_.rows() == table_.size()) return;
  for (; checked_ < ids_.size(); ++checked_) {
    const TokenId id = ids_[checked_];
    if (table_.HasRow(id)) continue;
    const std::string name = base::PrintableText(table_.Text(id).substr(0, 64));
    throw EncodingError("the text has the token \"" + name + "\" (id " + std::to_string(id) +
                        "), which has no row in the model's embedding");
  }
}

void TextEncoding::SkipSpace(TokenId before, Work* work) {
  if (!table_.StripsRight(before)) return;
  const size_t space = LeadingSpace(text_.substr(ordinary_));
  work->SpendScan(space);
  ordinary_ += space;
  found_from_ = ordinary_;
}

}  // namespace ropeway::tokenizer
