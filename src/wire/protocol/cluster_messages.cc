#include "wire/protocol/cluster_messages.h"

#include <utility>

#include "wire/protocol/shapes.h"

namespace lockstep::wire::protocol {
namespace {

constexpr std::int8_t kBrokerResource = 4;

Metadata::Broker DecodeBroker(Reader& r) {
  Metadata::Broker broker;
  broker.node_id = r.Int32();
  broker.host = r.String();
  broker.port = r.Int32();
  return broker;
}

}  // namespace

// ---- ApiVersions ------------------------------------------------------------------------------

void ApiVersions::Encode(Writer& w) const {
  w.String("lockstep");
  w.String("1");
  w.NoTags();
}

ApiVersions::Response ApiVersions::Decode(Reader& r) {
  enum : std::uint32_t { kSupported = 0, kFinalized = 2 };
  Response response;
  response.error = r.Error();
  response.apis = r.Array([&] {
    Range range;
    range.key = r.Int16();
    range.min_version = r.Int16();
    range.max_version = r.Int16();
    r.SkipTags();
    return range;
  });
  r.Int32();  // throttle time
  r.Tags([&](std::uint32_t tag, Reader& field) {
    if (tag != kSupported && tag != kFinalized) return;
    auto features = field.Array([&] {
      Feature feature;
      feature.name = field.String();
      feature.min_version = field.Int16();
      feature.max_version = field.Int16();
      // The schemas disagree: finalized features have their maximum first.
      if (tag == kFinalized) std::swap(feature.min_version, feature.max_version);
      field.SkipTags();
      return feature;
    });
    (tag == kSupported ? response.supported : response.finalized) = std::move(features);
  });
  return response;
}

// ---- Metadata ---------------------------------------------------------------------------------

void Metadata::Encode(Writer& w) const {
  w.Array(topics, [&](const std::string& topic) {
    w.String(topic);
    w.NoTags();
  });
  w.Bool(false);       // allow auto topic creation
  w.Bool(operations);  // include cluster authorized operations
  w.Bool(operations);  // include topic authorized operations
  w.NoTags();
}

Metadata::Response Metadata::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  response.brokers = r.Array([&] {
    Broker broker = DecodeBroker(r);
    r.NullableString();  // rack
    r.SkipTags();
    return broker;
  });
  response.cluster_id = r.NullableString().value_or("");
  r.Int32();  // controller
  response.topics = r.Array([&] {
    Topic topic;
    topic.error = r.Error();
    topic.name = r.String();
    r.Bool();  // internal
    topic.partitions = r.Array([&] {
      Partition partition;
      partition.error = r.Error();
      partition.partition = r.Int32();
      partition.leader = r.Int32();
      r.Int32();  // leader epoch
      partition.replicas = r.Array([&] { return r.Int32(); }).size();
      for (int list = 0; list < 2; ++list) r.SkipArray([&] { r.Int32(); });  // in sync, offline
      r.SkipTags();
      return partition;
    });
    topic.operations = r.Int32();
    r.SkipTags();
    return topic;
  });
  response.operations = r.Int32();
  r.SkipTags();
  return response;
}

// ---- FindCoordinator --------------------------------------------------------------------------

void FindCoordinator::Encode(Writer& w) const {
  w.String(coordinator_key);
  w.Int8(type);
  w.NoTags();
}

FindCoordinator::Response FindCoordinator::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  response.error = r.Error();
  response.error_message = r.NullableString().value_or("");
  response.broker = DecodeBroker(r);
  r.SkipTags();
  return response;
}

// ---- DescribeGroups, ConsumerGroupDescribe ----------------------------------------------------

void DescribeGroups::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.String(group_id);
  w.Bool(operations);  // include authorized operations
  w.NoTags();
}

DescribeGroups::Response DescribeGroups::Decode(Reader& r) {
  r.Int32();  // throttle time
  auto response = DecodeOnly<Response>(r, [&] {
    Response one;
    one.error = r.Error();
    r.String();  // group id
    one.state = r.String();
    r.String();  // protocol type
    r.String();  // protocol
    one.members = r.Array([&] {
      GroupMember member;
      member.member_id = r.String();
      member.instance_id = r.NullableString();
      r.String();  // client id
      r.String();  // client host
      r.Bytes();   // metadata
      r.Bytes();   // assignment
      r.SkipTags();
      return member;
    });
    one.operations = r.Int32();
    return one;
  });
  r.SkipTags();
  return response;
}

void ConsumerGroupDescribe::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.String(group_id);
  w.Bool(false);  // include authorized operations
  w.NoTags();
}

ConsumerGroupDescribe::Response ConsumerGroupDescribe::Decode(Reader& r) {
  constexpr std::size_t kUuidSize = 16;
  const auto skip_assignment = [&] {
    r.SkipArray([&] {
      r.Raw(kUuidSize);
      r.String();  // topic
      r.SkipArray([&] { r.Int32(); });
      r.SkipTags();
    });
    r.SkipTags();
  };
  r.Int32();  // throttle time
  auto response = DecodeOnly<Response>(r, [&] {
    Response one;
    one.error = r.Error();
    one.error_message = r.NullableString().value_or("");
    r.String();  // group id
    one.state = r.String();
    one.group_epoch = r.Int32();
    r.Int32();   // assignment epoch
    r.String();  // assignor
    one.members = r.Array([&] {
      GroupMember member;
      member.member_id = r.String();
      member.instance_id = r.NullableString();
      r.NullableString();  // rack
      member.epoch = r.Int32();
      r.String();                        // client id
      r.String();                        // client host
      r.SkipArray([&] { r.String(); });  // subscribed topics
      r.NullableString();                // subscribed pattern
      skip_assignment();
      skip_assignment();  // target
      r.SkipTags();
      return member;
    });
    r.Int32();  // authorized operations
    return one;
  });
  r.SkipTags();
  return response;
}

// ---- DescribeConfigs --------------------------------------------------------------------------

void DescribeConfigs::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.Int8(kBrokerResource);
  w.String(std::to_string(node_id));
  w.Array(names, [&](const std::string& name) { w.String(name); });
  w.NoTags();
  w.Bool(false);  // include synonyms
  w.Bool(false);  // include documentation
  w.NoTags();
}

DescribeConfigs::Response DescribeConfigs::Decode(Reader& r) {
  r.Int32();  // throttle time
  auto response = DecodeOnly<Response>(r, [&] {
    Response one;
    one.error = r.Error();
    one.error_message = r.NullableString().value_or("");
    r.Int8();    // resource type
    r.String();  // resource name
    one.configs = r.Array([&] {
      Config config;
      config.name = r.String();
      config.value = r.NullableString();
      r.Bool();          // read only
      r.Int8();          // source
      r.Bool();          // sensitive
      r.SkipArray([&] {  // synonyms
        r.String();
        r.NullableString();
        r.Int8();
        r.SkipTags();
      });
      r.Int8();            // type
      r.NullableString();  // documentation
      r.SkipTags();
      return config;
    });
    return one;
  });
  r.SkipTags();
  return response;
}

// ---- DescribeQuorum ---------------------------------------------------------------------------

void DescribeQuorum::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.String("__cluster_metadata");
  w.ArrayCount(1);
  w.Int32(0);
  w.NoTags();
  w.NoTags();
  w.NoTags();
}

DescribeQuorum::Response DescribeQuorum::Decode(Reader& r) {
  Response response;
  response.error = r.Error();
  r.SkipArray([&] {
    r.String();  // topic
    r.SkipArray([&] {
      r.Int32();  // partition
      if (const ErrorCode error = r.Error(); error != ErrorCode::kNone) response.error = error;
      const std::int32_t leader = r.Int32();
      r.Int32();                              // leader epoch
      r.Int64();                              // high watermark
      for (int list = 0; list < 2; ++list) {  // voters, observers
        r.SkipArray([&] {
          const std::int32_t replica = r.Int32();
          r.Int64();  // log end offset
          const std::int64_t fetched = r.Int64();
          r.Int64();  // last caught up
          r.SkipTags();
          if (replica == leader) response.leader_time_ms = fetched;
        });
      }
      r.SkipTags();
    });
    r.SkipTags();
  });
  r.SkipTags();
  return response;
}

}  // namespace lockstep::wire::protocol
