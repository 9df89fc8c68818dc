// Typed reads of one JSON value that belongs to a named field; a failed Status names the field.
#ifndef ROPEWAY_SERVER_JSON_FIELDS_H_
#define ROPEWAY_SERVER_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

StatusOr<bool> ReadBool(const nlohmann::json& value, const std::string& field);

StatusOr<std::string> ReadString(const nlohmann::json& value, const std::string& field);

// An integer in [low, high], written as one: 3.0 and 1e2 are refused.
StatusOr<int64_t> ReadInt(const nlohmann::json& value, const std::string& field, int64_t low,
                          int64_t high);

StatusOr<int32_t> ReadInt32(const nlohmann::json& value, const std::string& field, int32_t low,
                            int32_t high);

// The token ids in a list: integers of at least 0.
StatusOr<std::vector<TokenId>> ReadTokenIds(const nlohmann::json& list, const std::string& field);

// A finite number in [low, high], or in (low, high] with `above_low`.
StatusOr<double> ReadNumber(const nlohmann::json& value, const std::string& field, double low,
                            double high, bool above_low = false);

// A name that a client gave as an error shows it: bounded, and UTF-8 where it is cut.
std::string ShownName(const std::string& name);

// kInvalidArgument: "Unknown field '...'."
Status UnknownField(const std::string& path);

// kInvalidArgument: "'field' must be <expected>, but is <what it is>."
Status Mismatch(const nlohmann::json& value, const std::string& field, const std::string& expected);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_JSON_FIELDS_H_
