// Gets a model from wherever it is into the folder of models.
#ifndef ROPEWAY_HUB_PULL_H_
#define ROPEWAY_HUB_PULL_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/download.h"
#include "hub/hf_repo.h"
#include "hub/model_store.h"
#include "hub/progress.h"
#include "hub/registry.h"
#include "ropeway/status.h"

namespace ropeway::hub {

struct PullOptions {
  std::vector<RegistryModel> registry = BuiltInRegistry();
  HubAccess access = HubAccessFromEnvironment();
  DownloadOptions download = {};
  std::string name;    // The model's name; "": the name of its file or repository.
  std::string sha256;  // For a model of one file; "": as the source says.
  bool terminal = false;
  Progress::Write write = [](std::string_view) {};  // Shows progress.
  Progress::Tell tell = nullptr;                    // Is called for each piece, if set.
  // Whether the file or folder is a model that can be opened. This room knows no formats.
  using Check = std::function<Status(const std::string& path)>;
  Check check = [](const std::string&) { return Status(); };
};

// Fetches the model, and returns it as it is in the folder then. A model that is there already is
// fetched again only if it fails the check, or its size or sum is not the source's; it is replaced
// when the new one is whole. After an interruption the next call goes on from there.
// Nothing that is not whole and checked comes into the folder. Fails with one sentence;
// kInvalidArgument if another model has the name.
StatusOr<ModelStore::Model> Pull(const Source& source, const PullOptions& options,
                                 ModelStore* store);

// The model that an earlier pull of this source has left; nullopt if there is none. (A path is no
// such source: it is there itself.)
std::optional<ModelStore::Model> FindPulled(const Source& source,
                                            const std::vector<RegistryModel>& registry,
                                            const ModelStore& store);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_PULL_H_
