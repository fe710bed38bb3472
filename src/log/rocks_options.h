#pragma once

#include <rocksdb/env.h>
#include <rocksdb/options.h>

/// RocksDB as the decision log runs it.
namespace lockstep::log {

/// Small (write buffers and block cache together stay below 24 MiB), two background threads, and
/// strict: what RocksDB can verify is verified, and it does not try to come back from a failed
/// write. Read only, it writes nothing into the folder: there is no LOG of RocksDB's own.
rocksdb::Options RocksOptions(rocksdb::Env* env);

}  // namespace lockstep::log
