#include "server/queue_handler.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

const char* StateName(RequestInfo::State state) {
  switch (state) {
    case RequestInfo::State::kEncoding:
      return "encoding";
    case RequestInfo::State::kWaiting:
      return "waiting";
    case RequestInfo::State::kRunning:
      return "running";
    case RequestInfo::State::kPreempted:
      return "preempted";
  }
  return "";
}

Json RequestJson(const RequestInfo& request, bool with_tenant) {
  Json json = {{"id", request.id}};
  if (with_tenant) json["tenant"] = request.tenant;
  json["priority"] = PriorityName(request.priority);
  json["state"] = StateName(request.state);
  json["position"] = request.queue_position >= 0 ? Json(request.queue_position) : Json(nullptr);
  json["age_seconds"] = request.age_seconds;
  return json;
}

}  // namespace

HttpReply AnswerQueue(const Caller& caller, const Backend& backend) {
  const QueueInfo queue = backend.Queue();
  Json classes;
  for (int i = 0; i < kNumPriorities; ++i) {
    const QueueInfo::Class& one = queue.classes[static_cast<size_t>(i)];
    classes[PriorityName(static_cast<Priority>(i))] = {
        {"waiting", one.waiting}, {"running", one.running}, {"wait_seconds", one.wait_seconds}};
  }
  Json requests = Json::array();
  for (const RequestInfo& request : backend.Requests()) {
    if (!caller.admin && request.tenant != caller.tenant) continue;
    requests.push_back(RequestJson(request, caller.admin));
  }
  const Json body = {
      {"object", "queue"},
      {"blocked_by", queue.blocked_by.empty() ? Json(nullptr) : Json(queue.blocked_by)},
      {"classes", std::move(classes)},
      {"requests", std::move(requests)}};
  HttpReply reply;
  reply.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return reply;
}

}  // namespace ropeway
