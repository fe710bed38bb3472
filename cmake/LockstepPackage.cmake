# The Debian package `lockstep`, by scripts/package: the programs, the unit, manual pages, completions.
# Component `system` is what only a package brings; `server` is that of LockstepInstall.
set(documents ${CMAKE_BINARY_DIR}/documents)
add_custom_target(documents
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/lib/manual_pages $<TARGET_FILE:lockstepd>
    $<TARGET_FILE:lockstepctl> ${CMAKE_SOURCE_DIR}/deploy/manual ${documents}
  COMMAND gzip -9n < ${CMAKE_SOURCE_DIR}/deploy/debian/changelog > ${documents}/changelog.gz
  DEPENDS lockstepd lockstepctl VERBATIM)

set(BINDIR /usr/bin)
configure_file(deploy/systemd/lockstepd.service.in lockstepd.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lockstepd.service DESTINATION lib/systemd/system
  COMPONENT system)
foreach(folder IN ITEMS man bash-completion fish zsh)
  install(DIRECTORY ${documents}/${folder} TYPE DATA COMPONENT system)
endforeach()
install(FILES ${documents}/changelog.gz deploy/debian/copyright TYPE DOC COMPONENT system)
install(FILES deploy/lockstepd.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT system)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL server system)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "Lockstep developers <lockstep@lists.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "one transaction across several Apache Kafka clusters")
set(CPACK_PACKAGE_DESCRIPTION
  "lockstepd commits records and consumer offsets on two or more Kafka clusters\nas one: all of them, \
or none. It keeps its decisions in a log of its own, and\nfinishes after any crash what it decided. \
Brokers need no change.\n.\nlockstepctl is its command line.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
  ${CMAKE_SOURCE_DIR}/deploy/debian/prerm
  ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
include(CPack)
