# What `cmake --install` puts where. Component `server`: the programs. Component `client`: the C++
# client with its CMake package, and the protos for clients in other languages. Component `rdkafka`:
# what the C++ client has for librdkafka's users. Component `bench`: lockstep-bench.
include(CMakePackageConfigHelpers)

install(TARGETS lockstepd lockstepctl RUNTIME COMPONENT server)
install(TARGETS lockstep-bench RUNTIME COMPONENT bench)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
# The archive of generated code goes along, for the client's to be linked with; its headers do not.
install(TARGETS lockstep_client lockstep_api_proto EXPORT lockstepTargets
  ARCHIVE COMPONENT client)
install(DIRECTORY include/lockstep TYPE INCLUDE COMPONENT client
  PATTERN rdkafka.h EXCLUDE)
install(FILES include/lockstep/rdkafka.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep
  COMPONENT rdkafka)
install(DIRECTORY proto/lockstep/v1 DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep/proto/lockstep
  COMPONENT client FILES_MATCHING PATTERN "*.proto" PATTERN "log.proto" EXCLUDE)
install(TARGETS lockstep_rdkafka EXPORT lockstepRdkafkaTargets ARCHIVE COMPONENT rdkafka)
install(EXPORT lockstepRdkafkaTargets NAMESPACE lockstep:: DESTINATION ${package_dir}
  COMPONENT rdkafka)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir} COMPONENT client)

configure_package_config_file(cmake/lockstepConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/lockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT client)
