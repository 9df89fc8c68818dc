#include "cli/top_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json.h"
#include "base/utf8.h"

namespace ropeway::cli {
namespace {

using nlohmann::json;

// What a screen can show; beyond, a server counts wrongly.
constexpr double kMostCounted = 1e15;

double Real(const json& object, const char* key) {
  const json& value = base::Member(object, key);
  if (!value.is_number()) return 0;
  return std::clamp(value.get<double>(), 0.0, kMostCounted);
}

int64_t Whole(const json& object, const char* key) {
  return static_cast<int64_t>(Real(object, key));
}

// A text of the server as it may be shown.
std::string Shown(const json& text) {
  const std::string_view whole = base::Text(text);
  std::string shown = base::PrintableText(whole.substr(0, TopModel::kMostNameBytes));
  if (whole.size() > TopModel::kMostNameBytes) shown += "...";
  return shown;
}

std::string Shown(const json& object, const char* key) { return Shown(base::Member(object, key)); }

TopTimes TimesOf(const json& window, const char* key) {
  const json& times = base::Member(window, key);
  return {.count = Whole(times, "count"),
          .p50 = Real(times, "p50"),
          .p95 = Real(times, "p95"),
          .p99 = Real(times, "p99")};
}

TopWindow WindowOf(const json& frame, const char* key) {
  const json& window = base::Member(frame, key);
  return {.ttft = TimesOf(window, "ttft_ms"),
          .itl = TimesOf(window, "itl_ms"),
          .e2e = TimesOf(window, "e2e_ms"),
          .step = TimesOf(window, "step_ms"),
          .late = Whole(window, "late")};
}

// The place of a word in a list; behind it for any other word.
template <size_t kCount>
size_t PlaceOf(const std::string& word, const std::array<const char*, kCount>& words) {
  return static_cast<size_t>(std::find(words.begin(), words.end(), word) - words.begin());
}

}  // namespace

bool Before(const TopRequest& a, const TopRequest& b) {
  constexpr std::array<const char*, 4> kStates = {"running", "preempted", "waiting", "encoding"};
  const auto key = [&](const TopRequest& request) {
    return std::make_tuple(PlaceOf(request.state, kStates), request.position.value_or(-1),
                           PlaceOf(request.priority, kTopClasses), -request.age, request.id);
  };
  return key(a) < key(b);
}

Status TopModel::Take(std::string_view type, std::string_view data) {
  if (type != "hello" && type != "frame") return {};
  StatusOr<json> read = base::ReadJson(data, {.repeated_keys = true}, "an event of the server");
  if (!read.ok()) return read.status();
  if (type == "hello") {
    if (base::Text(base::Member(*read, "version")).empty() ||
        base::Text(base::Member(*read, "kind")).empty()) {
      return InvalidArgument("its first event does not name a version and a kind.");
    }
    TakeHello(*read);
    return {};
  }
  if (!greeted_) return InvalidArgument("its first event is not `hello`.");
  if (!read->is_object() || !read->contains("requests") || !read->contains("queue")) {
    return InvalidArgument("a frame has no `requests` and no `queue`.");
  }
  TakeFrame(*read);
  return {};
}

void TopModel::TakeHello(const json& hello) {
  *this = {};
  greeted_ = true;
  version = Shown(hello, "version");
  kind = Shown(hello, "kind");
  for (const json& model : base::Member(hello, "models")) models.push_back(Shown(model));
  slots = Whole(hello, "slots");
  strategy = Shown(hello, "strategy");
}

void TopModel::TakeFrame(const json& frame) {
  ++frames_;
  TakeSteps(base::Member(frame, "steps"));
  TakeRequests(base::Member(frame, "requests"));
  requests_left_out = Whole(frame, "requests_left_out");
  TakeEnded(base::Member(frame, "ended"));
  TakeQueue(base::Member(frame, "queue"));
  const json& blocks = base::Member(frame, "blocks");
  free_blocks = Whole(blocks, "free");
  held_blocks = Whole(blocks, "held");
  cached_blocks = Whole(blocks, "cached");
  disk_blocks = Whole(blocks, "disk");
  const json& rates = base::Member(frame, "rates");
  prompt_rate = Real(rates, "prompt");
  output_rate = Real(rates, "output");
  busy = std::min(Real(rates, "busy"), 1.0);
  minute = WindowOf(frame, "minute");
  hour = WindowOf(frame, "hour");
  TakeBackends(base::Member(frame, "backends"));
}

void TopModel::TakeSteps(const json& steps) {
  for (const json& step : steps) {
    for (const json& row : base::Member(step, "rows")) {
      if (!row.is_array() || row.size() < 4) continue;
      const auto number = [&row](size_t at) {
        return row[at].is_number() ? std::clamp(row[at].get<double>(), 0.0, kMostCounted) : 0.0;
      };
      Tokens& tokens = tokens_[static_cast<int64_t>(number(0))];
      tokens.now = static_cast<int64_t>(number(2) + number(3));
      tokens.most = std::max(tokens.most, tokens.now);
    }
  }
}

void TopModel::TakeRequests(const json& list) {
  requests.clear();
  std::unordered_map<int64_t, Tokens> kept;
  for (const json& one : list) {
    TopRequest request = {.id = Whole(one, "id"),
                          .tenant = Shown(one, "tenant"),
                          .priority = Shown(one, "class"),
                          .state = Shown(one, "state"),
                          .age = Real(one, "age"),
                          .prompt = Whole(one, "prompt"),
                          .backend = Shown(one, "backend")};
    if (base::Member(one, "position").is_number()) request.position = Whole(one, "position");
    if (const auto seen = tokens_.find(request.id); seen != tokens_.end()) {
      kept.insert(*seen);
      if (request.prompt > 0) {
        request.computed = std::min(seen->second.now, request.prompt);
        // The step that completes the prompt samples the first token.
        request.output = std::max<int64_t>(seen->second.most - request.prompt + 1, 0);
      }
    }
    requests.push_back(std::move(request));
  }
  tokens_ = std::move(kept);
  std::sort(requests.begin(), requests.end(), Before);
}

void TopModel::TakeEnded(const json& list) {
  for (const json& one : list) {
    const int64_t number = Whole(one, "number");
    if (!ended.empty() && number <= ended.front().number) continue;
    ended.push_front({.number = number,
                      .id = Whole(one, "id"),
                      .tenant = Shown(one, "tenant"),
                      .priority = Shown(one, "class"),
                      .reason = Shown(one, "reason"),
                      .prompt = Whole(one, "prompt"),
                      .cached = Whole(one, "cached"),
                      .output = Whole(one, "output"),
                      .preemptions = Whole(one, "preemptions"),
                      .queue_ms = Real(one, "queue_ms"),
                      .prefill_ms = Real(one, "prefill_ms"),
                      .decode_ms = Real(one, "decode_ms")});
    if (ended.size() > kMostEnded) ended.pop_back();
  }
}

void TopModel::TakeQueue(const json& queue) {
  blocked_by = Shown(queue, "blocked_by");
  const json& all = base::Member(queue, "classes");
  for (size_t i = 0; i < kTopClasses.size(); ++i) {
    const json& one = base::Member(all, kTopClasses[i]);
    classes[i] = {Whole(one, "waiting"), Whole(one, "running"), Real(one, "wait")};
  }
  tenants.clear();
  for (const json& one : base::Member(queue, "tenants")) {
    tenants.push_back({Shown(one, "name"), Whole(one, "waiting"), Whole(one, "running")});
  }
  tenants_left_out = Whole(queue, "tenants_left_out");
}

void TopModel::TakeBackends(const json& list) {
  backends.clear();
  for (const json& one : list) {
    const json& latency = base::Member(one, "latency_ms");
    TopBackend backend = {.name = Shown(one, "name"),
                          .model = Shown(one, "model"),
                          .state = Shown(one, "state"),
                          .in_flight = Whole(one, "in_flight"),
                          .limit = Whole(base::Member(one, "concurrency"), "limit"),
                          .p50 = Real(latency, "p50"),
                          .p99 = Real(latency, "p99"),
                          .sent = Whole(one, "sent"),
                          .completed = Whole(one, "completed"),
                          .retries = Whole(one, "retries"),
                          .resumptions = Whole(one, "resumptions")};
    const json& failures = base::Member(one, "failures");
    for (const char* kind : {"unreachable", "busy", "broken", "rejected", "timeouts"}) {
      backend.failures += Whole(failures, kind);
    }
    backends.push_back(std::move(backend));
  }
}

}  // namespace ropeway::cli
