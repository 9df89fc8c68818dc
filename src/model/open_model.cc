#include "model/open_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include "base/split_name.h"
#include "base/utf8.h"
#include "model/hf_folder.h"

namespace ropeway::model {
namespace {

// The folder's one model in GGUF.
StatusOr<std::unique_ptr<GgufFile>> OpenFolder(const std::string& path, Failures* failures) {
  if (IsHfFolder(path)) return OpenHfFolder(path, failures);
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    const std::optional<base::SplitName> split = base::ParseSplitName(name);
    if (name.ends_with(".gguf") && (!split || split->number == 1)) models.push_back(name);
  }
  if (models.size() == 1) return GgufFile::Open((std::filesystem::path(path) / models[0]).string());
  if (models.empty()) {
    return Status(StatusCode::kNotFound,
                  fmt::format("{}: is a directory without a model: it has neither a .gguf file nor "
                              "a config.json with .safetensors files",
                              path));
  }
  std::ranges::sort(models);
  const std::string names = fmt::format("{}", fmt::join(models, ", ")).substr(0, 500);
  return Status(StatusCode::kNotFound,
                fmt::format("{}: is a directory with {} models; name one of them: {}", path,
                            models.size(), base::PrintableText(names)));
}

StatusOr<std::unique_ptr<GgufFile>> OpenAny(const std::string& path, std::string_view quantize,
                                            Failures* failures) {
  if (!quantize.empty() && quantize != "q8_0" && quantize != "q4_0") {
    return InvalidArgument(fmt::format("quantize must be q8_0 or q4_0, not '{:.64}'", quantize),
                           "quantize");
  }
  try {
    std::error_code error;
    StatusOr<std::unique_ptr<GgufFile>> file = std::filesystem::is_directory(path, error)
                                                   ? OpenFolder(path, failures)
                                                   : GgufFile::Open(path);
    if (!file.ok() || quantize.empty()) return file;
    if (Status status = (*file)->Quantize(quantize); !status.ok()) return status;
    return file;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted,
                  path + ": not enough memory for the file's tables");
  } catch (const std::exception& e) {  // From the file system.
    return Status(StatusCode::kUnavailable, fmt::format("{}: {}", path, e.what()));
  }
}

}  // namespace

StatusOr<std::unique_ptr<GgufFile>> OpenModel(const std::string& path, std::string_view quantize,
                                              Failures* failures) {
  Failures own;
  if (failures == nullptr) failures = &own;
  StatusOr<std::unique_ptr<GgufFile>> file = OpenAny(path, quantize, failures);
  if (!file.ok() && failures->ok()) failures->Add(file.status());
  return file;
}

}  // namespace ropeway::model
