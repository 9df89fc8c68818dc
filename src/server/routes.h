// The table of the server's routes: all that it answers stands in routes.cc, a row each.
#ifndef ROPEWAY_SERVER_ROUTES_H_
#define ROPEWAY_SERVER_ROUTES_H_

#include <functional>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "http/route.h"

namespace ropeway::server {

class ServerContext;

// The rows of `ropeway serve` and `ropeway gateway`. `context` must outlive their handlers.
std::vector<http::Route> ServerRoutes(ServerContext* context);
// Makes the rows of a table.
using RoutesMaker = std::function<std::vector<http::Route>(ServerContext* context)>;

// The row of a dialect that generates.
http::Route DialectRoute(ServerContext* context, std::string_view path,
                         api::ApiFormatMaker make_format, std::string_view summary);

// What answers all other paths.
http::Route NoRoute(ServerContext* context);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_ROUTES_H_
