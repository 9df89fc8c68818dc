#include "cli/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>

#include "base/output.h"
#include "engine/model_vocabulary.h"
#include "model/describe.h"
#include "model/gguf.h"
#include "tokenizer/tokenize_lines.h"

namespace ropeway {
namespace {

int Inspect(const InspectFlags& flags) {
  const StatusOr<std::string> path = ResolveModel(flags.file);
  if (!path.ok()) return Fail(path.status());
  auto file = GgufFile::Open(*path);
  if (!file.ok()) return Fail(file.status());
  Output output;
  output.Write(DescribeGguf(**file));
  return output.End();
}

int Tokenize(const TokenizeFlags& flags) {
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

}  // namespace

Command InspectCommand(InspectFlags* flags) {
  return {"inspect",
          "Show the content of a GGUF file",
          {{"",
            {{"FILE", TextValue(&flags->file, "FILE").Required(),
              "GGUF file, or the name of a fetched model"}}}},
          "Example:\n  ropeway inspect SmolLM2-135M-Instruct.Q4_1",
          [flags] { return Inspect(*flags); }};
}

Command TokenizeCommand(TokenizeFlags* flags) {
  const FlagTable input = {
      {"", {{"TEXT", TextValue(&flags->text, "TEXT"), "The text"}}},
      {"Input",
       {{"--batch", SwitchValue(&flags->batch),
         "Read JSON lines {\"text\": ...} or {\"base64\": ...} from standard input, and print one "
         "line of ids for each"}}}};
  return {"tokenize", "Print the token ids of a text", Join({ModelTable(&flags->model), input}),
          "Example:\n  ropeway tokenize 'Hello world'", [flags] { return Tokenize(*flags); }};
}

}  // namespace ropeway
