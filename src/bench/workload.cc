#include "bench/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ropeway {

StatusOr<Workload> Workload::Open(const LoadOptions& options, const ServerFacts& facts) {
  Workload work(options, facts);
  const BenchServeFlags& flags = options.flags;
  if (!flags.dataset.empty()) {
    auto prompts = ReadDataset(flags.dataset, options.chat, flags.output_tokens, flags.num_prompts);
    if (!prompts.ok()) return prompts.status();
    work.dataset_ = std::move(*prompts);
  } else if (!flags.trace.empty()) {
    const int longest =
        flags.max_request_tokens > 0 ? flags.max_request_tokens : facts.max_model_len;
    auto trace = ReadTrace(flags.trace, flags.num_prompts, longest);
    if (!trace.ok()) return trace.status();
    work.trace_ = std::move(*trace);
    work.count_ = static_cast<int>(work.trace_.entries.size());
  } else if (facts.overhead >= flags.input_tokens) {
    return InvalidArgument(
        fmt::format("--input-tokens must be above {}, which is what the server adds to each "
                    "prompt, but is {}.",
                    facts.overhead, flags.input_tokens),
        "input-tokens");
  }
  return work;
}

std::vector<double> Workload::Arrivals(int run_num) const {
  if (flags_.request_rate > 0) {
    return PoissonArrivals(flags_.seed, run_num, count_, flags_.request_rate);
  }
  std::vector<double> arrivals;
  if (flags_.users > 0 || trace_.entries.empty() || !trace_.entries.front().arrival) {
    return arrivals;
  }
  for (const TraceEntry& entry : trace_.entries) {
    const double before = arrivals.empty() ? 0 : arrivals.back();
    arrivals.push_back(entry.arrival ? *entry.arrival / flags_.trace_speed : before);
  }
  return arrivals;
}

Prompt Workload::Make(int run_num, int seq) const {
  const auto index = static_cast<size_t>(seq);
  if (!dataset_.empty()) return dataset_[index % dataset_.size()];
  int input = flags_.input_tokens;
  int output = flags_.output_tokens;
  if (!trace_.entries.empty()) {
    input = trace_.entries[index % trace_.entries.size()].input_tokens;
    output = trace_.entries[index % trace_.entries.size()].output_tokens;
  }
  Prompt prompt = random_.Make(run_num, seq, input);
  prompt.max_tokens = output;
  return prompt;
}

std::string Workload::Describe() const {
  if (!dataset_.empty()) {
    return fmt::format("{} texts of {}", std::min<size_t>(dataset_.size(), flags_.num_prompts),
                       flags_.dataset);
  }
  const char* form = prompt_ids_ ? "random token ids" : "random words";
  if (!trace_.entries.empty()) {
    return fmt::format("lengths of {} ({} entries left out as too long), {}", flags_.trace,
                       trace_.too_long, form);
  }
  return fmt::format("{}, {} tokens in, {} out", form, flags_.input_tokens, flags_.output_tokens);
}

}  // namespace ropeway
