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
std::string ChatText(const Chat& chat) {
  constexpr size_t kMost = kPrefixBlockBytes * kMaxPrefixBlocks;
  std::string text = chat.template_arguments;
  // Templates show the tools before the messages.
  for (const Tool& tool : chat.tools) {
    if (text.size() >= kMost) break;
    text += tool.name;
    text += '\x1F';
    text.append(tool.description, 0, kMost);
    text.append(tool.parameters, 0, kMost);
    text += '\x1E';
  }
  for (const ChatMessage& message : chat.messages) {
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
  const std::string chat = ChatText(std::get<Chat>(request.prompt));
  return PrefixBlocks(scope, std::string_view(chat));
}

DispatchRequest DispatchOf(const ClientRequest& client) {
  const Request& request = client.request;
  DispatchRequest dispatch;
  dispatch.id = client.id;
  dispatch.prompt_tokens = client.prompt_estimate;
  // A backend lowers max_tokens to its context, which is not known here. So a huge max_tokens is
  // estimated as if absent: no request is rejected for tokens that are never generated.
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
    return InvalidArgument(fmt::format("the backend {} does not support the parameter {}, and with "
                                       "--strict this gateway does not leave it out",
                                       replica.name(), unknown.front()),
                           unknown.front());
  }
  return {};
}

StatusOr<GatewayBackend::Arrival> GatewayBackend::MakeArrival(SinkRequest asked,
                                                              uint64_t drawn_seed) {
  if (Status status = core::CheckRequest(asked.request); !status.ok()) return status;
  const std::optional<size_t> model = names_.Find(asked.request.model);
  if (!model) return service::NoSuchModel(asked.request.model, Models());
  Arrival arrival;
  arrival.client = std::make_shared<ClientRequest>(std::move(asked));
  ClientRequest& client = *arrival.client;
  Request& request = client.request;
  if (config_.strict) {
    if (Status status = CheckKnown(models_[*model], request); !status.ok()) return status;
  }
  if (!request.session_id.empty() && std::holds_alternative<std::vector<TokenId>>(request.prompt)) {
    return InvalidArgument(
        "a session of a gateway takes messages or text as a prompt, not token ids", "prompt");
  }
  if (Status status = intake_.Open(&client); !status.ok()) return status;
  if (Status status = intake_.TakeBytes(&client); !status.ok()) return status;
  client.model = *model;
  request.model = names_.ForBackends(*model, request.model);
  if (!request.sampling.seed) {
    request.sampling.seed = drawn_seed;
    request.sampling.given |= SamplingParams::kSeed;
  }
  client.seed = *request.sampling.seed;
  client.prompt_estimate = EstimatedPromptTokens(request);
  if (client.turn == nullptr) {
    arrival.dispatch = DispatchOf(client);
  } else {
    // A backend keeps nothing; but the next turn finds its cache. Its history is not read yet.
    request.session_id.clear();
    request.cache_retention = CacheRetention::kLong;
  }
  return arrival;
}

void GatewayBackend::Unlist(ClientRequest* client) {
  client->End();
  requests_.Erase(client->id);
}

Status GatewayBackend::EnqueueAll(std::vector<Arrival>* arrivals) {
  const base::TimePoint now = config_.clock->Now();
  std::vector<DispatchRequest> all;
  all.reserve(arrivals->size());
  size_t listed = 0;
  const auto unlist = [&] {
    for (size_t i = 0; i < listed; ++i) Unlist((*arrivals)[i].client.get());
  };
  Dispatcher& dispatcher = *models_[arrivals->front().client->model].dispatcher;
  Status status;
  try {
    for (Arrival& arrival : *arrivals) {
      ClientRequest& client = *arrival.client;
      status = requests_.Add(arrival.client);
      if (!status.ok()) break;
      ++listed;
      client.first_of_group = arrivals->front().client->id;
      client.group_size = arrivals->size();
      look_times_.Add(now + config_.admit_after, client.id);
      arrival.dispatch.id = client.id;
      all.push_back(std::move(arrival.dispatch));
    }
    if (status.ok()) status = dispatcher.AddAll(std::move(all), now);
  } catch (...) {
    unlist();
    throw;
  }
  if (!status.ok()) {
    unlist();
    return status;
  }
  const int32_t position = std::max(0, dispatcher.PositionOf(arrivals->front().client->id));
  for (Arrival& arrival : *arrivals) {
    arrival.client->queue_position = position;
    arrival.client->Move(service::RequestState::kEncoding, service::RequestState::kWaiting);
  }
  return {};
}

Status GatewayBackend::EnqueueReading(const std::shared_ptr<ClientRequest>& client) {
  if (Status status = requests_.Add(client); !status.ok()) return status;
  client->first_of_group = client->id;
  const auto read = [this, client] {
    if (client->state() == service::RequestState::kEnded) return true;
    inbox_->Send(HistoryRead{client, ReadHistory(*client->turn)});
    return true;
  };
  try {
    look_times_.Add(std::min(client->deadline, client->arrival + kLookAgain), client->id);
    if (helpers_.TryAdd(client->flow(), read)) return {};
  } catch (...) {
    Unlist(client.get());
    throw;
  }
  Unlist(client.get());
  return {StatusCode::kResourceExhausted, "too many sessions of this tenant wait to be read"};
}

StatusOr<std::optional<store::SessionState>> GatewayBackend::ReadHistory(
    const service::Turn& turn) noexcept {
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
    if (status.ok()) status = intake_.TakeBytes(client);
    if (!status.ok()) return status;
  }
  std::vector<DispatchRequest> one;
  one.push_back(DispatchOf(*client));
  const std::lock_guard lock(mu_);
  const base::TimePoint now = config_.clock->Now();
  client->admit_at = now + config_.admit_after;
  look_times_.Add(client->admit_at, client->id);
  Dispatcher& dispatcher = *models_[client->model].dispatcher;
  if (Status status = dispatcher.AddAll(std::move(one), now); !status.ok()) return status;
  client->Move(service::RequestState::kEncoding, service::RequestState::kWaiting);
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
      if (requests.size() > 1 && arrival->client->turn != nullptr) {
        return InvalidArgument("a session's turn must be submitted alone, with one choice",
                               "session_id");
      }
      if (!arrivals.empty() && arrivals[0].client->model != arrival->client->model) {
        return InvalidArgument("requests that are submitted together must be for the same model",
                               "model");
      }
      arrivals.push_back(*std::move(arrival));
    }
    std::vector<RequestId> ids(arrivals.size());
    {
      const std::lock_guard lock(mu_);
      const std::shared_ptr<ClientRequest>& first = arrivals.front().client;
      Status status = first->turn != nullptr ? EnqueueReading(first) : EnqueueAll(&arrivals);
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
