#include "server/stored_handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/json.h"
#include "base/words.h"
#include "server/conversation_body.h"
#include "server/handlers.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;
using Json = nlohmann::ordered_json;

// What routes need to know of a dialect.
struct Dialect {
  explicit Dialect(api::ApiFormatMaker make)
      : make(make),
        prefix(make()->id_prefix()),
        has_items(dynamic_cast<api::ItemFormat*>(make().get()) != nullptr) {}

  // Whether the id may be of an answer in this dialect.
  bool Has(const std::string& id) const { return id.starts_with(prefix); }

  api::ApiFormatMaker make;
  std::string prefix;
  bool has_items;
};

Status NotThere(const std::string& id) { return NoSuchAnswer(api::ShownName(id), "id"); }

// The work of a route, for ids of its dialect alone.
StoredWork OfDialect(const Dialect& dialect, StoredWork work) {
  return [dialect, work = std::move(work)](StoredCall* call) -> StatusOr<std::string> {
    const std::string& id = call->arguments.front();
    return dialect.Has(id) ? work(call) : NotThere(id);
  };
}

// --- GET of an answer

// What its query asks for.
struct Showing {
  bool stream = false;
  std::optional<int64_t> starting_after;
};

StatusOr<Showing> ReadShowing(UrlQuery* query, const api::BodyLimits& limits,
                              const Dialect& dialect) {
  Showing showing;
  bool obfuscation = false;  // There is none to be left out.
  Status status = query->ReadBool("stream", &showing.stream);
  if (status.ok()) status = query->ReadBool("include_obfuscation", &obfuscation);
  if (status.ok()) {
    status = query->ReadInteger("starting_after", 0, std::numeric_limits<int64_t>::max(),
                                &showing.starting_after);
  }
  const bool has_items = dialect.has_items;
  if (status.ok() && has_items) status = CheckInclude(query->List("include"), limits, dialect.make);
  if (!status.ok()) return status;
  if (showing.starting_after && (!showing.stream || !has_items)) {
    return InvalidArgument(has_items ? "'starting_after' needs 'stream' to be true."
                                     : "'starting_after' is for responses: the events of this "
                                       "answer have no numbers.",
                           "starting_after");
  }
  return showing;
}

StatusOr<std::string> ShowAnswer(StoredCall* call, const Dialect& dialect) {
  StatusOr<Showing> showing = ReadShowing(&call->query, call->context->limits().body, dialect);
  if (!showing.ok()) return showing.status();
  return call->answers().Show(call->tenant, call->arguments.front());
}

// Finds the answer that is to be streamed.
StatusOr<StoredAnswers::Watched> WatchAnswer(StoredCall* call, const Dialect& dialect) {
  const StatusOr<Showing> showing =
      ReadShowing(&call->query, call->context->limits().body, dialect);
  if (!showing.ok()) return showing.status();
  const std::string& id = call->arguments.front();
  StatusOr<StoredAnswers::Watched> watched = call->answers().Watch(call->tenant, id);
  if (!watched.ok()) return watched.status();
  auto* const items = dynamic_cast<api::ItemFormat*>(watched->format.get());
  if (items == nullptr && !watched->format->request()->stream) {
    return InvalidArgument(
        fmt::format("The answer '{}' was not asked for as a stream, and cannot be read as one.",
                    id),
        "stream");
  }
  if (showing->starting_after) items->StartAfter(*showing->starting_after);
  return watched;
}

asio::awaitable<http::Sent> StreamAnswer(std::shared_ptr<http::Exchange> exchange,
                                         ServerContext* context, Dialect dialect) {
  auto watched = std::make_shared<StoredAnswers::Watched>();
  StoredWork work = [watched, dialect](StoredCall* call) -> StatusOr<std::string> {
    StatusOr<StoredAnswers::Watched> found = WatchAnswer(call, dialect);
    if (!found.ok()) return found.status();
    *watched = *std::move(found);
    return std::string();
  };
  const StatusOr<std::string> done =
      co_await RunStored(exchange, context, OfDialect(dialect, std::move(work)));
  http::Sent sent;
  if (done.ok()) {
    sent = co_await SendWatched(exchange, context, std::move(*watched));
  } else {
    http::HttpReply reply = context->Rejection(done.status(), exchange->request.caller.tenant);
    sent = co_await exchange->Send(std::move(reply));
  }
  co_return sent;
}

asio::awaitable<http::Sent> AnswerShow(std::shared_ptr<http::Exchange> exchange,
                                       ServerContext* context, Dialect dialect) {
  const http::HttpRequest& request = exchange->request;
  std::shared_ptr<const std::string> pending;
  bool streams = false;
  if (context->stored != nullptr) {
    // In no turn of the I/O thread: it takes less time than to read the request's head did.
    UrlQuery query(request.match.query);
    const StatusOr<Showing> showing = ReadShowing(&query, context->limits().body, dialect);
    streams = showing.ok() && showing->stream && !request.framing.head;
    const std::string id = base::PercentDecoded(request.match.arguments.front());
    if (showing.ok() && !streams && dialect.Has(id)) {
      pending = context->stored->Pending(request.caller.tenant, id);
    }
    if (pending != nullptr) context->TellIgnored(query.Unread(), exchange.get());
  }
  http::Sent sent;
  if (pending != nullptr) {
    http::HttpReply reply;
    reply.body = *pending;
    sent = co_await exchange->Send(std::move(reply));
  } else if (streams) {
    sent = co_await StreamAnswer(exchange, context, dialect);
  } else {
    StoredWork work = [dialect](StoredCall* call) { return ShowAnswer(call, dialect); };
    sent = co_await AnswerStored(exchange, context, OfDialect(dialect, std::move(work)));
  }
  co_return sent;
}

// Answers once the end is in the log, with what is stored then.
asio::awaitable<http::Sent> AnswerCancel(std::shared_ptr<http::Exchange> exchange,
                                         ServerContext* context, Dialect dialect) {
  StoredWork cancel = [](StoredCall* call) -> StatusOr<std::string> {
    const Status status =
        call->answers().Cancel(call->tenant, call->arguments.front(), call->write.Done());
    if (!status.ok()) return status;
    call->write.set_taken();
    return std::string();
  };
  const StatusOr<std::string> done =
      co_await RunStored(exchange, context, OfDialect(dialect, std::move(cancel)));
  http::Sent sent;
  if (done.ok()) {
    StoredWork show = [](StoredCall* call) {
      return call->answers().Show(call->tenant, call->arguments.front());
    };
    sent = co_await AnswerStored(exchange, context, OfDialect(dialect, std::move(show)));
  } else {
    http::HttpReply reply = context->Rejection(done.status(), exchange->request.caller.tenant);
    sent = co_await exchange->Send(std::move(reply));
  }
  co_return sent;
}

}  // namespace

std::string DeletedJson(const std::string& id, std::string_view object) {
  return api::DumpJson({{"id", id}, {"object", object}, {"deleted", true}});
}

Status ReadInclude(StoredCall* call, api::ApiFormatMaker responses) {
  return CheckInclude(call->query.List("include"), call->context->limits().body, responses);
}

StatusOr<PageOptions> ReadPage(StoredCall* call, api::ApiFormatMaker responses) {
  StatusOr<PageOptions> page = ReadPageOptions(&call->query);
  if (!page.ok()) return page;
  Status included = ReadInclude(call, responses);
  return included.ok() ? std::move(page) : StatusOr<PageOptions>(std::move(included));
}

http::Route::Handler ShowsAnswer(ServerContext* context, api::ApiFormatMaker dialect) {
  return [context, known = Dialect(dialect)](std::shared_ptr<http::Exchange> exchange) {
    return AnswerShow(std::move(exchange), context, known);
  };
}

http::Route::Handler DeletesAnswer(ServerContext* context, api::ApiFormatMaker dialect,
                                   std::string_view object) {
  return Stored(
      context, OfDialect(Dialect(dialect), [object](StoredCall* call) -> StatusOr<std::string> {
        const std::string& id = call->arguments.front();
        const Status status = call->answers().Delete(call->tenant, id, call->write.Done());
        if (!status.ok()) return status;
        call->write.set_taken();
        return DeletedJson(id, object);
      }));
}

http::Route::Handler CancelsAnswer(ServerContext* context, api::ApiFormatMaker dialect) {
  return [context, known = Dialect(dialect)](std::shared_ptr<http::Exchange> exchange) {
    return AnswerCancel(std::move(exchange), context, known);
  };
}

http::Route::Handler ListsInputItems(ServerContext* context, api::ApiFormatMaker dialect) {
  const auto list = [dialect](StoredCall* call) -> StatusOr<std::string> {
    const StatusOr<PageOptions> page = ReadPage(call, dialect);
    if (!page.ok()) return page.status();
    const StatusOr<Items> items = call->answers().InputItems(call->tenant, call->arguments.front());
    if (!items.ok()) return items.status();
    return PageJson(*items, *page);
  };
  return Stored(context, OfDialect(Dialect(dialect), list));
}

StatusOr<std::string> ListStored(StoredCall* call) {
  constexpr int64_t kMostListed = 10'000;
  std::optional<int64_t> limit;
  Status status = call->query.ReadInteger("limit", 1, kMostListed, &limit);
  if (!status.ok()) return status;
  const std::optional<std::string> tenant = call->query.Text("tenant");
  const std::vector<store::ObjectInfo> all = call->store().List(tenant ? &*tenant : nullptr);
  Json data = Json::array();
  uint64_t bytes = 0;
  for (const store::ObjectInfo& info : all) bytes += info.bytes;
  const size_t count = std::min(all.size(), static_cast<size_t>(limit.value_or(100)));
  for (size_t i = 0; i < count; ++i) {
    const store::ObjectInfo& info = all[all.size() - 1 - i];
    const bool response = info.name.kind == store::ObjectKind::kResponse;
    data.push_back({{"id", info.name.id},
                    {"kind", response ? "response" : "conversation"},
                    {"tenant", info.name.tenant},
                    {"created_at", info.created_ms / 1000},
                    {"expires_at", info.expires_ms / 1000},
                    {"bytes", info.bytes},
                    {"open", info.open},
                    {"lost", info.lost}});
  }
  return api::DumpJson({{"object", "list"},
                        {"data", std::move(data)},
                        {"has_more", count < all.size()},
                        {"objects", all.size()},
                        {"bytes", bytes}});
}

}  // namespace ropeway::server
