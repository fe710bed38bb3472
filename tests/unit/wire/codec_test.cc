#include "wire/protocol/codec.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lockstep::wire::protocol {
namespace {

TEST(Codec, NumbersAreBigEndian) {
  Writer w(0, false);
  w.Int16(-2);
  w.Int32(0x01020304);
  w.Int64(std::numeric_limits<std::int64_t>::min());
  const std::string bytes = w.Take();
  EXPECT_EQ(bytes, std::string("\xFF\xFE\x01\x02\x03\x04\x80\0\0\0\0\0\0\0", 14));
  Reader r(bytes, 0, false);
  EXPECT_EQ(r.Int16(), -2);
  EXPECT_EQ(r.Int32(), 0x01020304);
  EXPECT_EQ(r.Int64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(r.Finish("numbers").ok());
}

TEST(Codec, VarintsComeBackAtTheirEdges) {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{63}, std::int64_t{64}, std::int64_t{-65},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    Writer w(0, true);
    w.Varint(value);
    const std::string bytes = w.Take();
    Reader r(bytes, 0, true);
    EXPECT_EQ(r.Varint(), value);
    EXPECT_TRUE(r.Finish("varint").ok());
  }
}

TEST(Codec, AVarintOfTooManyBytesFails) {
  const std::string endless(11, '\x80');
  Reader unsigned_reader(endless, 0, true);
  unsigned_reader.UnsignedVarint();
  EXPECT_FALSE(unsigned_reader.ok());
  Reader signed_reader(endless, 0, true);
  signed_reader.Varint();
  EXPECT_FALSE(signed_reader.ok());
}

TEST(Codec, NullAndEmptyStringsDiffer) {
  for (const bool flexible : {false, true}) {
    Writer w(0, flexible);
    w.NullableString(std::nullopt);
    w.NullableString("");
    const std::string bytes = w.Take();
    Reader r(bytes, 0, flexible);
    EXPECT_EQ(r.NullableString(), std::nullopt);
    EXPECT_EQ(r.NullableString(), "");
    EXPECT_TRUE(r.Finish("strings").ok());
  }
}

TEST(Codec, ANullStringWhereOneMustBeFails) {
  const std::string null("\0", 1);
  Reader r(null, 0, true);
  EXPECT_EQ(r.String(), "");
  EXPECT_FALSE(r.ok());
}

TEST(Codec, ACountBeyondTheBytesIsRefusedBeforeAnyItem) {
  for (const bool flexible : {false, true}) {
    Writer w(0, flexible);
    w.ArrayCount(2'000'000'000);
    w.Int32(1);
    const std::string bytes = w.Take();
    Reader r(bytes, 0, flexible);
    int items = 0;
    r.SkipArray([&] { ++items; });
    EXPECT_EQ(items, 0);
    const Status status = r.Finish("array");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    EXPECT_EQ(status.error().effect, Effect::kUnknown);
  }
}

TEST(Codec, ANegativeSizeFails) {
  const std::string minus_two("\xFF\xFE", 2);
  Reader r(minus_two, 0, false);
  r.NullableString();
  EXPECT_FALSE(r.ok());
}

TEST(Codec, AfterAFailureEverythingIsEmpty) {
  const std::string bytes("\x01", 1);
  Reader r(bytes, 0, false);
  EXPECT_EQ(r.Int32(), 0);
  EXPECT_EQ(r.Int8(), 0);
  EXPECT_EQ(r.Bytes(), "");
  EXPECT_FALSE(r.Finish("bytes").ok());
}

TEST(Codec, UnknownTagsAreSkippedAndBrokenOnesFail) {
  Writer w(0, true);
  w.UnsignedVarint(2);
  w.UnsignedVarint(7);  // tag
  w.UnsignedVarint(3);  // size
  w.Raw("abc");
  w.UnsignedVarint(9);
  w.UnsignedVarint(0);
  const std::string bytes = w.Take();
  Reader r(bytes, 0, true);
  r.SkipTags();
  EXPECT_TRUE(r.Finish("tags").ok());
  Reader reads_too_much(bytes, 0, true);
  reads_too_much.Tags([](std::uint32_t, Reader& field) { field.Int64(); });
  EXPECT_FALSE(reads_too_much.ok());
}

}  // namespace
}  // namespace lockstep::wire::protocol
