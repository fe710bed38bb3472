#pragma once

#include "client/connection.h"

namespace lockstep::client {

class Client::Impl : public Connection {
  using Connection::Connection;
};

}  // namespace lockstep::client
