#include "bench/fairness_sim.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/random_prompts.h"
#include "bench/replay/replay.h"
#include "core/batch.h"
#include "policy/policies.h"

namespace ropeway {

StatusOr<std::vector<RequestRecord>> SimulateTenants(const std::vector<TenantRequest>& requests,
                                                     const std::string& policy, int places,
                                                     double time_factor) {
  PolicyOptions policy_options;
  policy_options.name = policy;
  auto made = MakePolicy(policy_options);
  if (!made.ok()) return made.status();
  std::vector<RequestRecord> records(requests.size());
  int longest = 1;
  for (size_t i = 0; i < requests.size(); ++i) {
    longest = std::max(longest, requests[i].input_tokens + requests[i].output_tokens);
    records[i].seq = static_cast<int>(i);
    records[i].status = 200;
    records[i].due = requests[i].arrival * time_factor;
    records[i].input_tokens = requests[i].input_tokens;
    records[i].output_tokens = requests[i].output_tokens;
  }
  ReplayOptions options;
  options.pool_blocks = (places + 1) * (longest / kBlockTokens + 2);
  options.caching = false;
  options.max_num_seqs = places;
  options.policy = made->get();
  options.on_token = [&records](size_t request, TimePoint at) {
    RequestRecord& record = records[request];
    const double now = ToSeconds(at) - record.due;
    if (!record.ttft) {
      record.ttft = now;
    } else {
      record.gaps.push_back(static_cast<float>(now - record.latency));
    }
    record.latency = now;
  };
  const RandomPrompts prompts(1, /*as_ids=*/true, /*overhead=*/0);
  const auto result = Replay(options, requests.size(), [&](size_t i) {
    ReplayRequest request;
    request.arrival = TimePoint(static_cast<int64_t>(records[i].due * 1e9));
    request.prompt = prompts.Make(0, static_cast<int>(i), requests[i].input_tokens).ids;
    request.output_tokens = requests[i].output_tokens;
    request.tenant = std::to_string(requests[i].client);
    return request;
  });
  if (!result.ok()) return result.status();
  return records;
}

}  // namespace ropeway
