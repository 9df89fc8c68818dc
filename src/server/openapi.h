// The server's description of itself for programs (OpenAPI 3.1), made from its tables.
#ifndef ROPEWAY_SERVER_OPENAPI_H_
#define ROPEWAY_SERVER_OPENAPI_H_

#include <string>
#include <vector>

#include "http/route.h"

namespace ropeway::server {

// The document: every row of `routes` with the fields of its body, which have types and ranges
// where they are rows of core/parameters.h.
std::string OpenApiJson(const std::vector<http::Route>& routes);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_OPENAPI_H_
