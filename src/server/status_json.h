// What answers and events both say of requests and of backends.
#ifndef ROPEWAY_SERVER_STATUS_JSON_H_
#define ROPEWAY_SERVER_STATUS_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "ropeway/stats.h"
#include "service/front_desk.h"

namespace ropeway::server {

// The name of a state: "running".
const char* StateName(service::RequestState state);

// A gateway's backend, in docs/api.md's "backends".
nlohmann::ordered_json BackendJson(const BackendStatus& backend);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STATUS_JSON_H_
