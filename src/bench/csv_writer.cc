#include "bench/csv_writer.h"

#include <fmt/format.h>

#include "base/csv_field.h"

namespace ropeway {
namespace {

constexpr char kHeader[] =
    "run_num,seq,status,batch_num,input_tokens,output_tokens,total_tokens,latency,ttft,"
    "tokens_per_sec,prompt,output_prompt,error,error_kind,due,tpot,tokens_estimated,"
    "queue_time,formation_time,prefill_time,decode_time,output_time\r\n";

std::string OrEmpty(const std::optional<double>& value) {
  return value ? fmt::format("{:.6f}", *value) : "";
}

// What each row of a run ends with.
std::string PhaseFields(const std::optional<ServerPhases>& phases,
                        std::optional<Priority> priority) {
  std::string fields;
  for (size_t phase = 0; phase < kPhases.size(); ++phase) {
    fields += ',';
    if (phases) fields += OrEmpty(phases->Mean(priority, phase));
  }
  return fields;
}

void WriteRow(const RequestRecord& r, const std::string& prompt, const std::string& phases,
              std::ostream* out) {
  const std::string rate =
      r.ok() && r.latency > 0
          ? fmt::format("{:.3f}", static_cast<double>(r.output_tokens) / r.latency)
          : "";
  *out << fmt::format("{},{},{},{},{},{},{},{:.6f},{},{},", r.run_num, r.seq, r.status,
                      r.batch_num ? std::to_string(*r.batch_num) : "", r.input_tokens,
                      r.output_tokens, r.input_tokens + r.output_tokens, r.latency, OrEmpty(r.ttft),
                      rate)
       << CsvField(prompt) << ',' << CsvField(r.output) << ',' << CsvField(r.error)
       << fmt::format(",{},{:.6f},{},{}{}\r\n", CsvField(r.error_kind), r.due,
                      OrEmpty(TimePerOutputToken(r)), r.estimated ? 1 : 0, phases);
}

}  // namespace

void WriteCsv(const std::vector<RunResult>& runs,
              const std::function<std::string(int, int)>& prompt_of,
              std::optional<Priority> priority, std::ostream* out) {
  *out << kHeader;
  for (const RunResult& run : runs) {
    const std::string phases = PhaseFields(run.phases, priority);
    for (const RequestRecord& record : run.records) {
      WriteRow(record, prompt_of(record.run_num, record.seq), phases, out);
    }
  }
}

}  // namespace ropeway
