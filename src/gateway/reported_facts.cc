#include "gateway/reported_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace ropeway::gateway {
namespace {

constexpr size_t kMostFactBytes = 1024;
constexpr size_t kMostReasonBytes = 300;

std::string Shown(std::string_view text) {
  return base::PrintableText(text.substr(0, kMostReasonBytes));
}

bool IsGoodName(std::string_view name) {
  return name.find_first_not_of(' ') != std::string_view::npos &&
         name.size() <= kMostModelNameBytes && base::PrintableText(name) == name;
}

std::string BoundNames(std::vector<std::string>* names) {
  std::vector<std::string> taken;
  std::set<std::string, std::less<>> known;
  size_t bytes = 0;
  size_t bad = 0;
  size_t beyond = 0;
  for (std::string& name : *names) {
    if (!IsGoodName(name)) {
      ++bad;
    } else if (taken.size() == kMostModelNames || bytes + name.size() > kMostModelNamesBytes) {
      ++beyond;
    } else if (known.insert(name).second) {
      bytes += name.size();
      taken.push_back(std::move(name));
    }
  }
  *names = std::move(taken);
  std::string dropped;
  if (bad > 0) {
    dropped = fmt::format("{} of its model names are empty, not printable or longer than {} bytes",
                          bad, kMostModelNameBytes);
  }
  if (beyond > 0) {
    dropped += fmt::format("{}it reports {} more models than the {} that are used",
                           dropped.empty() ? "" : "; ", beyond, names->size());
  }
  return dropped;
}

}  // namespace

Status ShownFailure(const Status& status) { return {status.code(), Shown(status.message())}; }

std::string BoundFacts(BackendFacts* facts) {
  facts->reason = Shown(facts->reason);
  std::string dropped = BoundNames(&facts->models);
  for (const std::string* fact : {&facts->model_digest, &facts->numerics, &facts->limits}) {
    if (fact->size() <= kMostFactBytes) continue;
    facts->model_digest.clear();
    facts->numerics.clear();
    facts->limits.clear();
    dropped += fmt::format("{}a value that identifies its model is longer than {} bytes",
                           dropped.empty() ? "" : "; ", kMostFactBytes);
    break;
  }
  return dropped;
}

std::vector<std::string> CommonNames(const std::vector<const std::vector<std::string>*>& lists) {
  std::vector<std::string> common;
  bool first = true;
  for (const std::vector<std::string>* list : lists) {
    if (list->empty()) continue;
    if (first) {
      common = *list;
      first = false;
      continue;
    }
    const std::set<std::string_view> names(list->begin(), list->end());
    std::erase_if(common, [&](const std::string& name) { return !names.contains(name); });
  }
  return common;
}

}  // namespace ropeway::gateway
