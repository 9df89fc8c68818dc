// `ropeway-bench sessions`: chats of several turns, with and without what is kept between turns.
#ifndef ROPEWAY_BENCH_BENCH_SESSIONS_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_SESSIONS_COMMAND_H_

#include <string>

#include "bench/bench_pieces.h"
#include "bench/conversation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchSessionsFlags {
  BenchPieceFlags pieces;
  std::string mode = "compare";
  std::string part = "all";
  int users = 6;
  int turns = 8;
  int conversations = 1;  // Of each user.
  double think_time = 0;  // Seconds.
  double request_interval = 0.5;
  double duration = 0;  // 0: until all conversations are over.
  ChatLengths lengths;
  std::string dialogues;  // A file; "": random texts.
  // Of the parts `pool` and `restart`.
  int history_tokens = 1500;
  int restart_tokens = 4000;
  int restart_chats = 4;
};

// Adds the command to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchSessions(CLI::App* bench, BenchSessionsFlags* flags);

// Measures, and prints the report; replies with the exit code: 1 where something could not be
// measured, whatever the verdicts.
int RunBenchSessions(const BenchSessionsFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_SESSIONS_COMMAND_H_
