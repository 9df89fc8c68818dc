// The folder of fetched models. A model is a .gguf file in it, or a folder of its own with a split
// one or one in Hugging Face's format; beside it a hidden note says where it came from.
#ifndef ROPEWAY_HUB_MODEL_STORE_H_
#define ROPEWAY_HUB_MODEL_STORE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::hub {

// Thread rule: one thread at a time; processes may share the folder.
class ModelStore {
 public:
  // $XDG_CACHE_HOME/ropeway/models, or ~/.cache/ropeway/models.
  static std::filesystem::path DefaultFolder();

  explicit ModelStore(std::filesystem::path folder = DefaultFolder())
      : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }

  struct Model {
    std::string name;            // Without ".gguf".
    std::filesystem::path path;  // What GgufFile::Open takes.
    uint64_t bytes = 0;          // Of all its files.
    std::string source;          // "": not known.
  };
  // By name.
  std::vector<Model> List() const;
  // A model by its name, with or without ".gguf".
  std::optional<Model> Find(std::string_view name) const;

  // Deletes a model with its note; kNotFound if there is none.
  Status Remove(std::string_view name);

  // Writes down where the model at `path` came from. What cannot be written is no failure.
  void Note(const std::filesystem::path& path, const std::string& source);

  // A folder for what is under way to `name`: kept until it is complete, so that it can be resumed.
  std::filesystem::path PartsOf(std::string_view name) const;

 private:
  std::optional<Model> ModelAt(const std::filesystem::path& path) const;

  const std::filesystem::path folder_;
};

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_MODEL_STORE_H_
