// The events of GET /admin/events as text: what docs/events.md describes.
#ifndef ROPEWAY_SERVER_EVENT_FRAME_H_
#define ROPEWAY_SERVER_EVENT_FRAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ropeway/stats.h"
#include "service/activity.h"
#include "service/front_desk.h"

namespace ropeway::server {

// What a frame shows at most; what is beyond is counted in it.
inline constexpr size_t kMaxFrameSteps = 64;
inline constexpr size_t kMaxFrameRequests = 512;
inline constexpr size_t kMaxFrameTenants = 32;

// All that a frame is made of.
struct FrameParts {
  double at = 0;  // Unix seconds.
  service::Activity activity;
  std::vector<service::RequestInfo> requests;
  service::QueueInfo queue;
  EngineStats stats;
  std::vector<BackendStatus> backends;
};

// The first event: what does not change. `process` tells one process of the server from another.
std::string HelloEvent(const service::FrontDesk& desk, const std::string& process);
// One event. It holds no text of a prompt, an answer or an error.
std::string FrameEvent(const FrameParts& parts);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_EVENT_FRAME_H_
