// `ropeway models`: the fetched models, and how to get others.
#ifndef ROPEWAY_CLI_MODELS_H_
#define ROPEWAY_CLI_MODELS_H_

#include <string>

#include "flags/flag.h"
#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway::cli {

struct ModelsFlags {
  std::string model;     // A name or a source.
  std::string name;      // pull: what it shall be called; "": as the source is.
  std::string sha256;    // pull: "": as the source says.
  std::string registry;  // A file; "": the registry in the program.
  bool names = false;    // list: nothing else.
};

// models list, pull, show and rm. `flags` must outlive the command.
flags::Command ModelsCommand(ModelsFlags* flags);

// Whether a word of a command line can only be meant as a model: a name of the registry or of a
// fetched model, a source (hf:..., a URL), a .gguf file or a folder.
bool IsModelWord(const std::string& word);

// --yes.
flags::FlagTable YesTable(bool* yes);

// Pulls `model` if it can be fetched and is not yet; first asks the person at the terminal, except
// with `yes`. kNotFound if the answer is no or there is no terminal; the message says how to fetch
// it. OK also where nothing can be pulled: ResolveModel says what is missing.
Status OfferPull(const std::string& model, bool yes);

// What pulls models for requests: by their names in the registry, which is the built-in one unless
// `registry` names a file.
StatusOr<server::PullModelFn> PullerForRequests(const std::string& registry);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_MODELS_H_
