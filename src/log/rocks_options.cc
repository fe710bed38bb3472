#include "log/rocks_options.h"

#include <cstdarg>
#include <cstddef>
#include <memory>

#include <rocksdb/cache.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

namespace lockstep::log {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// RocksDB's own log file would be one more writer on a full disk, and after a failed write the
/// next one ends the process (by an assertion, with which Debian builds it). What matters is in
/// statuses.
class NoInfoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

rocksdb::BlockBasedTableOptions TableOptions() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(4 * kMiB, /*num_shard_bits=*/0);
  // At 4 GiB the index blocks alone would outgrow our memory: they live in the cache instead.
  table.cache_index_and_filter_blocks = true;
  table.block_size = 16 * 1024;
  return table;
}

}  // namespace

rocksdb::Options RocksOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;

  // The default mode silently drops everything from the first damaged record on. This one accepts
  // an incomplete record at the end, which no one was told about, and refuses to open otherwise.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.paranoid_checks = true;
  options.paranoid_file_checks = true;
  options.max_bgerror_resume_count = 0;

  options.write_buffer_size = 8 * kMiB;
  options.max_write_buffer_number = 2;
  options.target_file_size_base = 32 * kMiB;
  options.max_bytes_for_level_base = 128 * kMiB;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(TableOptions()));
  // What was forgotten leaves the disk soon: files with many deletions are compacted first.
  options.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(/*sliding_window_size=*/4096,
                                                    /*deletion_trigger=*/2048,
                                                    /*deletion_ratio=*/0.5));
  options.manifest_preallocation_size = 64 * 1024;
  options.max_file_opening_threads = 1;
  options.skip_stats_update_on_db_open = true;

  options.info_log = std::make_shared<NoInfoLog>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

}  // namespace lockstep::log
