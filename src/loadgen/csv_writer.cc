#include "loadgen/csv_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/csv_field.h"

namespace ropeway::loadgen {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kCsvHeader[] =
    "run_num,seq,status,batch_num,input_tokens,output_tokens,total_tokens,latency,ttft,"
    "tokens_per_sec,prompt,output_prompt,error,error_kind,due,tpot,tokens_estimated,"
    "queue_time,formation_time,prefill_time,decode_time,output_time\r\n";

std::string OrEmpty(const std::optional<double>& value) {
  return value ? fmt::format("{:.6f}", *value) : "";
}

void WriteRow(const RequestRecord& r, const std::string& prompt, std::ostream* out) {
  const std::string rate =
      r.ok() && r.latency > 0
          ? fmt::format("{:.3f}", static_cast<double>(r.output_tokens) / r.latency)
          : "";
  *out << fmt::format("{},{},{},{},{},{},{},{:.6f},{},{},", r.run_num, r.seq, r.status,
                      r.batch_num ? std::to_string(*r.batch_num) : "", r.input_tokens,
                      r.output_tokens, r.input_tokens + r.output_tokens, r.latency, OrEmpty(r.ttft),
                      rate)
       << base::CsvField(prompt) << ',' << base::CsvField(r.output) << ','
       << base::CsvField(r.error)
       << fmt::format(",{},{:.6f},{},{}", base::CsvField(r.error_kind), r.due,
                      OrEmpty(TimePerOutputToken(r)), r.estimated ? 1 : 0);
  for (const std::optional<double>& time : r.phases) *out << ',' << OrEmpty(time);
  *out << "\r\n";
}

// Seconds to the microsecond.
double Rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

template <typename T>
OrderedJson OrNull(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson RecordJson(const RequestRecord& r, const std::string& prompt) {
  OrderedJson gaps = OrderedJson::array();
  for (const float gap : r.gaps) gaps.push_back(Rounded(gap));
  OrderedJson times = OrderedJson::object();
  for (size_t i = 0; i < kPhases.size(); ++i) {
    if (r.phases[i]) times[kPhases[i]] = Rounded(*r.phases[i]);
  }
  return {{"run", r.run_num},
          {"seq", r.seq},
          {"conversation", r.conversation},
          {"turn", r.turn},
          {"status", r.status},
          {"error_kind", r.error_kind},
          {"error", r.error},
          {"due", Rounded(r.due)},
          {"latency", Rounded(r.latency)},
          {"ttft", r.ttft ? OrderedJson(Rounded(*r.ttft)) : OrderedJson(nullptr)},
          {"gaps", std::move(gaps)},
          {"input_tokens", r.input_tokens},
          {"output_tokens", r.output_tokens},
          {"cached_tokens", OrNull(r.cached_tokens)},
          {"estimated", r.estimated},
          {"batch_num", OrNull(r.batch_num)},
          {"batch", OrNull(r.batch)},
          {"batch_size", OrNull(r.batch_size)},
          {"times", std::move(times)},
          {"tries", r.tries},
          {"promised", OrNull(r.promised)},
          {"waited", Rounded(r.waited)},
          {"prompt", prompt},
          {"output", r.output}};
}

void WriteLine(const OrderedJson& json, std::ostream* out) {
  *out << json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

}  // namespace

void WriteCsv(const std::vector<RunResult>& runs, const PromptOf& prompt_of, std::ostream* out) {
  *out << kCsvHeader;
  for (const RunResult& run : runs) {
    for (const RequestRecord& record : run.records) WriteRow(record, prompt_of(record), out);
  }
}

void WriteRecords(const std::vector<RunResult>& runs, const PromptOf& prompt_of,
                  std::ostream* out) {
  for (size_t i = 0; i < runs.size(); ++i) {
    WriteLine({{"run", i + 1},
               {"begin", base::ToSeconds(runs[i].begin)},
               {"wall_s", runs[i].wall_seconds},
               {"cpu_s", runs[i].cpu_seconds},
               {"interrupted", runs[i].interrupted}},
              out);
    for (const RequestRecord& record : runs[i].records) {
      WriteLine(RecordJson(record, prompt_of(record)), out);
    }
  }
}

}  // namespace ropeway::loadgen
