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

// What is under way to one model is one process's at a time: this is held by the one that fetches
// it, or deletes what has come. It goes with the process, so a kill leaves no lock.
class PartsLock {
 public:
  // Makes the folder if there is none. kUnavailable, naming it, if another process has it.
  static StatusOr<PartsLock> Take(const std::filesystem::path& folder);

  PartsLock(PartsLock&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}
  PartsLock& operator=(PartsLock&&) = delete;
  ~PartsLock();

 private:
  explicit PartsLock(int folder) : folder_(folder) {}

  int folder_ = -1;  // Open; locked, where the file system has locks of folders.
};

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
    std::filesystem::path path;  // What model::OpenModel takes.
    uint64_t bytes = 0;          // Of all its files.
    std::string source;          // "": not known.
  };
  // By name.
  std::vector<Model> List() const;
  // A model by its name, with or without ".gguf".
  std::optional<Model> Find(std::string_view name) const;

  // What an interrupted pull, or one that is running, has fetched so far.
  struct Partial {
    std::string name;
    std::filesystem::path path;
    uint64_t bytes = 0;
  };
  // By name.
  std::vector<Partial> ListPartial() const;
  std::optional<Partial> FindPartial(std::string_view name) const;

  // Deletes a model with its note, and what an interrupted pull of that name has left; kNotFound if
  // there is neither. kUnavailable if such a pull is running: nothing is deleted then.
  Status Remove(std::string_view name);

  // Writes down where the model at `path` came from. What cannot be written is no failure.
  void Note(const std::filesystem::path& path, const std::string& source);
  // What was written down so; "" if nothing was.
  static std::string NoteAt(const std::filesystem::path& path);

  // A folder for what is under way to `name`: kept until it is complete, so that it can be resumed.
  std::filesystem::path PartsOf(std::string_view name) const;

 private:
  std::optional<Model> ModelAt(const std::filesystem::path& path) const;

  const std::filesystem::path folder_;
};

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_MODEL_STORE_H_
