// The program's command line: a tree of commands, of which one runs.
#ifndef ROPEWAY_CLI_COMMAND_LINE_H_
#define ROPEWAY_CLI_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "flags/flag.h"

namespace ropeway {

class CommandLine {
 public:
  // `example`: flags of one command, for the footer of the program's help.
  CommandLine(const std::string& program, const std::string& description,
              const std::string& example);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Adds a command that is a table (flags/flag.h), until all are.
  void Add(CLI::App* parent, const Command& command);

  // Where commands are added.
  CLI::App* app() { return &app_; }

  // Adds a command that only holds others, such as `bench`.
  CLI::App* AddGroup(const std::string& name, const std::string& description);

  // `command`, of app()'s tree, is carried out by `run`, whose reply is the program's exit code.
  void Add(CLI::App* command, std::function<int()> run);

  // Reads the command line, then the environment, then --config, and runs the command. Replies with
  // the exit code: 1, after one sentence, where the command line cannot be understood.
  int Main(int argc, char** argv);

 private:
  // What is wrong with the command line, as a sentence that names the word.
  std::string Fault(const CLI::ParseError& error) const;
  // The innermost command that was named; the program where none was.
  const CLI::App* Innermost() const;
  // " serve", " bench serve": the command that was named, as far as it was understood.
  std::string Named() const;

  CLI::App app_;
  std::string footer_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands_;
};

}  // namespace ropeway

#endif  // ROPEWAY_CLI_COMMAND_LINE_H_
