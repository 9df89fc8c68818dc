// Builds a running gateway from its options: for the public class Gateway and `ropeway gateway`.
#ifndef ROPEWAY_GATEWAY_GATEWAY_H_
#define ROPEWAY_GATEWAY_GATEWAY_H_

#include <memory>

#include "base/clock.h"
#include "base/random.h"
#include "gateway/gateway_backend.h"
#include "ropeway/gateway.h"
#include "ropeway/status.h"
#include "service/front_desk.h"
#include "store/session_store.h"

namespace ropeway::gateway {

// Opens the backends that are URLs, and starts the gateway. It waits a moment for their first
// answers, so that a gateway whose backends are well is ready at once; they need not be up. `clock`
// and `random` must outlive it, and so must `tokens`, which serves /tokenize: the engine of the
// first model, if that is in this process; null: none. `sessions`: the store that the options name,
// opened; null: opens it. On failure, one sentence names the option at fault.
StatusOr<std::unique_ptr<GatewayBackend>> OpenGateway(
    const GatewayOptions& options, const base::Clock* clock, base::Random* random,
    const service::FrontDesk* tokens = nullptr,
    std::unique_ptr<store::SessionStore> sessions = nullptr);

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_GATEWAY_H_
