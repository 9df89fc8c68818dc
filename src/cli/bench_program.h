// `ropeway bench NAME`: runs ropeway-bench, the program that measures, for all names but `serve`.
#ifndef ROPEWAY_CLI_BENCH_PROGRAM_H_
#define ROPEWAY_CLI_BENCH_PROGRAM_H_

namespace ropeway::cli {

// Whether the command line is `ropeway bench NAME ...` with another NAME than `serve`.
bool IsForBenchProgram(int argc, char** argv);

// Replaces this process with `ropeway-bench NAME ...`, found beside this program. Returns 1, after
// a sentence about how to build it, where it is not there.
int RunBenchProgram(int argc, char** argv);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_BENCH_PROGRAM_H_
