// Configuration files: every flag of every command as a key of a TOML file.
//
//   [serve]
//   port = 9000
//   kv-cache-size = "2GiB"
//   api-key = ["one", "two"]
//   [bench.serve]
//   users = 16
#ifndef ROPEWAY_CLI_TOML_CONFIG_H_
#define ROPEWAY_CLI_TOML_CONFIG_H_

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace ropeway {

// Reads the file named by `app`'s --config into the flags of `app`'s commands. A flag that the
// command line gives wins, then one that the environment gives, then the file. A key that is no
// flag and a value of the wrong type or out of bounds are refused with file, line and what was
// expected. All sections are checked, also those of commands that do not run.
class TomlConfig final : public CLI::Config {
 public:
  // `app` must outlive it.
  explicit TomlConfig(CLI::App* app) : app_(app) {}

  // Sets the flags itself, since only here the lines are known; so nothing is left for CLI11.
  // Throws CLI::ConfigError.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

  // Ropeway does not write configuration files.
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

 private:
  CLI::App* const app_;
};

}  // namespace ropeway

#endif  // ROPEWAY_CLI_TOML_CONFIG_H_
