// A model folder in Hugging Face's format: model.safetensors, config.json and the index of several
// such files, then the whole load where they are sound enough to come so far.
//
// An input is up to three texts with a line "----" between them: config.json, the index, and the
// weights. One without such a line is the weights, for a small llama model.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "executor/weights.h"
#include "fuzz/fuzz_target.h"
#include "model/gguf.h"
#include "model/model_tensors.h"
#include "model/open_model.h"

namespace ropeway::fuzz {
namespace {

constexpr std::string_view kBetween = "\n----\n";
constexpr uint64_t kMostRead = uint64_t{16} << 20;

constexpr std::string_view kLlama =
    R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true})";

// A folder of this process.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ropeway-fuzz-XXXXXX").string();
    Require(mkdtemp(pattern.data()) != nullptr, "no folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

  // Empty: there is no such file.
  void Put(const char* name, std::string_view bytes) const {
    const std::string path = path_ + "/" + name;
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    if (bytes.empty()) return;
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::string path_;
};

std::string_view TakePart(std::string_view* rest) {
  const size_t end = rest->find(kBetween);
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(end == rest->npos ? rest->size() : end + kBetween.size());
  return part;
}

void Fill(std::string_view input, const Folder& folder) {
  std::string_view config = kLlama;
  std::string_view index;
  std::string_view weights = input;
  if (input.find(kBetween) != input.npos) {
    config = TakePart(&input);
    index = TakePart(&input);
    weights = input;
  }
  folder.Put("config.json", config);
  folder.Put("model.safetensors.index.json", index);
  folder.Put("model.safetensors", weights);
}

// Each tensor's bytes are there, from its beginning to its end.
void CheckTensors(const model::GgufFile& file) {
  uint64_t read = 0;
  for (const model::GgufTensor& tensor : file.tensors()) {
    read += tensor.bytes;
    if (read > kMostRead) return;
    std::vector<std::byte> bytes(tensor.bytes);
    if (const Status status = file.Read(tensor.begin, bytes); !status.ok()) {
      RequirePrintableError(status);
    }
  }
}

void CheckFolder(const std::string& path, std::string_view quantize) {
  const auto opened = model::OpenModel(path, quantize);
  if (!opened.ok()) {
    RequirePrintableError(opened.status());
    return;
  }
  CheckTensors(**opened);
  if (const auto tensors = model::BindTensors(**opened); !tensors.ok()) {
    RequirePrintableError(tensors.status());
    return;
  }
  const auto model = executor::Weights::Load(**opened, /*threads=*/1, /*max_positions=*/16);
  if (!model.ok()) RequirePrintableError(model.status());
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ropeway::fuzz::Folder folder;
  ropeway::fuzz::Fill({reinterpret_cast<const char*>(data), size}, folder);
  ropeway::fuzz::CheckFolder(folder.path(), "");
  ropeway::fuzz::CheckFolder(folder.path(), size % 2 == 0 ? "q8_0" : "q4_0");
  return 0;
}
