// What every fuzz target shares: libFuzzer's entry point, and how a target says that a property of
// its room does not hold.
#ifndef ROPEWAY_FUZZ_FUZZ_TARGET_H_
#define ROPEWAY_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ropeway/status.h"

// Runs one input through the target. Always returns 0; a broken property ends the process by
// abort(), which both libFuzzer and the replay (replay_main.cc) report with the input's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ropeway {

// Prints `what` and aborts unless `holds`.
void Require(bool holds, const std::string& what);

// What a refusal of any input must be: a code other than kInternal (an input is never a bug of
// ours), and a sentence in valid UTF-8.
void RequireRefusal(const Status& status);

// And what a refusal of a file must be besides, for it goes to a terminal or a log as it is:
// without control characters.
void RequirePrintableRefusal(const Status& status);

}  // namespace ropeway

#endif  // ROPEWAY_FUZZ_FUZZ_TARGET_H_
