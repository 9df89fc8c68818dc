// How `--help` looks.
#ifndef ROPEWAY_CLI_HELP_FORMATTER_H_
#define ROPEWAY_CLI_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <string>

namespace ropeway {

// What a command is for, how it is called, its flags in groups, each with its default and bounds,
// and an example (the footer). The root's --config is shown with every command, which takes it too.
class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace ropeway

#endif  // ROPEWAY_CLI_HELP_FORMATTER_H_
