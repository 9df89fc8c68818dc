#include "loadgen/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "loadgen/work_file.h"

namespace ropeway::loadgen {

StatusOr<Workload> Workload::Open(const LoadOptions& options, const ServerFacts& facts) {
  Workload work(options, facts);
  const BenchServeFlags& flags = options.flags;
  if (!flags.dataset.empty()) {
    auto prompts = ReadDataset(flags.dataset, options.chat, flags.output_tokens, flags.num_prompts);
    if (!prompts.ok()) return prompts.status();
    work.prompts_ = *std::move(prompts);
    if (work.prompts_.front().arrival) work.count_ = static_cast<int>(work.prompts_.size());
  } else if (!flags.conversations.empty()) {
    auto conversations = ReadConversations(flags.conversations, flags.num_prompts);
    if (!conversations.ok()) return conversations.status();
    work.conversations_ = *std::move(conversations);
  } else if (!flags.trace.empty()) {
    const int longest =
        flags.max_request_tokens > 0 ? flags.max_request_tokens : facts.max_model_len;
    auto trace = ReadTrace(flags.trace, flags.num_prompts, longest);
    if (!trace.ok()) return trace.status();
    work.too_long_ = trace->too_long;
    work.prompts_ = std::move(trace->entries);
    work.count_ = static_cast<int>(work.prompts_.size());
    for (const Prompt& entry : work.prompts_) {
      work.clients_ = std::max(work.clients_, entry.client + 1);
    }
  } else {
    if (facts.overhead >= flags.input_tokens) {
      return InvalidArgument(fmt::format("--input-tokens must be above {}, the tokens that the "
                                         "server adds to each prompt, but is {}.",
                                         facts.overhead, flags.input_tokens),
                             "input-tokens");
    }
    Prompt& prompt = work.prompts_.emplace_back();
    prompt.input_tokens = flags.input_tokens;
    prompt.max_tokens = flags.output_tokens;
  }
  return work;
}

std::vector<double> Workload::Arrivals(int run_num) const {
  if (flags_.request_rate > 0) {
    return PoissonArrivals(flags_.seed, run_num, count_, flags_.request_rate);
  }
  std::vector<double> arrivals;
  if (flags_.users > 0 || prompts_.empty() || !prompts_.front().arrival) return arrivals;
  for (const Prompt& prompt : prompts_) {
    const double before = arrivals.empty() ? 0 : arrivals.back();
    arrivals.push_back(prompt.arrival ? *prompt.arrival / flags_.trace_speed : before);
  }
  return arrivals;
}

Turns Workload::TurnsOf(int seq) const {
  if (conversations_.empty()) return {};
  const Conversation& conversation = ConversationOf(seq);
  return {conversation.first_turn, static_cast<int>(conversation.turns.size())};
}

Prompt Workload::Make(int run_num, int seq, int turn,
                      const std::vector<std::string>& answers) const {
  if (!conversations_.empty()) {
    const Conversation& conversation = ConversationOf(seq);
    Prompt prompt;
    prompt.messages = MessagesOf(conversation, turn, answers);
    prompt.max_tokens = conversation.turns[static_cast<size_t>(turn)].max_tokens;
    return prompt;
  }
  const Prompt& asked = PromptOf(seq);
  if (asked.input_tokens == 0) return asked;
  Prompt prompt = random_.Make(run_num, seq, asked.input_tokens);
  prompt.max_tokens = asked.max_tokens;
  prompt.priority = asked.priority;
  return prompt;
}

int Workload::ClientOf(int seq) const { return prompts_.empty() ? 0 : PromptOf(seq).client; }

std::string Workload::Shown(const RequestRecord& record) const {
  if (!conversations_.empty()) {
    const auto turn = static_cast<size_t>(record.turn);
    return ConversationOf(record.conversation).turns[turn].user;
  }
  return Make(record.run_num, record.conversation, 0, {}).Shown();
}

std::string Workload::Describe() const {
  if (!flags_.dataset.empty()) {
    return fmt::format("{} texts from {}", std::min<size_t>(prompts_.size(), flags_.num_prompts),
                       flags_.dataset);
  }
  if (!conversations_.empty()) {
    return fmt::format("{} conversations from {}", conversations_.size(), flags_.conversations);
  }
  const char* form = prompt_ids_ ? "random token ids" : "random words";
  if (!flags_.trace.empty()) {
    return fmt::format("lengths from {} ({} entries left out as too long), {}", flags_.trace,
                       too_long_, form);
  }
  return fmt::format("{}, {} tokens in, {} out", form, flags_.input_tokens, flags_.output_tokens);
}

}  // namespace ropeway::loadgen
