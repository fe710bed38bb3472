# Everything comes from Debian 12, or from Debian 13. Order matters: gRPC's config file looks for Protobuf
# again, and takes the module-mode result if it is already there.
find_package(Threads REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
# Without a version, for RocksDB says that a later major one is none of the former.
find_package(RocksDB CONFIG REQUIRED)
if(RocksDB_VERSION VERSION_LESS 7.8)
  message(FATAL_ERROR "RocksDB 7.8 or later is needed; here is ${RocksDB_VERSION}")
endif()
find_package(OpenSSL REQUIRED)

if(LOCKSTEP_BUILD_TESTS)
  find_package(GTest 1.12 CONFIG REQUIRED)
  include(GoogleTest)
endif()

if(NOT LOCKSTEP_CORE_ONLY)
  find_package(gRPC 1.51 CONFIG REQUIRED)
  find_package(spdlog 1.10 CONFIG REQUIRED)
  find_package(Boost 1.74 REQUIRED)
  find_package(yaml-cpp 0.7 CONFIG REQUIRED)
  find_package(CLI11 2.1 CONFIG REQUIRED)
  find_package(nlohmann_json 3.11 CONFIG REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(JeMalloc REQUIRED IMPORTED_TARGET jemalloc>=5.3)
  # Its CMake package would want what serves and pushes metrics, too.
  pkg_check_modules(PrometheusCpp REQUIRED IMPORTED_TARGET prometheus-cpp-core>=1.0)
  pkg_check_modules(RdKafka REQUIRED IMPORTED_TARGET rdkafka>=2.0.2)
endif()
