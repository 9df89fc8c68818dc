#include "engine/trace_writer.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/system.h"

namespace ropeway::engine {
namespace {

constexpr size_t kMaxRequests = 100000;

// Left for the events that end the trace.
constexpr uint64_t kReservedBytes = 4096;

constexpr char kPhaseQueued[] = "queued";
constexpr char kPhaseFetching[] = "fetching";
constexpr char kPhasePrefill[] = "prefill";
constexpr char kPhaseDecode[] = "decode";
constexpr char kPhasePreempted[] = "preempted";

// Microseconds, as the format has them.
double Micros(base::Duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

const char* KindName(core::StepContent::Kind kind) {
  return kind == core::StepContent::Kind::kPrefill ? kPhasePrefill : kPhaseDecode;
}

// A slice's beginning or end on a request's own track.
std::string AsyncEvent(char type, RequestId request, const std::string& name, base::TimePoint at,
                       const std::string& args) {
  return fmt::format(
      R"({{"ph":"{}","cat":"request","id":{},"name":{},"pid":1,"tid":1,"ts":{:.3f},"args":{{{}}}}})",
      type, request, base::QuoteJson(name), Micros(at), args);
}

std::string RequestName(RequestId request) { return fmt::format("request {}", request); }

std::string StepArgs(const StepTrace& step) {
  int64_t prefill = 0;
  int64_t decode = 0;
  std::string items;
  for (const core::StepContent::Item& item : step.content.items) {
    (item.kind == core::StepContent::Kind::kPrefill ? prefill : decode) += item.tokens;
    items += fmt::format(R"({}{{"request":{},"kind":"{}","start":{},"tokens":{}}})",
                         items.empty() ? "" : ",", item.sequence, KindName(item.kind), item.start,
                         item.tokens);
  }
  return fmt::format(
      R"("step":{},"rows":{},"prefill_rows":{},"decode_rows":{},"fetched_blocks":{},)"
      R"("forward_us":{:.3f},"sampling_us":{:.3f},"preempted":[{}],"items":[{}])",
      step.step, prefill + decode, prefill, decode, step.content.fetched_blocks,
      Micros(step.forward), Micros(step.sampling), fmt::join(step.content.preempted, ","), items);
}

}  // namespace

StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Open(const std::string& path,
                                                         uint64_t max_bytes, size_t max_queued) {
  std::FILE* const file = base::OpenPrivateFile(path);
  if (file == nullptr) {
    return InvalidArgument(
        fmt::format("the trace file '{}' cannot be written: {}", path, std::strerror(errno)),
        "trace_file");
  }
  return std::unique_ptr<TraceWriter>(new TraceWriter(file, max_bytes, max_queued));
}

TraceWriter::TraceWriter(std::FILE* file, uint64_t max_bytes, size_t max_queued)
    : max_bytes_(max_bytes), queue_(max_queued), file_(file), thread_([this] { Loop(); }) {}

TraceWriter::~TraceWriter() { Stop(); }

template <typename Fn>
void TraceWriter::OrDrop(const Fn& fn) noexcept {
  try {
    fn();
  } catch (const std::exception&) {
    ++dropped_;
  }
}

void TraceWriter::Push(Message message) {
  if (!queue_.TryPush(std::move(message))) ++dropped_;
}

void TraceWriter::Arrived(RequestId request, const std::string& tenant,
                          base::TimePoint at) noexcept {
  OrDrop([&] { Push(Arrival{request, tenant, at}); });
}

void TraceWriter::Step(StepTrace step) noexcept {
  OrDrop([&] { Push(std::move(step)); });
}

void TraceWriter::Ended(RequestId request, const char* reason, base::TimePoint at) noexcept {
  OrDrop([&] { Push(End{request, reason, at}); });
}

void TraceWriter::Stop() {
  queue_.Close();
  if (thread_.joinable()) thread_.join();
}

void TraceWriter::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-trace");
  OrDrop([this] {
    Write(R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"ropeway"}})");
    Write(R"({"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"steps"}})");
  });
  while (true) {
    const std::list<Message> messages = queue_.WaitPopAll();
    if (messages.empty()) break;  // Closed, and nothing is left.
    for (const Message& message : messages) {
      OrDrop([&] { std::visit([this](const auto& kind) { Handle(kind); }, message); });
    }
    if (file_ != nullptr) std::fflush(file_);
  }
  OrDrop([this] { Close(); });  // Without memory the file ends without its last events.
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
}

void TraceWriter::Write(const std::string& event) {
  if (file_ == nullptr || full_) return;
  if (bytes_ + event.size() + kReservedBytes > max_bytes_) {
    full_ = true;
    base::Log().warn(
        "the trace file has reached its size limit with {} bytes: no more events are written",
        bytes_);
    return;
  }
  const char* const before = bytes_ == 0 ? "[\n" : ",\n";
  bytes_ += event.size() + 2;
  if (std::fputs(before, file_) >= 0 &&
      std::fwrite(event.data(), 1, event.size(), file_) == event.size()) {
    return;
  }
  base::Log().error("the trace file cannot be written, and tracing stops: {}",
                    std::strerror(errno));
  std::fclose(file_);
  file_ = nullptr;
}

void TraceWriter::SetPhase(RequestId request, const char* phase, base::TimePoint at) {
  const auto it = phases_.find(request);
  if (it == phases_.end() || it->second == phase) return;  // Its arrival was dropped, or no change.
  if (it->second != nullptr) Write(AsyncEvent('e', request, it->second, at, ""));
  it->second = phase;
  if (phase != nullptr) Write(AsyncEvent('b', request, phase, at, ""));
}

void TraceWriter::Handle(const Arrival& arrival) {
  last_ = std::max(last_, arrival.at);
  if (phases_.size() >= kMaxRequests) phases_.erase(phases_.begin());
  phases_[arrival.request] = nullptr;
  Write(AsyncEvent('b', arrival.request, RequestName(arrival.request), arrival.at,
                   fmt::format(R"("tenant":{})", base::QuoteJson(arrival.tenant))));
  SetPhase(arrival.request, kPhaseQueued, arrival.at);
}

void TraceWriter::Handle(const StepTrace& step) {
  last_ = std::max(last_, step.end);
  for (const RequestId request : step.content.preempted)
    SetPhase(request, kPhasePreempted, step.begin);
  for (const RequestId request : step.content.fetching)
    SetPhase(request, kPhaseFetching, step.begin);
  for (const core::StepContent::Item& item : step.content.items) {
    SetPhase(item.sequence, KindName(item.kind), step.begin);
  }
  Write(fmt::format(
      R"({{"ph":"X","cat":"step","name":"step","pid":1,"tid":1,"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
      Micros(step.begin), Micros(step.end - step.begin), StepArgs(step)));
}

void TraceWriter::Handle(const End& end) {
  last_ = std::max(last_, end.at);
  SetPhase(end.request, nullptr, end.at);
  if (phases_.erase(end.request) == 0) return;
  Write(AsyncEvent('e', end.request, RequestName(end.request), end.at,
                   fmt::format(R"("end":"{}")", end.reason)));
}

void TraceWriter::Close() {
  while (!phases_.empty()) Handle(End{phases_.begin()->first, "unknown", last_});
  if (file_ == nullptr) return;
  const std::string last = fmt::format(
      R"({{"ph":"i","s":"g","name":"end of the trace","pid":1,"tid":1,"ts":{:.3f},"args":)"
      R"({{"dropped_events":{},"full":{}}}}})",
      Micros(last_), dropped_.load(), full_);
  std::fprintf(file_, "%s%s\n]\n", bytes_ == 0 ? "[\n" : ",\n", last.c_str());
}

}  // namespace ropeway::engine
