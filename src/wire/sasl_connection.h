#pragma once

#include <functional>
#include <memory>
#include <string>

#include "wire/connection.h"

namespace lockstep::wire {

/// A connection that logs in before it is `opened`, and again before the broker's session ends
/// (KIP-368): frames that are sent meanwhile wait, those that were sent before are answered. The
/// secret is read anew for each log-in.
///
/// `open` opens the connection below, with the events that it is given. `broker`: for messages.
std::unique_ptr<Connection> OpenSaslConnection(
    Io& io, std::string broker, const SaslConfig& config, std::string client_id,
    const std::function<std::unique_ptr<Connection>(Connection::Events)>& open,
    Connection::Events events);

}  // namespace lockstep::wire
