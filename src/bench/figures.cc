#include "bench/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/csv_field.h"
#include "bench/statistics.h"
#include "bench/text_lines.h"

namespace ropeway {
namespace {

constexpr char kHeader[] = "part,contestant,round,x,metric,value";

template <typename T>
std::optional<T> Number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void AddOnce(const std::string& value, std::vector<std::string>* values) {
  if (std::find(values->begin(), values->end(), value) == values->end()) values->push_back(value);
}

}  // namespace

void Figures::Add(const Figure& where, const std::string& metric, double value) {
  Add(where, metric, fmt::format("{:.6g}", value));
}

void Figures::Add(const Figure& where, const std::string& metric, const std::string& value) {
  all_.push_back({where.part, where.contestant, where.round, where.x, metric, value});
}

std::optional<double> Figures::Median(const std::string& part, const std::string& contestant,
                                      const std::string& x, const std::string& metric) const {
  std::vector<double> values;
  for (const Figure& f : all_) {
    if (f.part != part || f.contestant != contestant || f.x != x || f.metric != metric) continue;
    if (const std::optional<double> value = Number<double>(f.value)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return Describe(std::move(values)).p50;
}

std::optional<double> Figures::Value(const std::string& part, const std::string& contestant,
                                     int round, const std::string& x,
                                     const std::string& metric) const {
  for (const Figure& f : all_) {
    if (f.part != part || f.contestant != contestant || f.round != round || f.x != x) continue;
    if (f.metric == metric) return Number<double>(f.value);
  }
  return std::nullopt;
}

std::string Figures::Text(const std::string& part, const std::string& contestant,
                          const std::string& metric) const {
  std::string text;
  for (const Figure& f : all_) {
    if (f.part == part && f.contestant == contestant && f.metric == metric) text = f.value;
  }
  return text;
}

std::vector<std::string> Figures::Contestants(const std::string& part) const {
  std::vector<std::string> names;
  for (const Figure& f : all_) {
    if (f.part == part) AddOnce(f.contestant, &names);
  }
  return names;
}

std::vector<std::string> Figures::Places(const std::string& part, const std::string& metric) const {
  std::vector<std::string> places;
  for (const Figure& f : all_) {
    if (f.part == part && f.metric == metric) AddOnce(f.x, &places);
  }
  return places;
}

int Figures::Rounds(const std::string& part, const std::string& contestant) const {
  int rounds = 0;
  for (const Figure& f : all_) {
    if (f.part == part && f.contestant == contestant) rounds = std::max(rounds, f.round);
  }
  return rounds;
}

std::string Figures::Csv() const {
  std::string text = std::string(kHeader) + "\r\n";
  for (const Figure& f : all_) {
    text += fmt::format("{},{},{},{},{},{}\r\n", CsvField(f.part), CsvField(f.contestant), f.round,
                        CsvField(f.x), CsvField(f.metric), CsvField(f.value));
  }
  return text;
}

StatusOr<Figures> Figures::ReadCsv(const std::string& path) {
  TextLines lines(path);
  if (!lines.open()) return lines.Unreadable();
  if (!lines.Next() || lines.text() != kHeader) {
    return InvalidArgument(
        fmt::format("{} is no file of figures: its first line must be {}.", path, kHeader));
  }
  Figures figures;
  while (lines.Next()) {
    const auto fields = SplitCsvLine(lines.text());
    const std::optional<int> round =
        fields && fields->size() == 6 ? Number<int>((*fields)[2]) : std::nullopt;
    if (!round) return lines.Wrong("it must have six fields, the third of them a whole number");
    const std::vector<std::string>& f = *fields;
    figures.Add({f[0], f[1], *round, f[3], f[4], f[5]});
  }
  return figures;
}

std::optional<std::vector<std::string>> SplitCsvLine(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quoted) {
      if (line[i] != '"') {
        fields.back() += line[i];
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[++i];
      } else {
        quoted = false;
      }
    } else if (line[i] == '"' && fields.back().empty()) {
      quoted = true;
    } else if (line[i] == ',') {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  if (quoted) return std::nullopt;
  return fields;
}

}  // namespace ropeway
