// For tests: what a tokenizer does that knows no pieces of a text.
#ifndef ROPEWAY_TOKENIZER_TEST_WHOLE_TOKENIZER_H_
#define ROPEWAY_TOKENIZER_TEST_WHOLE_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace ropeway::tokenizer {

class WholeTokenizer : public Tokenizer {
 public:
  // All of the text is one piece.
  std::unique_ptr<Encoding> Begin(std::string_view text, const EncodeOptions& options,
                                  size_t /*most*/) const override {
    return std::make_unique<WholeEncoding>(this, text, options);
  }

  std::optional<size_t> Covers(std::string_view text, TokenId id,
                               std::optional<TokenId> /*before*/) const override {
    const std::string_view bytes = Bytes(id, true);
    if (!text.starts_with(bytes)) return std::nullopt;
    return bytes.size();
  }

 private:
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
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEST_WHOLE_TOKENIZER_H_
