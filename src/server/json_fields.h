// Typed reads of one JSON value that belongs to a named field; a failed Status names the field.
#ifndef ROPEWAY_SERVER_JSON_FIELDS_H_
#define ROPEWAY_SERVER_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "ropeway/status.h"

namespace ropeway {

StatusOr<bool> ReadBool(const nlohmann::json& value, const std::string& field);

StatusOr<std::string> ReadString(const nlohmann::json& value, const std::string& field);

// An integer in [low, high], written as one: 3.0 and 1e2 are refused.
StatusOr<int64_t> ReadInt(const nlohmann::json& value, const std::string& field, int64_t low,
                          int64_t high);

// A finite number in [low, high], or in (low, high] with `above_low`.
StatusOr<double> ReadNumber(const nlohmann::json& value, const std::string& field, double low,
                            double high, bool above_low = false);

// kInvalidArgument: "'field' must be <expected>, but is <what it is>."
Status Mismatch(const nlohmann::json& value, const std::string& field, const std::string& expected);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_JSON_FIELDS_H_
