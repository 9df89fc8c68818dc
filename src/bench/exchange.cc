#include "bench/exchange.h"

#include <exception>
#include <utility>

#include "bench/reply_reader.h"

namespace ropeway {

boost::asio::awaitable<void> Exchange(HttpCall* call, Asking asking,
                                      const std::function<double()>& now, RequestRecord* record) {
  ReplyReader reader(record, asking.keep_text);
  const HttpCall::OnHead on_head = [&](int status, std::string_view content_type) {
    reader.OnHead(status, content_type);
  };
  const HttpCall::OnBody on_body = [&](std::string_view bytes) {
    return reader.OnBody(bytes, now());
  };
  HttpEnd end{http_error::kNetwork, "the load generator is out of memory"};
  try {
    const std::string body = (*asking.body_of)();
    end = co_await call->Run(*asking.path, body, asking.timeout, on_head, on_body);
  } catch (const std::exception& e) {  // This request fails alone.
    end.why = e.what();
  }
  if (end.kind == nullptr) {
    reader.OnEnd(now());
  } else {
    reader.OnBroken(end.kind, std::move(end.why), now());
  }
}

}  // namespace ropeway
