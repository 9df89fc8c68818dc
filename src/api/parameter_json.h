// The rows of core/parameters.h in JSON: read from clients' bodies, and written for other servers.
#ifndef ROPEWAY_API_PARAMETER_JSON_H_
#define ROPEWAY_API_PARAMETER_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/parameters.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// Reads the row's value, which is not null, into the request, and notes that it was given. A failed
// status names `field`, which is what the client calls the row.
Status ReadParameter(const core::Parameter& row, const nlohmann::json& value,
                     const std::string& field, Request* request);

// Puts biases in the order of their ids, and adds up those of one id, within the row's range.
void MergeBiases(std::vector<LogitBias>* biases);

// Adds to the object `out` what the request gives and such a server takes, by its names there.
void WriteParameters(const Request& request, core::ServerKind kind, nlohmann::ordered_json* out);

// The parameters that the request gives, that would change its answer, and that such a server does
// not take, by their names in Ropeway's API.
std::vector<std::string> UnknownParameters(const Request& request, core::ServerKind kind);

// The seed, if there is one: choices of one request that a server computes as separate ones get
// seeds of their own.
std::optional<uint64_t> SeedOf(const Request& request);

// What divides the prefix cache of a server that all of the gateway's tenants share: "" for a
// request of no tenant and without a salt, else 64 characters that say nothing about either.
std::string SharedCacheSalt(const Request& request);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_PARAMETER_JSON_H_
