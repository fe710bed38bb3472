#include "wire/protocol/sasl_messages.h"

namespace lockstep::wire::protocol {

void SaslHandshake::Encode(Writer& w) const { w.String(mechanism); }

SaslHandshake::Response SaslHandshake::Decode(Reader& r) {
  Response response;
  response.error = r.Error();
  response.mechanisms = r.Array([&] { return r.String(); });
  return response;
}

void SaslAuthenticate::Encode(Writer& w) const {
  w.Bytes(bytes);
  w.NoTags();
}

SaslAuthenticate::Response SaslAuthenticate::Decode(Reader& r) {
  Response response;
  response.error = r.Error();
  response.error_message = r.NullableString().value_or("");
  response.bytes = std::string(r.Bytes());
  response.session_lifetime_ms = r.Int64();
  r.SkipTags();
  return response;
}

}  // namespace lockstep::wire::protocol
