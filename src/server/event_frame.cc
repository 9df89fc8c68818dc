#include "server/event_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "api/json.h"
#include "server/status_json.h"

namespace ropeway::server {
namespace {

using Json = nlohmann::ordered_json;

// Written by hand: a frame may have thousands of numbers, ten times a second.
class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}

  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(*out_), format, std::forward<Args>(args)...);
  }
  void Text(std::string_view text) { *out_ += api::DumpJson(Json(text)); }
  // Calls `each` for the first `most` of `all`, with commas between.
  template <typename List, typename Fn>
  void ForEach(const List& all, size_t most, Fn&& each) {
    size_t done = 0;
    for (const auto& one : all) {
      if (done == most) return;
      if (done++ > 0) *out_ += ',';
      each(one);
    }
  }

 private:
  std::string* const out_;
};

double Milliseconds(base::Duration time) { return base::ToSeconds(time) * 1000; }

void AddStep(const core::StepTrace& step, base::TimePoint now, Writer* out) {
  out->Add(R"({{"step":{},"ago_ms":{:.2f},"ms":{:.3f},"forward_ms":{:.3f},"rows":[)", step.step,
           Milliseconds(now - step.begin), Milliseconds(step.end - step.begin),
           Milliseconds(step.forward));
  out->ForEach(step.content.items, step.content.items.size(), [&](const auto& item) {
    const bool prefill = item.kind == core::StepContent::Kind::kPrefill;
    out->Add("[{},{},{},{}]", item.sequence, prefill ? 0 : 1, item.start, item.tokens);
  });
  out->Add(R"(],"preempted":[{}],"fetching":[{}]}})", fmt::join(step.content.preempted, ","),
           fmt::join(step.content.fetching, ","));
}

void AddRequest(const service::RequestInfo& request, Writer* out) {
  out->Add(R"({{"id":{},"tenant":)", request.id);
  out->Text(request.tenant);
  out->Add(R"(,"class":"{}","state":"{}","age":{:.2f},"position":)", PriorityName(request.priority),
           StateName(request.state), request.age_seconds);
  if (request.queue_position >= 0) {
    out->Add("{}", request.queue_position);
  } else {
    out->Add("null");
  }
  out->Add(R"(,"prompt":{})", request.prompt_tokens);
  if (!request.backend.empty()) {
    out->Add(R"(,"backend":)");
    out->Text(request.backend);
  }
  out->Add("}}");
}

void AddEnded(const service::EndedRequest& ended, Writer* out) {
  out->Add(R"({{"number":{},"id":{},"tenant":)", ended.number, ended.id);
  out->Text(ended.tenant);
  out->Add(R"(,"class":"{}","reason":"{}","prompt":{},"cached":{},"output":{},"preemptions":{},)",
           PriorityName(ended.priority), FinishReasonName(ended.reason),
           std::max(ended.usage.prompt_tokens, 0), std::max(ended.usage.cached_tokens, 0),
           std::max(ended.usage.completion_tokens, 0), ended.preemptions);
  out->Add(R"("queue_ms":{:.1f},"prefill_ms":{:.1f},"decode_ms":{:.1f},"at":{:.3f}}})",
           Milliseconds(ended.times.queue), Milliseconds(ended.times.prefill),
           Milliseconds(ended.times.decode), ended.ended_at);
}

void AddQueue(const FrameParts& parts, Writer* out) {
  out->Add(R"("queue":{{"blocked_by":)");
  if (parts.queue.blocked_by.empty()) {
    out->Add("null");
  } else {
    out->Text(parts.queue.blocked_by);
  }
  out->Add(R"(,"classes":{{)");
  for (int i = 0; i < kNumPriorities; ++i) {
    const service::QueueInfo::Class& one = parts.queue.classes[static_cast<size_t>(i)];
    out->Add(R"({}"{}":{{"waiting":{},"running":{},"wait":{:.2f}}})", i == 0 ? "" : ",",
             PriorityName(static_cast<Priority>(i)), one.waiting, one.running, one.wait_seconds);
  }
  struct Tenant {
    int waiting = 0;
    int running = 0;
  };
  std::map<std::string_view, Tenant> by_name;
  for (const service::RequestInfo& request : parts.requests) {
    Tenant& tenant = by_name[request.tenant];
    ++(request.state == service::RequestState::kRunning ? tenant.running : tenant.waiting);
  }
  std::vector<std::pair<std::string_view, Tenant>> tenants(by_name.begin(), by_name.end());
  // The busiest first, then by name.
  std::sort(tenants.begin(), tenants.end(), [](const auto& a, const auto& b) {
    const int a_all = a.second.waiting + a.second.running;
    const int b_all = b.second.waiting + b.second.running;
    return std::pair(-a_all, a.first) < std::pair(-b_all, b.first);
  });
  out->Add(R"(}},"tenants":[)");
  out->ForEach(tenants, kMaxFrameTenants, [&](const auto& tenant) {
    out->Add(R"({{"name":)");
    out->Text(tenant.first);
    out->Add(R"(,"waiting":{},"running":{}}})", tenant.second.waiting, tenant.second.running);
  });
  out->Add(R"(],"tenants_left_out":{}}})",
           tenants.size() - std::min(tenants.size(), kMaxFrameTenants));
}

void AddWindow(const char* name, const service::Activity& activity,
               base::RecentTimes::Summary service::RecentSummary::*window, Writer* out) {
  out->Add(R"("{}":{{)", name);
  const auto times = [&](const char* of, const service::RecentSummary& summary) {
    const base::RecentTimes::Summary& its = summary.*window;
    out->Add(R"("{}":{{"count":{},"p50":{:.2f},"p95":{:.2f},"p99":{:.2f}}},)", of, its.count,
             its.p50 * 1000, its.p95 * 1000, its.p99 * 1000);
  };
  times("ttft_ms", activity.ttft);
  times("itl_ms", activity.inter_token);
  times("e2e_ms", activity.e2e);
  times("step_ms", activity.step);
  out->Add(R"("late":{}}})", (activity.late.*window).count);
}

}  // namespace

std::string HelloEvent(const service::FrontDesk& desk, const std::string& process) {
  Json models = Json::array();
  for (const service::ModelInfo& model : desk.Models()) models.push_back(model.id);
  const EngineStats stats = desk.Stats();
  const bool gateway = !desk.Backends().empty();
  const Json hello = {{"version", ROPEWAY_VERSION},
                      {"process", process},
                      {"kind", gateway ? "gateway" : "engine"},
                      {"models", std::move(models)},
                      {"slots", stats.max_batch_size},
                      {"strategy", stats.strategy}};
  return fmt::format("event: hello\ndata: {}\n\n", api::DumpJson(hello));
}

std::string FrameEvent(const FrameParts& parts) {
  std::string text = "event: frame\ndata: ";
  Writer out(&text);
  const service::Activity& activity = parts.activity;
  // The newest steps.
  const size_t steps = std::min(activity.steps.size(), kMaxFrameSteps);
  const auto shown = std::span(activity.steps).last(steps);
  out.Add(R"({{"at":{:.3f},"steps":[)", parts.at);
  out.ForEach(shown, steps, [&](const auto& step) { AddStep(step, activity.now, &out); });
  out.Add(R"(],"steps_left_out":{},"requests":[)", activity.steps.size() - steps);
  out.ForEach(parts.requests, kMaxFrameRequests,
              [&](const auto& request) { AddRequest(request, &out); });
  out.Add(R"(],"requests_left_out":{},"ended":[)",
          parts.requests.size() - std::min(parts.requests.size(), kMaxFrameRequests));
  out.ForEach(activity.ended, activity.ended.size(),
              [&](const auto& ended) { AddEnded(ended, &out); });
  out.Add("],");
  AddQueue(parts, &out);
  const EngineStats& stats = parts.stats;
  out.Add(R"(,"blocks":{{"free":{},"held":{},"cached":{},"disk":{}}})", stats.kv_blocks_free,
          stats.kv_blocks_held, stats.kv_blocks_cached, activity.disk_blocks);
  out.Add(R"(,"rates":{{"prompt":{:.1f},"output":{:.1f},"busy":{:.3f}}},)",
          stats.prompt_tokens_per_second, stats.generation_tokens_per_second, stats.utilization);
  AddWindow("minute", activity, &service::RecentSummary::minute, &out);
  out.Add(",");
  AddWindow("hour", activity, &service::RecentSummary::hour, &out);
  if (!parts.backends.empty()) {
    Json backends = Json::array();
    for (const BackendStatus& backend : parts.backends) backends.push_back(BackendJson(backend));
    out.Add(R"(,"backends":{})", api::DumpJson(backends));
  }
  out.Add("}}\n\n");
  return text;
}

}  // namespace ropeway::server
