// `ropeway-bench long-prompt`: what streams feel of long prompts that arrive meanwhile.
#ifndef ROPEWAY_BENCH_BENCH_LONG_PROMPT_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_LONG_PROMPT_COMMAND_H_

#include <string>

#include "bench/bench_pieces.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchLongPromptFlags {
  BenchPieceFlags pieces;
  int streams = 8;
  int stream_prompt = 16;   // Tokens.
  int stream_output = 400;  // Likewise; then the stream's user asks again.
  int prompt_tokens = 4000;
  int output_tokens = 8;  // Of the long prompts.
  int prompts = 4;        // One after the other.
  double alone_seconds = 20;
};

// Adds the command to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchLongPrompt(CLI::App* bench, BenchLongPromptFlags* flags);

// Measures, and prints the report; replies with the exit code: 1 where something could not be
// measured, whatever the verdicts.
int RunBenchLongPrompt(const BenchLongPromptFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_LONG_PROMPT_COMMAND_H_
