// The fields of request bodies. Those that a server uses are read by a dialect's own FieldTable and
// by the rows of core/parameters.h; all others that are known are rows of one table here.
#ifndef ROPEWAY_API_FIELDS_H_
#define ROPEWAY_API_FIELDS_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/api_format.h"
#include "api/json.h"
#include "ropeway/status.h"

namespace ropeway::api {

// Dialects, as bits of FieldRow::dialects.
enum Dialect : uint32_t {
  kCompletions = 1U << 0U,
  kChat = 1U << 1U,
  kTokenize = 1U << 2U,
  kDetokenize = 1U << 3U,
  kResponses = 1U << 4U,
  kConversations = 1U << 5U,
  kAnthropic = 1U << 6U,
  kLlamaCpp = 1U << 13U,
  // Ollama's. The last is of the bodies that name a model and little more.
  kOllamaChat = 1U << 10U,
  kOllamaGenerate = 1U << 11U,
  kOllamaModel = 1U << 12U,
  kEmbeddings = 1U << 16U,
  kOllamaEmbed = 1U << 17U,
  kOllamaOldEmbeddings = 1U << 18U,
  kLlamaEmbedding = 1U << 19U,
};

enum class FieldKind : uint8_t {
  kNoEffect,  // `values` names the type that it must have; "": any.
  // With one of `values`, which are JSON, parted by " or "; others are unsupported. Where that is
  // empty ([], "" or false), all that is empty will do.
  kNoEffectWith,
  kUnsupported,
};

// A field that is known and not used. A member of a field has its path: "messages[].x".
struct FieldRow {
  const char* name;
  uint32_t dialects;
  FieldKind kind;
  const char* values = "";
  const char* instead = "";  // The field that does what a client wants of this one.
};

std::span<const FieldRow> FieldRows();
// The row of this name in a dialect; null: there is none.
const FieldRow* FindField(Dialect dialect, std::string_view name);
// OK for a value that changes nothing. Else kUnimplemented, or kInvalidArgument where it is of
// another type.
Status CheckField(const FieldRow& row, const nlohmann::json& value, const std::string& field);

// What the reading of one body finds beside its values: faults and unknown fields.
class FieldReport {
 public:
  // `limits` must outlive it.
  FieldReport(Dialect dialect, const BodyLimits& limits) : dialect_(dialect), limits_(limits) {}

  // Keeps a fault; OK is none.
  void Add(Status fault);
  // Keeps a fault that the field it names and `others` have together. Drops it where one of them,
  // or a part of one, is at fault by itself.
  void AddTogether(Status fault, std::initializer_list<std::string_view> others = {});
  // There are more faults than are kept: nothing is left to find.
  bool full() const { return more_faults_; }

  // Takes a field that the reader of its object does not use: `parent` is what rows of that object
  // begin with, such as "messages[].", `path` what this one is called, and `used` what the reader
  // uses. It is checked by its row; without one it is ignored, unless it resembles a known one.
  void AddOther(std::string_view parent, const std::string& name, const nlohmann::json& value,
                const std::string& path, std::span<const std::string_view> used);

  // A fault if another name of the same thing gave another value. `what` stands for the thing.
  // `value` must outlive this.
  Status CheckAlias(const void* what, const std::string& field, const nlohmann::json& value);

  // All faults as one, with the first one's code and field.
  Status status() const;
  // The names of those that are ignored, each once. Client text.
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  const Dialect dialect_;
  const BodyLimits& limits_;
  std::vector<Status> faults_;  // At most kMostFaults.
  bool more_faults_ = false;
  std::vector<std::string> ignored_;  // At most kMostIgnored: further ones are not looked at.
  std::map<const void*, std::pair<std::string, const nlohmann::json*>> aliases_;
};

// What readers of fields have of the body beside the field's value. Set while it is read.
struct BodySource {
  FieldReport* report = nullptr;
  // As it was sent, with the keys of its objects in order.
  std::string_view text = {};
  base::JsonBounds bounds = {};
};

// The value of the header x-ropeway-ignored: names in printable ASCII without commas, at most 8 and
// 256 bytes, and how many more there are. "": there are none.
std::string IgnoredHeader(const std::vector<std::string>& names);
// A name as that header and a log line show it.
std::string EscapedName(std::string_view name);

// --- Tables of fields. A reader stores one field's value, which is never null, in a `Draft`.

template <typename Draft>
using FieldReader =
    std::function<Status(const nlohmann::json& value, const std::string& field, Draft* draft)>;
template <typename Draft>
using FieldReaders = std::unordered_map<std::string, FieldReader<Draft>>;

template <typename Draft>
struct FieldTable {
  Dialect dialect;
  FieldReaders<Draft> readers;
};

// The names of the fields that have readers, in order.
template <typename Draft>
std::vector<std::string> NamesOf(const FieldTable<Draft>& table) {
  std::vector<std::string> names;
  for (const auto& [name, reader] : table.readers) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

// Reads every field of `document` by its reader, and leaves all others to the draft's report, whose
// status it returns. null is the same as an absent field (OpenAI's clients send it so).
template <typename Json, typename Draft>
Status ReadFields(const Json& document, const FieldTable<Draft>& table, Draft* draft) {
  if (!document.is_object()) return InvalidArgument("The body must be a JSON object.");
  std::vector<std::string_view> used;  // Gathered for the first field that has no reader.
  for (const auto& [name, value] : document.items()) {
    const auto reader = table.readers.find(name);
    if (reader == table.readers.end()) {
      for (auto it = table.readers.begin(); used.size() < table.readers.size(); ++it) {
        used.push_back(it->first);
      }
      draft->report->AddOther("", name, value, ShownName(name), used);
    } else if (!value.is_null()) {
      draft->report->Add(reader->second(value, name, draft));
    }
  }
  return draft->report->status();
}

// Where a draft keeps a member. For the members of a part of it, a draft has an overload of this.
template <typename Draft, typename Class, typename T>
requires std::derived_from<Draft, Class> T* Slot(Draft* draft, T Class::*member) {
  return &(draft->*member);
}

// The reader of a field that `read` makes a value of, which is stored in `member`.
template <typename Read, typename Member>
auto FieldOf(Read read, Member member) {
  return [=](const nlohmann::json& value, const std::string& field, auto* draft) -> Status {
    return Store(read(value, field), Slot(draft, member));
  };
}

// The reader of a field that is an integer in [low, high].
template <typename Member>
auto IntField(int32_t low, int32_t high, Member member) {
  const auto read = [=](const nlohmann::json& value, const std::string& field) {
    return ReadInt32(value, field, low, high);
  };
  return FieldOf(read, member);
}

}  // namespace ropeway::api

#endif  // ROPEWAY_API_FIELDS_H_
