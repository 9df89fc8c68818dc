#include "cli/tokenize_command.h"

#include <fmt/format.h>

#include <iostream>
#include <vector>

#include "cli/flags.h"
#include "cli/output.h"
#include "engine/model_vocabulary.h"
#include "model/gguf.h"
#include "tokenizer/tokenize_lines.h"

namespace ropeway {

CLI::App* AddTokenize(CLI::App* app, TokenizeFlags* flags) {
  CLI::App* tokenize = app->add_subcommand("tokenize", "Print the token ids of a text");
  AddModelFlag(tokenize, &flags->model);
  tokenize->add_option("TEXT", flags->text, "The text")->type_name("TEXT");
  tokenize
      ->add_flag("--batch", flags->batch,
                 "Read JSON lines {\"text\": ...} or {\"base64\": ...} from standard input, and "
                 "print one line of ids for each")
      ->group("Input");
  tokenize->footer("Example:\n  ropeway tokenize 'Hello world'");
  return tokenize;
}

int RunTokenize(const TokenizeFlags& flags) {
  const StatusOr<std::string> path = ResolveModel(flags.model);
  if (!path.ok()) return Fail(path.status());
  auto file = GgufFile::Open(*path);
  if (!file.ok()) return Fail(file.status());
  auto tokenizer = LoadTokenizer(**file);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  if (flags.batch) {
    std::ios::sync_with_stdio(false);
    const Status status = TokenizeLines(**tokenizer, std::cin, std::cout);
    return status.ok() ? EndStandardOutput() : Fail(status);
  }
  Output output;
  output.Write(fmt::format("{}\n", fmt::join((*tokenizer)->Encode(flags.text, {}), " ")));
  return output.End();
}

}  // namespace ropeway
