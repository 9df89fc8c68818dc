// What surrounds an asked prompt in the engine: the settings of each round, and the other requests.
#ifndef ROPEWAY_BENCH_DETERMINISM_ROUNDS_H_
#define ROPEWAY_BENCH_DETERMINISM_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "engine/engine_core.h"
#include "kernels/kernels.h"

namespace ropeway {

// How one round's engine is set up.
struct RoundSettings {
  const Kernels* kernels = nullptr;
  int threads = 1;
  int max_num_batched_tokens = 1;
  int max_prefill_chunk = 0;  // 0: no limit but the one above.
  int max_num_seqs = 1;
  int num_blocks = 1;
  // Else each ask's prompt is computed anew; with it, asks take what others computed.
  bool prefix_caching = true;
};

// Bounds of the company's random prompts and answers.
inline constexpr int kMaxCompanyPrompt = 128;
inline constexpr int kMaxCompanyTokens = 96;

// The tables of kernels to go through: those that this CPU runs, but for the reference, which is
// too slow; or the one that ROPEWAY_ISA forces. Best first; empty if that one cannot be had.
std::vector<const Kernels*> TablesToAsk();

// Random settings of round `round` (from 0), for requests of at most `longest` tokens on a machine
// with `cores` cores. Rounds take turns with one thread and several, with the tables, and with KV
// pools of which three in four are so small that sequences must give way. Half of all rounds cache
// prefixes, whatever the table and the threads.
RoundSettings DrawSettings(int round, const std::vector<const Kernels*>& tables, int longest,
                           int cores, Random* random);

// One of the company: random ids of random number, all kinds of sampling parameters.
CoreRequest DrawCompany(RequestId id, int32_t vocab_size, Random* random);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_DETERMINISM_ROUNDS_H_
