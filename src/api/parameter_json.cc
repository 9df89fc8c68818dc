#include "api/parameter_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>

#include "api/json.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/words.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// A token id as JSON writes it in a key: decimal, and in one way only, so that none comes twice.
bool ParseIdKey(const std::string& key, TokenId* id) {
  if (key.empty() || (key.size() > 1 && key[0] == '0')) return false;
  *id = base::ParseNumber<TokenId>(key).value_or(-1);
  return *id >= 0;
}

// Reads one row's value, by its type, into `out`.
struct ValueReader {
  Status operator()(float* out) const {
    const auto number = value.is_number() ? value.get<double>() : 0.0;
    if (!value.is_number() || !core::Within(row, number)) {
      return Mismatch(value, field, core::Expected(row));
    }
    *out = static_cast<float>(number);
    return {};
  }

  template <typename Integer>
  Status operator()(Integer* out) const {
    return Store(
        ReadInt32(value, field, static_cast<int32_t>(row.low), static_cast<int32_t>(row.high)),
        out);
  }

  // All 64-bit integers, signed or not: a negative seed stands for its two's complement.
  Status operator()(std::optional<uint64_t>* out) const {
    if (!value.is_number_integer()) return Mismatch(value, field, "a 64-bit integer");
    *out = value.is_number_unsigned() ? value.get<uint64_t>()
                                      : static_cast<uint64_t>(value.get<int64_t>());
    return {};
  }

  Status operator()(bool* out) const { return Store(ReadBool(value, field), out); }

  Status operator()(std::vector<LogitBias>* out) const {
    if (!value.is_object()) return Mismatch(value, field, "an object");
    if (value.size() > row.most) return TooMany();
    out->clear();
    for (const auto& [key, bias] : value.items()) {
      TokenId id = 0;
      if (!ParseIdKey(key, &id)) {
        return InvalidArgument(
            fmt::format("'{}' must map token ids to numbers, but has the key '{}'.", field,
                        ShownName(key)),
            field);
      }
      if (!bias.is_number() || !core::Within(row, bias.get<double>())) {
        return InvalidArgument(
            fmt::format("'{}' must hold numbers from {} to {}; the value of token {} is invalid.",
                        field, row.low, row.high, key),
            field);
      }
      out->push_back({id, bias.get<float>()});
    }
    // A JSON object has no order; what is submitted shall have one.
    std::sort(out->begin(), out->end(),
              [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
    return {};
  }

  Status operator()(std::vector<std::string>* out) const {
    const bool one = !value.is_array();
    if (!one && value.size() > row.most) return TooMany();
    out->clear();
    for (size_t i = 0; i < (one ? 1 : value.size()); ++i) {
      const json& text = one ? value : value[i];
      if (!text.is_string()) return Mismatch(text, field, "a string or a list of strings");
      if (text == "") continue;  // None, as in llama.cpp.
      if (Status status = Bytes(text, "hold strings"); !status.ok()) return status;
      out->push_back(text.get<std::string>());
    }
    return {};
  }

  Status operator()(std::vector<TokenId>* out) const {
    if (!value.is_array()) return Mismatch(value, field, "a list of token ids");
    return value.size() > row.most ? TooMany() : Store(ReadTokenIds(value, field), out);
  }

  // An empty salt is rejected, as in vLLM: its sender wants a salt, and would share blocks without
  // one.
  Status operator()(std::string* out) const {
    if (!value.is_string()) return Mismatch(value, field, "a string");
    if (Status status = Bytes(value, "be a string"); !status.ok()) return status;
    return Store(ReadString(value, field), out);
  }

  Status TooMany() const {
    return InvalidArgument(fmt::format("'{}' holds {} entries; at most {} are allowed.", field,
                                       value.size(), row.most),
                           field);
  }
  Status Bytes(const json& text, const char* must) const {
    const size_t bytes = text.get_ref<const std::string&>().size();
    if (core::Within(row, static_cast<double>(bytes))) return {};
    return InvalidArgument(fmt::format("'{}' must {} of {} to {} bytes, not {}.", field, must,
                                       row.low, row.high, bytes),
                           field);
  }

  const core::Parameter& row;
  const json& value;
  const std::string& field;
};

// The double whose shortest text is the float's shortest text, so that 0.7F is sent as 0.7; it
// rounds to the float.
double Number(float value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  double number = 0;
  if (error == std::errc()) std::from_chars(text, end, number);
  return static_cast<float>(number) == value ? number : static_cast<double>(value);
}

// A value as other servers take it.
OrderedJson Written(float value) { return Number(value); }
OrderedJson Written(int32_t value) { return std::max(value, 0); }  // -1 is 0: all tokens.
OrderedJson Written(const std::optional<int32_t>& value) { return *value; }
OrderedJson Written(const std::vector<LogitBias>& biases) {
  OrderedJson object = OrderedJson::object();
  for (const LogitBias& bias : biases) object[std::to_string(bias.id)] = Number(bias.bias);
  return object;
}
template <typename T>
OrderedJson Written(const T& value) {
  return value;
}

}  // namespace

Status ReadParameter(const core::Parameter& row, const json& value, const std::string& field,
                     Request* request) {
  Status status = core::VisitValue(row, *request, [&](auto& out) {
    return ValueReader{row, value, field}(&out);
  });
  if (status.ok()) request->sampling.given |= row.given;
  return status;
}

void MergeBiases(std::vector<LogitBias>* biases) {
  const core::Parameter& row = *core::FindParameter("logit_bias");
  std::ranges::stable_sort(*biases, {}, &LogitBias::id);
  std::vector<LogitBias> merged;
  for (const LogitBias& bias : *biases) {
    if (merged.empty() || merged.back().id != bias.id) merged.push_back({bias.id, 0});
    merged.back().bias += bias.bias;
  }
  for (LogitBias& bias : merged) {
    bias.bias = std::clamp(bias.bias, static_cast<float>(row.low), static_cast<float>(row.high));
  }
  *biases = std::move(merged);
}

void WriteParameters(const Request& request, core::ServerKind kind, OrderedJson* out) {
  for (const core::Parameter& row : core::Parameters()) {
    const char* const name = core::NameAt(row, kind);
    if (name == nullptr) continue;
    const bool given = core::IsGiven(row, request);
    core::VisitValue(row, request, [&]<typename T>(const T& value) {
      if constexpr (std::is_same_v<T, std::string>) {
        // The salt: the server does not know the tenants.
        if (std::string salt = SharedCacheSalt(request); !salt.empty()) (*out)[name] = salt;
      } else if constexpr (std::is_same_v<T, std::optional<uint64_t>>) {
        if (given) (*out)[name] = static_cast<int64_t>(*SeedOf(request));
      } else if (given) {
        (*out)[name] = Written(value);
      }
    });
  }
}

std::vector<std::string> UnknownParameters(const Request& request, core::ServerKind kind) {
  std::vector<std::string> names;
  for (const core::Parameter& row : core::Parameters()) {
    if (core::NameAt(row, kind) == nullptr && core::Changes(row, request)) {
      names.emplace_back(row.name);
    }
  }
  return names;
}

std::optional<uint64_t> SeedOf(const Request& request) {
  if (!request.sampling.seed || request.choice == 0) return request.sampling.seed;
  return base::Mix64(*request.sampling.seed, request.choice);
}

std::string SharedCacheSalt(const Request& request) {
  const bool scoped = !request.cache_scope.empty();
  const std::string& scope = scoped ? request.cache_scope : request.tenant;
  if (scope.empty() && request.cache_salt.empty()) return {};
  std::string text = scoped ? "scope" : "tenant";
  // With their lengths, so that no two divisions read the same.
  for (const std::string* part : {&scope, &request.cache_salt}) {
    text += ' ' + std::to_string(part->size()) + ' ' + *part;
  }
  return base::HexText(base::Sha256(text.data(), text.size()));
}

}  // namespace ropeway::api
