// The fields of request bodies. Those that a server uses are read by a dialect's own FieldTable and
// by the rows of core/parameters.h; all others that are known are rows of one table here.
#ifndef ROPEWAY_API_FIELDS_H_
#define ROPEWAY_API_FIELDS_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/json.h"
#include "ropeway/status.h"

namespace ropeway::api {

// Dialects, as bits of FieldRow::dialects.
enum Dialect : uint32_t {
  kCompletions = 1U << 0U,
  kChat = 1U << 1U,
  kTokenize = 1U << 2U,
  kDetokenize = 1U << 3U,
};

enum class FieldKind : uint8_t {
  kNoEffect,      // `values` names the type that it must have.
  kNoEffectWith,  // With one of `values`, which are JSON, parted by " or "; others are unsupported.
  kUnsupported,
};

// A field that is known and not used. A member of a field has its path: "stream_options.x".
struct FieldRow {
  const char* name;
  uint32_t dialects;
  FieldKind kind;
  const char* values = "";
};

std::span<const FieldRow> FieldRows();
// The row of this name in a dialect; null: there is none.
const FieldRow* FindField(Dialect dialect, std::string_view name);
// OK for a value that changes nothing. Else kUnimplemented, or kInvalidArgument where it is of
// another type.
Status CheckField(const FieldRow& row, const nlohmann::json& value, const std::string& field);

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

// Reads every field of `document` by its reader, or checks it by its row. null is the same as an
// absent field (OpenAI's clients send it so); a field that is unknown is an error.
template <typename Json, typename Draft>
Status ReadFields(const Json& document, const FieldTable<Draft>& table, Draft* draft) {
  if (!document.is_object()) return InvalidArgument("The body must be a JSON object.");
  for (const auto& [name, value] : document.items()) {
    const auto reader = table.readers.find(name);
    const bool used = reader != table.readers.end();
    const FieldRow* row = used ? nullptr : FindField(table.dialect, name);
    if (!used && row == nullptr) return UnknownField(ShownName(name));
    if (value.is_null()) continue;
    Status status = used ? reader->second(value, name, draft) : CheckField(*row, value, name);
    if (!status.ok()) return status;
  }
  return {};
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

// Likewise of an integer in [low, high].
template <typename Member>
auto IntField(int32_t low, int32_t high, Member member) {
  const auto read = [=](const nlohmann::json& value, const std::string& field) {
    return ReadInt32(value, field, low, high);
  };
  return FieldOf(read, member);
}

}  // namespace ropeway::api

#endif  // ROPEWAY_API_FIELDS_H_
