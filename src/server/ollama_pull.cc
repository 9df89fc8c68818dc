// POST /api/pull.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/json.h"
#include "api/ollama_answer.h"
#include "api/ollama_request.h"
#include "http/exchange.h"
#include "server/model_pulls.h"
#include "server/ollama_handlers.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;
using PullJson = nlohmann::ordered_json;

// Between two lines about the same file.
constexpr std::chrono::milliseconds kBetweenLines{100};

std::string ProgressLine(const PullProgress& progress) {
  PullJson line = {{"status", progress.status}};
  if (!progress.digest.empty()) {
    line["digest"] = progress.digest;
    line["total"] = progress.total;
    line["completed"] = progress.completed;
  }
  return api::DumpJson(line) + "\n";
}

std::string ServedText(const std::string& name) {
  return fmt::format("'{}' is served once the server is started with it: ropeway serve --model {}",
                     name, name);
}

// The name of the registry that a body asks for.
StatusOr<std::string> NameToPull(const api::OllamaModelBody& body) {
  std::string name = body.model;
  const std::string other = api::OtherOllamaName(name);  // Empty of one with another tag.
  if (!other.empty() && other.size() < name.size()) name = other;
  if (name.empty()) return InvalidArgument("'model' is required.", "model");
  return name;
}

// `began`: part of an answer may be sent.
asio::awaitable<http::Sent> SendPull(ServerContext* context,
                                     std::shared_ptr<http::Exchange> exchange, bool* began) {
  const std::shared_ptr<http::SocketStream> stream = exchange->stream;
  http::HttpRequest& request = exchange->request;
  http::Framing& framing = request.framing;
  const std::string tenant = request.caller.tenant;
  if (!context->pulls.allowed()) {
    http::HttpReply reply = http::ErrorReply(
        {403, "Requests may not pull models here: ropeway serve lets them with --allow-pull.",
         "invalid_request_error", "", "forbidden"});
    const http::Sent sent = co_await exchange->Send(std::move(reply));
    co_return sent;
  }
  if (request.body.size() > context->limits().max_inline_body_bytes) {
    const http::Sent sent = co_await exchange->Send(TooLargeToNameAModel());
    co_return sent;
  }
  const StatusOr<api::OllamaModelBody> body =
      api::ReadOllamaModelBody(request.body, context->limits().body);
  StatusOr<std::string> name = body.status();
  if (body.ok()) {
    context->TellIgnored(body->ignored, exchange.get());
    name = NameToPull(*body);
  }
  Status failure = name.status();
  std::unique_ptr<ModelPull::Watcher> watcher;
  if (failure.ok()) {
    const auto wake = [weak = std::weak_ptr(stream)] {
      if (const auto alive = weak.lock()) alive->PostSignal();
    };
    StatusOr<std::unique_ptr<ModelPull::Watcher>> joined = context->pulls.Join(*name, wake);
    failure = joined.status();
    if (failure.ok()) watcher = *std::move(joined);
  }
  if (!failure.ok()) {
    const http::Sent sent = co_await exchange->Send(context->Rejection(failure, tenant));
    co_return sent;
  }
  const bool streams = body->stream;
  if (framing.http_1_0) framing.keep_alive = false;
  std::string bytes;
  while (true) {
    ModelPull::News news = watcher->Take();
    if (news.ended && (!streams || !*began) && !news.status.ok()) {
      const http::Sent sent = co_await exchange->Send(context->Rejection(news.status, tenant));
      co_return sent;
    }
    if (news.ended && !streams) {
      http::HttpReply reply;
      reply.body = api::DumpJson(PullJson{{"status", "success"}});
      const http::Sent sent = co_await exchange->Send(std::move(reply));
      co_return sent;
    }
    const bool writes = streams && (!news.steps.empty() || news.ended);
    if (writes && !*began) bytes = exchange->StreamHead("application/x-ndjson", {});
    if (writes) {
      for (const PullProgress& step : news.steps) {
        http::AppendChunk(ProgressLine(step), framing, &bytes);
      }
      if (news.ended && news.status.ok()) {
        http::AppendChunk(ProgressLine({ServedText(news.served_as)}), framing, &bytes);
        http::AppendChunk(ProgressLine({"success"}), framing, &bytes);
      } else if (news.ended) {
        const api::ApiError error = api::ToApiError(news.status);
        exchange->Note(error);
        http::AppendChunk(api::OllamaErrorJson(error) + "\n", framing, &bytes);
      }
      if (news.ended) http::AppendLastChunk(framing, &bytes);
      std::string next = std::exchange(bytes, {});
      *began = true;
      const bool written = co_await stream->Write(std::move(next));
      if (!written) stream->Close();
    }
    if (stream->gone()) co_return http::Sent{};
    if (news.ended) co_return http::Sent{.status = 200, .keep_alive = framing.keep_alive};
    if (news.steps.empty()) {
      co_await stream->Wait(http::SocketStream::Deadline::max());
      continue;
    }
    // News come for each piece of a file.
    const auto pause = std::chrono::steady_clock::now() + kBetweenLines;
    while (!stream->gone() && std::chrono::steady_clock::now() < pause) {
      co_await stream->Wait(pause);
    }
  }
}

asio::awaitable<http::Sent> PullModel(ServerContext* context,
                                      std::shared_ptr<http::Exchange> exchange) {
  exchange->stream->set_answering(true);
  http::Sent sent;
  Status failure;
  bool began = false;
  try {
    sent = co_await SendPull(context, exchange, &began);
  } catch (...) {
    failure = http::StatusFromException();
  }
  if (!failure.ok() && began) {
    exchange->stream->Close();
  } else if (!failure.ok()) {
    const std::string tenant = exchange->request.caller.tenant;
    sent = co_await exchange->Send(context->Rejection(failure, tenant));
  }
  exchange->stream->set_answering(false);
  co_return sent;
}

}  // namespace

http::Route::Handler PullsModel(ServerContext* context) {
  return [context](std::shared_ptr<http::Exchange> exchange) {
    return PullModel(context, std::move(exchange));
  };
}

}  // namespace ropeway::server
