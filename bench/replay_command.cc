// `ropeway-bench replay`: requests of a file through the real engine core, scheduler and KV cache
// in virtual time. bench/ropeway_bench draws hit ratios and fairness from its rows.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/output.h"
#include "base/random.h"
#include "bench/commands.h"
#include "bench/replay/replay.h"
#include "bench/rows.h"
#include "flags/flag.h"
#include "policy/policies.h"

namespace ropeway::bench {
namespace {

struct ReplayFlags {
  std::string file;
  int block_tokens = 32;
  int pool_blocks = 0;  // 0: enough for max_num_seqs of the longest request.
  int tier_blocks = 0;
  std::string eviction = "cost";
  bool caching = true;
  int max_num_seqs = 64;
  std::string policy = "fcfs";
  std::string records;
  bool work_only = false;
  double step_ms = 0;  // 0: by the cost formula.
  double decode_ms = 0;
  double prefill_ms = 0;
  bool as_served = false;
  int users = 1;
};

struct FileRequest {
  size_t seq = 0;                 // Counts the file's requests.
  std::optional<double> arrival;  // Absent: of the closed loop.
  int input_tokens = 1;
  int output_tokens = 1;
  std::vector<uint64_t> hash_ids;
  std::string tenant;
  Priority priority = Priority::kMedium;
};

// The requests of the closed loop come last.
void MoveLoopBack(std::vector<FileRequest>* requests) {
  std::stable_partition(requests->begin(), requests->end(),
                        [](const FileRequest& request) { return request.arrival.has_value(); });
}

// One request a line: {"arrival": seconds, "input_tokens": n, "output_tokens": n, "hash_ids":
// [...], "tenant": text, "priority": text}. hash_ids, tenant and priority may be left out; without
// an arrival a request is one of the closed loop.
StatusOr<std::vector<FileRequest>> ReadRequests(const ReplayFlags& flags) {
  std::ifstream file(flags.file);
  if (!file) return InvalidArgument(fmt::format("cannot read '{}'", flags.file));
  std::vector<FileRequest> requests;
  double last_arrival = -std::numeric_limits<double>::infinity();
  for (std::string line; std::getline(file, line);) {
    const size_t number = requests.size() + 1;
    const auto wrong = [&](const std::string& what) {
      return InvalidArgument(fmt::format("{}:{}: {}", flags.file, number, what));
    };
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return wrong("expected a JSON object");
    FileRequest& request = requests.emplace_back();
    request.seq = requests.size() - 1;
    std::optional<Priority> priority;
    try {
      if (json.contains("arrival")) request.arrival = json.at("arrival").get<double>();
      request.input_tokens = json.at("input_tokens");
      request.output_tokens = json.at("output_tokens");
      request.hash_ids = json.value("hash_ids", std::vector<uint64_t>());
      request.tenant = json.value("tenant", std::string());
      priority = PriorityOf(json.value("priority", std::string("medium")));
    } catch (const nlohmann::json::exception& e) {
      return wrong(e.what());
    }
    const auto blocks =
        static_cast<size_t>((request.input_tokens + flags.block_tokens - 1) / flags.block_tokens);
    if (request.input_tokens < 1 || request.output_tokens < 1) return wrong("expected tokens");
    if (!request.hash_ids.empty() && request.hash_ids.size() != blocks) {
      return wrong(fmt::format("expected {} hash_ids", blocks));
    }
    if (!priority) return wrong("expected the priority high, medium or low");
    request.priority = *priority;
    if (!request.arrival) continue;
    if (*request.arrival < last_arrival) return wrong("arrives before a request above");
    last_arrival = *request.arrival;
  }
  MoveLoopBack(&requests);
  return requests;
}

// block_tokens ids for each of hash_ids, made of its value alone, so that prompts agree exactly as
// far as the file says; without hash_ids no two prompts agree.
std::vector<TokenId> ReplayPromptIds(const FileRequest& request, int block_tokens) {
  constexpr TokenId kFirstId = 1000;
  constexpr uint64_t kIds = 29000;
  std::vector<TokenId> ids;
  ids.reserve(static_cast<size_t>(request.input_tokens));
  for (int i = 0; i < request.input_tokens; ++i) {
    const auto block = static_cast<size_t>(i / block_tokens);
    const uint64_t hash =
        request.hash_ids.empty() ? base::Mix64(request.seq, block + 1) : request.hash_ids[block];
    const uint64_t drawn = base::Mix64(hash, static_cast<uint64_t>(i % block_tokens));
    ids.push_back(kFirstId + static_cast<TokenId>(drawn % kIds));
  }
  return ids;
}

// The times of one request's answer, in seconds since its arrival.
struct ReplayRecord {
  bool sent = false;  // The closed loop may have ended before.
  double due = 0;     // Its arrival, in seconds since the start.
  double ttft = -1;
  double latency = 0;
  std::vector<double> gaps;
};

Status WriteRecords(const std::string& path, const std::vector<FileRequest>& requests,
                    const std::vector<ReplayRecord>& records) {
  std::ofstream file(path, std::ios::trunc);
  for (size_t i = 0; i < records.size(); ++i) {
    if (!records[i].sent) continue;
    const nlohmann::ordered_json json = {{"seq", requests[i].seq},
                                         {"due", records[i].due},
                                         {"latency", records[i].latency},
                                         {"ttft", records[i].ttft},
                                         {"gaps", records[i].gaps},
                                         {"input_tokens", requests[i].input_tokens},
                                         {"output_tokens", requests[i].output_tokens}};
    file << json.dump() << '\n';
  }
  file.flush();
  if (!file) return InvalidArgument(fmt::format("--records: cannot write '{}'", path));
  return {};
}

StepTime StepTimeOf(const ReplayFlags& flags) {
  const auto time = [](double ms) { return base::Duration(static_cast<int64_t>(ms * 1e6)); };
  return {.step = time(flags.step_ms),
          .decode = time(flags.decode_ms),
          .decode_position = {},
          .prefill = time(flags.prefill_ms),
          .prefill_position = {}};
}

int RunReplay(const ReplayFlags& flags) {
  const auto requests = ReadRequests(flags);
  if (!requests.ok()) return base::Fail(requests.status());
  const auto policy = policy::MakePolicy({.policy = flags.policy});
  if (!policy.ok()) return base::Fail(policy.status());
  ReplayOptions options;
  size_t with_arrival = 0;
  int longest = 1;
  base::Duration work{};
  for (const FileRequest& request : *requests) {
    if (request.arrival) ++with_arrival;
    longest = std::max(longest, request.input_tokens + request.output_tokens);
    work += options.cost.OfRequest(request.input_tokens, 0, request.output_tokens);
  }
  if (flags.step_ms > 0) options.cost = StepTimeOf(flags);
  base::Output output;
  Rows rows([&output](const std::string& text) { output.Write(text); });
  rows.SetCell("replay", "ropeway", "");
  // On the virtual device, without a cache: what the offered load is measured by.
  rows.Add("work_s", base::ToSeconds(work));
  if (flags.work_only) return output.End();

  options.pool_blocks = flags.pool_blocks > 0
                            ? flags.pool_blocks
                            : (flags.max_num_seqs + 1) * (longest / base::kBlockTokens + 2);
  options.tier_blocks = static_cast<size_t>(flags.tier_blocks);
  options.eviction =
      flags.eviction == "lru" ? kvcache::EvictionPolicy::kLru : kvcache::EvictionPolicy::kCost;
  options.caching = flags.caching;
  options.max_num_seqs = flags.max_num_seqs;
  options.policy = policy->get();
  options.as_served = flags.as_served;
  options.users = flags.users;
  options.loop_count = requests->size() - with_arrival;
  std::vector<ReplayRecord> records(requests->size());
  if (!flags.records.empty()) {
    options.on_arrival = [&](size_t i, base::TimePoint at) {
      records[i].sent = true;
      records[i].due = (*requests)[i].arrival.value_or(base::ToSeconds(at));
    };
    options.on_token = [&](size_t i, base::TimePoint at) {
      ReplayRecord& record = records[i];
      const double now = base::ToSeconds(at) - record.due;
      if (record.ttft < 0) {
        record.ttft = now;
      } else {
        record.gaps.push_back(now - record.latency);
      }
      record.latency = now;
    };
  }
  const auto result = Replay(options, with_arrival, [&](size_t i) {
    const FileRequest& request = (*requests)[i];
    return ReplayRequest{base::TimePoint(static_cast<int64_t>(request.arrival.value_or(0) * 1e9)),
                         ReplayPromptIds(request, flags.block_tokens), request.output_tokens,
                         request.tenant, request.priority};
  });
  if (!result.ok()) return base::Fail(result.status());
  rows.Add("requests", static_cast<double>(result->requests));
  rows.Add("hit_share", result->hit_share());
  rows.Add("saved_share", result->saved_share());
  rows.Add("tier_share", result->prompt_tokens == 0
                             ? 0
                             : static_cast<double>(result->tier_tokens) /
                                   static_cast<double>(result->prompt_tokens));
  rows.Add("pool_blocks", options.pool_blocks);
  rows.Add("computed_tokens", static_cast<double>(result->computed_rows));
  rows.Add("steps", static_cast<double>(result->steps));
  rows.Add("preemptions", static_cast<double>(result->preemptions));
  rows.Add("virtual_s", base::ToSeconds(result->makespan));
  if (!flags.records.empty()) {
    const Status status = WriteRecords(flags.records, *requests, records);
    if (!status.ok()) return base::Fail(status);
  }
  return output.End();
}

}  // namespace

flags::Command ReplayCommand() {
  auto flags = std::make_shared<ReplayFlags>();
  return {
      "replay",
      "Run the requests of a file through the engine core in virtual time",
      {{"",
        {{"FILE", flags::TextValue(&flags->file, "FILE").Required(),
          "JSON lines with arrival (seconds), input_tokens, output_tokens, and perhaps hash_ids, "
          "tenant and priority; without an arrival: of a closed loop"}}},
       {"Flags",
        {{"--block-tokens", flags::IntValue(&flags->block_tokens, 1, 100000),
          "Tokens for each of hash_ids"},
         {"--pool-blocks",
          flags::IntValue(&flags->pool_blocks, 1, INT32_MAX)
              .Default("enough for --max-num-seqs of the longest request"),
          "KV blocks of the pool"},
         {"--tier-blocks", flags::IntValue(&flags->tier_blocks, 0, INT32_MAX),
          "KV blocks of a tier below it that reads at once; 0: no tier"},
         {"--eviction", flags::ChoiceValue(&flags->eviction, {"cost", "lru"}),
          "The next block to evict: by cost or lru"},
         {"--prefix-caching", flags::OnOffValue(&flags->caching), "Find again what was computed"},
         {"--max-num-seqs", flags::IntValue(&flags->max_num_seqs, 1, 4096),
          "Sequences that run at once"},
         {"--policy", flags::TextValue(&flags->policy, "NAME"), "The scheduling policy"},
         {"--as-served", flags::SwitchValue(&flags->as_served),
          "Budgets, shares, aging and learned costs as ropeway serve has them by default"},
         {"--users", flags::IntValue(&flags->users, 1, 100000),
          "Requests of the closed loop in flight, until the last one with an arrival came"},
         {"--step-ms",
          flags::NumberValue(&flags->step_ms, 0, 1e6)
              .Default("a cost formula by its rows and context"),
          "What each step of the virtual device takes, whatever is in it"},
         {"--decode-ms", flags::NumberValue(&flags->decode_ms, 0, 1e6),
          "What each sequence that decodes adds to --step-ms"},
         {"--prefill-ms", flags::NumberValue(&flags->prefill_ms, 0, 1e6),
          "What each token of a prompt's chunk adds to --step-ms"},
         {"--records", flags::TextValue(&flags->records, "FILE"),
          "Write each request's times to this file, one JSON object a line"},
         {"--work-only", flags::SwitchValue(&flags->work_only),
          "Print only the time that the requests cost on the virtual device"}}}},
      "bench/run.py prefixes draws hit ratios from it; fairness and priorities simulate with it.",
      [flags] { return RunReplay(*flags); }};
}

}  // namespace ropeway::bench
