// The part of GatewayBackend that takes requests: models, checks, what the dispatcher is told.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <variant>

#include "base/failure.h"
#include "core/request_check.h"
#include "gateway/gateway_backend.h"
#include "gateway/prefix_ring.h"
#include "service/intake.h"

namespace ropeway::gateway {
namespace {

// What a request without max_tokens generates at most, for predictions.
constexpr int32_t kOpenOutput = 4096;
// More of them than most contexts hold.
constexpr int32_t kMostOutput = 16384;
// Seeds that all kinds of backends take as they are.
constexpr uint64_t kSeedMask = 0x7FFFFFFF;

// The beginning of a chat as one text: equal beginnings of chats give equal beginnings of texts.
std::string ChatText(const std::vector<ChatMessage>& messages) {
  constexpr size_t kMost = kPrefixBlockBytes * kMaxPrefixBlocks;
  std::string text;
  for (const ChatMessage& message : messages) {
    if (text.size() >= kMost) break;
    text += message.role;
    text += '\x1F';
    text.append(message.content, 0, kMost);
    text += '\x1E';
  }
  return text;
}

// What the prompt's cache depends on, and its pieces.
std::vector<uint64_t> RoutingBlocks(const Request& request) {
  std::string scope = request.model;
  scope += '\0';
  scope += request.cache_scope.empty() ? request.tenant : request.cache_scope;
  scope += '\0';
  scope += request.cache_salt;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    return PrefixBlocks(scope, std::span<const int32_t>(*ids));
  }
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    return PrefixBlocks(scope, std::string_view(*text));
  }
  const std::string chat = ChatText(std::get<std::vector<ChatMessage>>(request.prompt));
  return PrefixBlocks(scope, std::string_view(chat));
}

DispatchRequest DispatchOf(const ClientRequest& client) {
  const Request& request = client.request;
  DispatchRequest dispatch;
  dispatch.prompt_tokens = client.prompt_estimate;
  // A backend lowers max_tokens to its context, which is not known here: a huge one is estimated as
  // none at all, so that nobody is rejected for tokens that are never generated.
  const bool open = !request.max_tokens || *request.max_tokens > kMostOutput;
  dispatch.max_tokens = open ? kOpenOutput : *request.max_tokens;
  dispatch.ignore_eos = request.ignore_eos && !open;
  dispatch.arrival = client.arrival;
  dispatch.deadline = client.deadline;
  dispatch.tenant = request.tenant;
  dispatch.tenant_weight = request.tenant_weight;
  dispatch.priority = request.priority;
  dispatch.blocks = RoutingBlocks(request);
  return dispatch;
}

}  // namespace

Status GatewayBackend::CheckKnown(const Model& model, const Request& request) const {
  for (const ReplicaBook& replica : model.replicas) {
    const std::vector<std::string> unknown = replica.backend()->Unknown(request);
    if (unknown.empty()) continue;
    return InvalidArgument(fmt::format("the backend {} does not know the parameter {}, and this "
                                       "gateway leaves none out (--strict)",
                                       replica.name(), unknown.front()),
                           unknown.front());
  }
  return {};
}

StatusOr<GatewayBackend::Arrival> GatewayBackend::MakeArrival(SinkRequest request,
                                                              uint64_t drawn_seed) {
  Request& asked = request.request;
  if (Status status = core::CheckRequest(asked); !status.ok()) return status;
  const std::optional<size_t> model = names_.Find(asked.model);
  if (!model) return service::NoSuchModel(asked.model, Models());
  if (config_.strict) {
    if (Status status = CheckKnown(models_[*model], asked); !status.ok()) return status;
  }
  asked.model = names_.ForBackends(*model, asked.model);
  std::shared_ptr<ClientTurn> turn;
  if (!asked.session_id.empty()) {
    if (Status status = BeginTurn(&asked, &turn); !status.ok()) return status;
  }
  if (!asked.sampling.seed) {
    asked.sampling.seed = drawn_seed;
    asked.sampling.given |= SamplingParams::kSeed;
  }
  Arrival arrival;
  arrival.client =
      std::make_shared<ClientRequest>(std::move(request.request), std::move(request.sink));
  ClientRequest& client = *arrival.client;
  client.turn = std::move(turn);
  client.model = *model;
  client.seed = *client.request.sampling.seed;
  client.arrival = config_.clock->Now();
  client.deadline = service::DeadlineOf(client.request, client.arrival, config_.request_timeout);
  client.prompt_estimate = EstimatedPromptTokens(client.request);
  // Of a turn, its history is not read yet: see HistoryRead.
  if (client.turn == nullptr) arrival.dispatch = DispatchOf(client);
  return arrival;
}

Status GatewayBackend::CheckAccepting() const {
  if (accepting_) return {};
  return {StatusCode::kUnavailable, "the gateway is stopping and accepts no new requests"};
}

Status GatewayBackend::EnqueueAll(std::vector<Arrival>* arrivals, base::TimePoint now) {
  if (Status status = CheckAccepting(); !status.ok()) return status;
  std::vector<DispatchRequest> all;
  all.reserve(arrivals->size());
  const RequestId first = next_id_;
  const auto forget = [&] {
    for (RequestId id = first; id < next_id_; ++id) requests_.erase(id);
  };
  try {
    for (Arrival& arrival : *arrivals) {
      ClientRequest& client = *arrival.client;
      client.id = arrival.dispatch.id = next_id_++;
      client.first_of_group = first;
      client.group_size = arrivals->size();
      requests_.emplace(client.id, arrival.client);
      unadmitted_.Add(now + config_.admit_after, client.id);
      all.push_back(std::move(arrival.dispatch));
    }
    Dispatcher& dispatcher = *models_[arrivals->front().client->model].dispatcher;
    if (Status status = dispatcher.AddAll(std::move(all), now); !status.ok()) {
      forget();
      return status;
    }
    const int32_t position = std::max(0, dispatcher.PositionOf(first));
    for (Arrival& arrival : *arrivals) arrival.client->queue_position = position;
  } catch (...) {
    forget();
    throw;
  }
  return {};
}

Status GatewayBackend::EnqueueReading(const std::shared_ptr<ClientRequest>& client) {
  if (Status status = CheckAccepting(); !status.ok()) return status;
  const RequestId id = next_id_;
  client->id = id;
  const base::Flow flow{.tenant = client->request.tenant,
                        .cls = static_cast<int>(client->request.priority),
                        .weight = client->request.tenant_weight};
  const auto forget = [&] {
    reading_.erase(id);
    requests_.erase(id);
  };
  const auto read = [this, client, turn = client->turn] {
    inbox_->Send(HistoryRead{client, ReadHistory(*turn)});
    return true;
  };
  try {
    requests_.emplace(id, client);
    reading_.emplace(id, client);
    if (readers_.TryAdd(flow, read)) {
      ++next_id_;
      return {};
    }
  } catch (...) {
    forget();
    throw;
  }
  forget();
  return {StatusCode::kResourceExhausted, "too many sessions of this tenant wait to be read"};
}

Status GatewayBackend::BeginTurn(Request* request, std::shared_ptr<ClientTurn>* turn) {
  if (std::holds_alternative<std::vector<TokenId>>(request->prompt)) {
    return InvalidArgument(
        "a gateway's session is of messages or of text, and takes no token ids for a prompt",
        "prompt");
  }
  StatusOr<store::SessionTurn> begun = sessions_->Begin(request->tenant, request->session_id);
  if (!begun.ok()) return begun.status();
  *turn = std::make_shared<ClientTurn>();
  (*turn)->turn = *std::move(begun);
  // A backend keeps nothing; but the next turn finds its cache.
  request->session_id.clear();
  request->cache_retention = CacheRetention::kLong;
  return {};
}

StatusOr<std::optional<store::SessionState>> GatewayBackend::ReadHistory(
    const ClientTurn& turn) noexcept {
  try {
    if (sessions_->IsNew(turn.turn)) return std::optional<store::SessionState>();
    StatusOr<store::SessionState> loaded = sessions_->Load(turn.turn);
    if (!loaded.ok()) return loaded.status();
    return std::optional<store::SessionState>(*std::move(loaded));
  } catch (const std::bad_alloc&) {
    return base::OutOfMemory();
  } catch (const std::exception&) {
    return base::MakeStatus(StatusCode::kInternal, "reading the session failed");
  }
}

void GatewayBackend::Take(HistoryRead* read) {
  ClientRequest& client = *read->client;
  if (client.ended()) return;
  Status status = read->before.status();
  if (status.ok()) status = EnqueueRead(&client, *std::move(read->before));
  if (status.ok()) return;
  Withdraw(client);
  EndFailed(&client, status);
}

Status GatewayBackend::EnqueueRead(ClientRequest* client,
                                   std::optional<store::SessionState> before) {
  if (before) {
    Status status = client->GoOn(*std::move(before));
    if (status.ok()) status = service::TakeBytes(client->request, &request_bytes_, &client->bytes);
    if (!status.ok()) return status;
  }
  std::vector<DispatchRequest> one;
  one.push_back(DispatchOf(*client));
  one[0].id = client->id;
  const std::lock_guard lock(mu_);
  const base::TimePoint now = config_.clock->Now();
  unadmitted_.Add(now + config_.admit_after, client->id);
  Dispatcher& dispatcher = *models_[client->model].dispatcher;
  if (Status status = dispatcher.AddAll(std::move(one), now); !status.ok()) return status;
  reading_.erase(client->id);
  client->queue_position = std::max(0, dispatcher.PositionOf(client->id));
  return {};
}

StatusOr<std::vector<RequestId>> GatewayBackend::SubmitAll(std::vector<SinkRequest> requests) {
  try {
    if (requests.empty()) return std::vector<RequestId>();
    uint64_t seed = 0;
    {
      const std::lock_guard lock(mu_);
      seed = config_.random->Next64() & kSeedMask;
    }
    std::vector<Arrival> arrivals;
    arrivals.reserve(requests.size());
    for (SinkRequest& request : requests) {
      StatusOr<Arrival> arrival = MakeArrival(std::move(request), seed);
      if (!arrival.ok()) return arrival.status();
      ClientRequest& client = *arrival->client;
      Status reserved = service::TakeBytes(client.request, &request_bytes_, &client.bytes);
      if (!reserved.ok()) return reserved;
      if (requests.size() > 1 && arrival->client->turn != nullptr) {
        return InvalidArgument("a session's turn is submitted by itself, with one choice",
                               "session_id");
      }
      if (!arrivals.empty() && arrivals[0].client->model != arrival->client->model) {
        return InvalidArgument("requests that are submitted together must be for one model",
                               "model");
      }
      arrivals.push_back(*std::move(arrival));
    }
    std::vector<RequestId> ids(arrivals.size());
    {
      const std::lock_guard lock(mu_);
      const std::shared_ptr<ClientRequest>& first = arrivals.front().client;
      Status status = first->turn != nullptr ? EnqueueReading(first)
                                             : EnqueueAll(&arrivals, config_.clock->Now());
      if (!status.ok()) return status;
      for (size_t i = 0; i < arrivals.size(); ++i) ids[i] = arrivals[i].client->id;
    }
    inbox_->Wake();
    return ids;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory");
  }
}

}  // namespace ropeway::gateway
