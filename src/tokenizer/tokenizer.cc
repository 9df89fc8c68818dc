#include "tokenizer/tokenizer.h"

namespace ropeway::tokenizer {
namespace {

// The text of a tokenizer that knows no pieces.
class WholeEncoding final : public Encoding {
 public:
  WholeEncoding(const Tokenizer* tokenizer, std::string_view text, const EncodeOptions& options)
      : tokenizer_(tokenizer), text_(text), options_(options) {}

  bool Run(size_t /*work*/) override {
    ids_ = tokenizer_->Encode(text_, options_);
    return true;
  }

 private:
  const Tokenizer* const tokenizer_;
  const std::string_view text_;
  const EncodeOptions options_;
};

}  // namespace

std::unique_ptr<Encoding> Tokenizer::Begin(std::string_view text, const EncodeOptions& options,
                                           size_t /*most*/) const {
  return std::make_unique<WholeEncoding>(this, text, options);
}

std::optional<size_t> Tokenizer::Covers(std::string_view text, TokenId id,
                                        std::optional<TokenId> /*before*/) const {
  const std::string_view bytes = Bytes(id, true);
  if (!text.starts_with(bytes)) return std::nullopt;
  return bytes.size();
}

}  // namespace ropeway::tokenizer
