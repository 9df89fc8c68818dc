// What a load sends: how many requests, the content of each, and when it is due.
#ifndef ROPEWAY_LOADGEN_WORKLOAD_H_
#define ROPEWAY_LOADGEN_WORKLOAD_H_

#include <string>
#include <vector>

#include "loadgen/load_options.h"
#include "loadgen/load_runner.h"
#include "loadgen/prompt.h"
#include "loadgen/server_probe.h"

namespace ropeway::loadgen {

// Random prompts, a data set, a trace or conversations. Thread rule: const after Open; thread-safe.
class Workload {
 public:
  // Reads the file that the options name, if any.
  static StatusOr<Workload> Open(const LoadOptions& options, const ServerFacts& facts);

  // Requests (or conversations) of one run. A data set or a file of conversations begins anew when
  // it is shorter than --num-prompts; a trace ends where it ends.
  int count() const { return count_; }
  // When each is due, in seconds after the run's start; empty for a closed loop.
  std::vector<double> Arrivals(int run_num) const;
  Turns TurnsOf(int seq) const;
  // The prompt of a request, the same at each call. `answers`: of earlier turns. REQUIRES: 0 <=
  // seq.
  Prompt Make(int run_num, int seq, int turn, const std::vector<std::string>& answers) const;
  // The client that sends it: 0, except for traces with clients.
  int ClientOf(int seq) const;
  int clients() const { return clients_; }
  // What the CSV shows as a request's prompt: for a turn of a conversation the user's message.
  std::string Shown(const RequestRecord& record) const;
  // One line for the report: "random words, 128 tokens in, 64 out".
  std::string Describe() const;

 private:
  Workload(const LoadOptions& options, const ServerFacts& facts)
      : flags_(options.flags),
        random_(flags_.seed, facts.prompt_ids, facts.overhead),
        prompt_ids_(facts.prompt_ids),
        count_(flags_.num_prompts) {}

  const Conversation& ConversationOf(int seq) const {
    return conversations_[static_cast<size_t>(seq) % conversations_.size()];
  }
  const Prompt& PromptOf(int seq) const {
    return prompts_[static_cast<size_t>(seq) % prompts_.size()];
  }

  BenchServeFlags flags_;
  RandomPrompts random_;
  bool prompt_ids_ = false;
  int count_ = 0;
  int clients_ = 1;
  std::vector<Prompt> prompts_;  // Prompts of a data set or a trace, or one random prompt for all.
  std::vector<Conversation> conversations_;  // In place of these.
  int too_long_ = 0;                         // Entries of the trace that were left out.
};

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_WORKLOAD_H_
