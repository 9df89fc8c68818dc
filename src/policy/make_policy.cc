#include "policy/make_policy.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "policy/cache_aware.h"
#include "policy/combined_policy.h"
#include "policy/fair.h"
#include "policy/fcfs.h"
#include "policy/length_balance.h"
#include "policy/priority_policy.h"
#include "policy/sjf.h"

namespace ropeway {
namespace {

constexpr char kNames[] = "fcfs, sjf, length-balance, cache-aware, priority, fair";

std::vector<std::string> Split(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '+') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Null: no such name.
std::unique_ptr<SchedulingPolicy> MakePart(const std::string& name, const PolicyOptions& options) {
  if (name == "fcfs") return std::make_unique<FcfsPolicy>();
  if (name == "sjf") return std::make_unique<SjfPolicy>();
  if (name == "length-balance") return std::make_unique<LengthBalancePolicy>();
  if (name == "cache-aware") return std::make_unique<CacheAwarePolicy>();
  if (name == "fair") return std::make_unique<FairPolicy>();
  if (name == "priority") {
    return std::make_unique<PriorityPolicy>(options.class_shares, options.strict,
                                            options.kv_is_kept);
  }
  return nullptr;
}

Status BadName(const PolicyOptions& options, const std::string& why) {
  return InvalidArgument("policy \"" + options.name + "\" " + why + ": expected one of " + kNames +
                             ", or two or three of them joined by '+'",
                         "policy");
}

Status CheckShares(const std::array<int, kNumPriorities>& shares) {
  const bool each = std::all_of(shares.begin(), shares.end(), [](int s) { return s >= 1; });
  // In 64 bits: nothing keeps a caller from giving numbers whose sum is no int.
  const int64_t sum = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  if (each && sum == 100) return {};
  std::string given;
  for (const int share : shares) given += (given.empty() ? "" : ",") + std::to_string(share);
  const std::string what = "class_shares " + given + ": expected three whole percentages (high, " +
                           "medium, low), each at least 1, that add up to 100";
  return InvalidArgument(each ? what + ", and these add up to " + std::to_string(sum) : what,
                         "class_shares");
}

}  // namespace

StatusOr<std::unique_ptr<SchedulingPolicy>> MakePolicy(const PolicyOptions& options) {
  if (Status status = CheckShares(options.class_shares); !status.ok()) return status;
  const std::vector<std::string> names = Split(options.name);
  if (names.size() > CombinedPolicy::kMaxParts)
    return BadName(options, "has more than three parts");
  std::vector<std::unique_ptr<SchedulingPolicy>> parts;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty())
      return BadName(options, names.size() == 1 ? "is empty" : "has an empty part");
    if (std::find(names.begin(), names.begin() + static_cast<int64_t>(i), names[i]) !=
        names.begin() + static_cast<int64_t>(i)) {
      return BadName(options, "names " + names[i] + " twice");
    }
    parts.push_back(MakePart(names[i], options));
    if (parts.back() == nullptr) {
      return BadName(
          options, names.size() == 1 ? "is unknown" : "has the unknown part \"" + names[i] + "\"");
    }
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return std::unique_ptr<SchedulingPolicy>(std::make_unique<CombinedPolicy>(std::move(parts)));
}

}  // namespace ropeway
