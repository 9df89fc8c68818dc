// Routes: the rows of one table. A row says which callers may use a path, what its requests may
// cost and which handler answers them; the answers to HEAD, OPTIONS and other methods follow from
// it.
#ifndef ROPEWAY_HTTP_ROUTE_H_
#define ROPEWAY_HTTP_ROUTE_H_

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/caller.h"
#include "http/http_error.h"

namespace ropeway::http {

class Exchange;

struct RouteLimits {
  bool takes_body = false;    // The handler looks at the body; others' are read and dropped.
  bool cross_origin = false;  // Pages of other origins may use it; see OriginRule.
  bool page = false;          // For browsers: RouteTable::Suggest names it to no client.
  bool probe = false;         // Answered whatever the load: without a place, and without a turn.
};

// What was sent to a client.
struct Sent {
  int status = 499;  // The HTTP status; 499: the client left before the end.
  bool keep_alive = false;
};

struct Route {
  using Handler = std::function<boost::asio::awaitable<Sent>(std::shared_ptr<Exchange>)>;

  std::string_view method;  // "GET" takes HEAD too.
  // Parts may be arguments, "/v1/things/{thing}/items/{item}": at least one character each, of any
  // kind but '/'; what ends the path may hold that too. It is also answered with a slash at its
  // end, and without "/v1" at its begin. Metrics and log lines name the route so, whatever the
  // client wrote.
  std::string_view path;
  Rights rights = Rights::kKey;
  RouteLimits limits = {};
  Handler handler = nullptr;
  // For documents: what it does, and the names of its body's fields.
  std::string_view summary = {};
  std::vector<std::string> fields = {};
  // The body of an error; null: the application's (HttpApplication::ErrorBody).
  std::function<std::string(const HttpError&)> write_error = nullptr;
  // The header in which the clients of its API look for x-request-id, which it repeats; "": none.
  std::string_view id_header = {};
};

// The names of a path's arguments: "thing" and "item".
std::vector<std::string_view> ArgumentNames(std::string_view path);

// The authority of `target`, the host and the port of a whole URL; "" for a path.
std::string_view AuthorityOf(std::string_view target);

struct RouteMatch {
  const Route* route = nullptr;  // Never null in what RouteTable::Match returns.
  // Route::path; for unknown paths RouteTable::nothing's, so that clients cannot make new
  // values of labels.
  std::string_view name;
  bool method_allowed = false;
  bool options = false;      // OPTIONS of a known path or of "*", which the table answers.
  std::string methods = {};  // The path's methods, "GET, HEAD"; for OPTIONS *, all paths'.
  // The path's, as the client wrote them; where it is unknown, all of it.
  std::vector<std::string> arguments = {};
  std::string query = {};  // What follows the target's "?", as the client wrote it.
};

// Immutable, so thread-safe.
class RouteTable {
 public:
  // `nothing` answers all other paths.
  RouteTable(std::vector<Route> routes, Route nothing);

  // `target` as in the request line: a path, or a whole URL whose host does not matter (RFC 9112,
  // section 3.2.2). The first row whose path it is names the route.
  RouteMatch Match(std::string_view method, std::string_view target) const;

  // The path that a client may have meant by `path`, which is unknown: one within two edits, or
  // with the same last part; of several the nearest. "": none. Takes microseconds whatever it is.
  std::string_view Suggest(std::string_view path) const;

  const std::vector<Route>& routes() const { return routes_; }
  const Route& nothing() const { return nothing_; }

 private:
  // Whether a route has the path `path`, written exactly so.
  bool Find(std::string_view method, std::string_view path, RouteMatch* match) const;

  const std::vector<Route> routes_;
  const Route nothing_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_ROUTE_H_
