#include "cli/inspect_command.h"

#include "cli/engine_flags.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "model/describe.h"
#include "model/gguf.h"

namespace ropeway {

CLI::App* AddInspect(CLI::App* app, InspectFlags* flags) {
  CLI::App* inspect = app->add_subcommand("inspect", "Show what is in a GGUF file");
  inspect->add_option("FILE", flags->file, "GGUF file, or the name of a model that was fetched")
      ->type_name(kFilePlaceholder)
      ->required();
  inspect->footer("Example:\n  ropeway inspect SmolLM2-135M-Instruct.Q4_1");
  return inspect;
}

int RunInspect(const InspectFlags& flags) {
  const StatusOr<std::string> path = ResolveModel(flags.file);
  if (!path.ok()) return Fail(path.status());
  auto file = GgufFile::Open(*path);
  if (!file.ok()) return Fail(file.status());
  Output output;
  output.Write(DescribeGguf(**file));
  return output.End();
}

}  // namespace ropeway
