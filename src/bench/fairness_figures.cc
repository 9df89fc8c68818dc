#include "bench/fairness_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "bench/fairness_report.h"
#include "bench/load_figures.h"

namespace ropeway {
namespace {

void AddGap(const std::vector<RequestRecord>& records, const FairnessCase& of, const Figure& where,
            Figures* figures) {
  std::vector<int> clients;
  for (const TenantRequest& request : of.requests) clients.push_back(request.client);
  const ServiceGap gap = MeasureServiceGap(records, clients, of.half_window, of.weights);
  figures->Add(where, "gap_windows", gap.windows);
  figures->Add(where, "gap_half_window_s", of.half_window);
  figures->Add(where, "gap_bound", VtcBound(of));
  if (gap.windows > 0) figures->Add(where, "service_gap", gap.largest);
}

void AddByClient(const std::vector<RequestRecord>& records, const FairnessCase& of,
                 const Figure& where, Figures* figures) {
  struct Group {
    double work = 0;
    std::vector<const RequestRecord*> records;
  };
  std::map<std::string, Group> groups;
  std::vector<std::string> names = {fairness::kLight, fairness::kHeavy};
  for (size_t client = 0; client < of.light.size(); ++client) {
    names.push_back(fmt::format("client {}", client));
  }
  for (size_t i = 0; i < records.size(); ++i) {
    const auto client = static_cast<size_t>(of.requests[i].client);
    for (const std::string& name : {names[of.light[client] ? 0 : 1], names[2 + client]}) {
      Group& group = groups[name];
      group.work += WorkOf(of.requests[i], of.weights);
      group.records.push_back(&records[i]);
    }
  }
  for (const std::string& name : names) {
    const auto group = groups.find(name);
    if (group == groups.end()) continue;
    Figure at = where;
    at.x = name;
    figures->Add(at, "offered_work", group->second.work);
    AddTimes(group->second.records, at, figures);
  }
}

}  // namespace

double VtcBound(const FairnessCase& of) {
  double prompt = 0;
  double whole = 0;
  for (const TenantRequest& request : of.requests) {
    prompt = std::max(prompt, static_cast<double>(request.input_tokens));
    whole = std::max(whole, static_cast<double>(request.input_tokens + request.output_tokens));
  }
  return 2 * std::max(of.weights.input * prompt, of.weights.output * of.places * whole);
}

void AddFairnessFigures(const std::vector<RequestRecord>& records, const FairnessCase& of,
                        const Figure& where, Figures* figures) {
  double last_arrival = 0;
  double end = 0;
  double tokens = 0;
  for (const RequestRecord& record : records) {
    last_arrival = std::max(last_arrival, record.due);
    end = std::max(end, record.due + record.latency);
    tokens += static_cast<double>(record.input_tokens + record.output_tokens);
  }
  figures->Add(where, "requests", static_cast<double>(records.size()));
  figures->Add(where, "offered_work", WorkOf(of.requests, of.weights));
  figures->Add(where, "arrivals_s", last_arrival);
  figures->Add(where, "wall_s", end);
  if (end > 0) figures->Add(where, "tok_per_s", tokens / end);
  const double begin = last_arrival / 10;
  if (last_arrival > begin) {
    figures->Add(
        where, "work_per_s",
        TrailOf(records, of.weights).Between(begin, last_arrival) / (last_arrival - begin));
  }
  AddGap(records, of, where, figures);
  AddByClient(records, of, where, figures);
}

}  // namespace ropeway
