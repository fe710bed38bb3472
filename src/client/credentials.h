#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <optional>
#include <string>

#include "lockstep/client.h"

namespace lockstep::client {

/// Why these files cannot be used, naming one; none: they can, as far as is known before a server
/// is asked. Blocking.
std::optional<Error> CheckSecurity(const Security& security);

/// A channel to `server`: TLS, or plain text. Certificates and token are read again when their
/// files change. A token is sent in plain text only to a server on this machine.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& server, const Security& security,
                                         grpc::ChannelArguments arguments = {});

}  // namespace lockstep::client
