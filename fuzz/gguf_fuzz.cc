// A model file: the parser, `inspect`'s report, the vocabulary with its tokenizer and chat
// template, the configuration, and the whole load where the file is small and sound enough to come
// so far.
#include <string>

#include "base/utf8.h"
#include "engine/model_vocabulary.h"
#include "executor/weights.h"
#include "fuzz/fuzz_target.h"
#include "model/describe.h"
#include "model/gguf.h"
#include "model/model_tensors.h"
#include "model/open_model.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/make_tokenizer.h"

namespace ropeway::fuzz {
namespace {

void CheckDescription(const std::string& text) {
  Require(base::IsValidUtf8(text), "the description is not UTF-8");
  for (const char c : text) {
    Require(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F),
            "the description holds a control character");
  }
}

void CheckVocabulary(const model::GgufFile& file) {
  const auto vocabulary = engine::ReadVocabulary(file);
  if (!vocabulary.ok()) {
    RequirePrintableError(vocabulary.status());
    return;
  }
  if (const auto parsed = tokenizer::ChatTemplate::Parse(vocabulary->chat_template); !parsed.ok()) {
    RequirePrintableError(parsed.status());
  }
  const auto tokenizer = tokenizer::MakeTokenizer(*vocabulary);
  if (!tokenizer.ok()) {
    RequirePrintableError(tokenizer.status());
    return;
  }
  for (const TokenId id : (*tokenizer)->Encode("Hello <|im_start|> world", {})) {
    Require(id >= 0 && id < (*tokenizer)->vocab_size(), "an id outside the vocabulary");
  }
}

void CheckModel(const model::GgufFile& file) {
  if (const auto tensors = model::BindTensors(file); !tensors.ok()) {
    RequirePrintableError(tensors.status());
    return;
  }
  const auto model = executor::Weights::Load(file, /*threads=*/1, /*max_positions=*/16);
  if (!model.ok()) RequirePrintableError(model.status());
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ropeway::fuzz::MemoryFile bytes(data, size);
  const auto file = ropeway::model::OpenModel(bytes.path());
  if (!file.ok()) {
    ropeway::fuzz::RequirePrintableError(file.status());
    return 0;
  }
  ropeway::fuzz::CheckDescription(ropeway::model::DescribeGguf(**file));
  ropeway::fuzz::CheckVocabulary(**file);
  ropeway::fuzz::CheckModel(**file);
  return 0;
}
