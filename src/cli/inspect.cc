#include "cli/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "base/output.h"
#include "engine/machine.h"
#include "engine/model_check.h"
#include "engine/model_vocabulary.h"
#include "model/describe.h"
#include "model/gguf.h"
#include "model/open_model.h"
#include "tokenizer/tokenize_lines.h"

namespace ropeway::cli {
namespace {

int Inspect(const InspectFlags& flags) {
  const StatusOr<std::string> path = ResolveModel(flags.file);
  if (!path.ok()) return base::Fail(path.status());
  EngineOptions options;
  options.model.path = *path;
  options.model.quantize = flags.quantize;
  std::unique_ptr<model::GgufFile> file;
  engine::ModelCheck check =
      engine::OpenAndCheckModel(options, engine::AvailableMemoryBytes(), &file);
  if (file == nullptr) return base::Fail(check.status());  // There is nothing to show.
  check.sampling = KnownSampling(*path).Or(check.sampling);
  base::Output output;
  output.Write(model::DescribeGguf(*file) + "\n" + engine::VerdictText(check));
  const int code = output.End();
  return check.ok() ? code : 1;
}

int Tokenize(const TokenizeFlags& flags) {
  const StatusOr<std::string> path = ResolveModel(flags.model);
  if (!path.ok()) return base::Fail(path.status());
  auto file = model::OpenModel(*path);
  if (!file.ok()) return base::Fail(file.status());
  auto tokenizer = engine::LoadTokenizer(**file);
  if (!tokenizer.ok()) return base::Fail(tokenizer.status());
  if (flags.batch) {
    std::ios::sync_with_stdio(false);
    const Status status = tokenizer::TokenizeLines(**tokenizer, std::cin, std::cout);
    return status.ok() ? base::EndStandardOutput() : base::Fail(status);
  }
  base::Output output;
  output.Write(
      fmt::format("{}\n", fmt::join((*tokenizer)->Encode(flags.text, {.without_row = true}), " ")));
  return output.End();
}

}  // namespace

flags::Command InspectCommand(InspectFlags* flags) {
  return {
      "inspect",
      "Show the content of a model file, and whether it can be run",
      {{"",
        {{"FILE", flags::TextValue(&flags->file, "FILE").Required().Words("models list --names"),
          "GGUF file, folder in Hugging Face's format, or the name of a fetched model"}}},
       {"Model",
        {{"--quantize", flags::ChoiceValue(&flags->quantize, {"q8_0", "q4_0"}),
          "Check the model as `serve --quantize` would load it"}}}},
      "The exit code is 1 if the model cannot be run.\n\n"
      "Example:\n  ropeway inspect SmolLM2-135M-Instruct.Q4_1",
      [flags] { return Inspect(*flags); }};
}

flags::Command TokenizeCommand(TokenizeFlags* flags) {
  const flags::FlagTable input = {
      {"", {{"TEXT", flags::TextValue(&flags->text, "TEXT"), "Text to tokenize"}}},
      {"Input",
       {{"--batch", flags::SwitchValue(&flags->batch),
         "Read JSON lines {\"text\": ...} or {\"base64\": ...} from standard input, and print a "
         "line of ids for each"}}}};
  return {"tokenize", "Print the token ids of a text",
          flags::Join({ModelTable(&flags->model), input}),
          "Example:\n  ropeway tokenize 'Hello world'", [flags] { return Tokenize(*flags); }};
}

}  // namespace ropeway::cli
