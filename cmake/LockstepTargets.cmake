# The one place where our own targets get their warnings, sanitizers and include path.
add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(lockstep_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  -Wnull-dereference -Wimplicit-fallthrough -Werror=return-type -Werror=switch
  -Werror=unused-result)
if(LOCKSTEP_PLANT)
  target_compile_definitions(lockstep_options INTERFACE LOCKSTEP_PLANT)
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()

# lockstep_library(NAME SOURCES ... [PUBLIC targets] [PRIVATE targets]): one static library a role.
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(lockstep_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(lockstep_${name} PUBLIC lockstep_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# tests_LABEL builds all the programs of one label; there are no other labels.
foreach(label IN ITEMS unit sim contract integration model long)
  add_custom_target(tests_${label})
endforeach()

# lockstep_test(NAME LABEL label SOURCES ... LIBS ... [TIMEOUT seconds]): a GoogleTest program, each
# of its tests a CTest test of its own, or with WHOLE all of them one. COST: about how many seconds
# that takes, for the longest, which are to start first.
function(lockstep_test name)
  cmake_parse_arguments(ARG "WHOLE" "LABEL;TIMEOUT;COST" "SOURCES;LIBS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lockstep_options ${ARG_LIBS} GTest::gtest_main GTest::gmock)
  foreach(label IN LISTS ARG_LABEL)
    add_dependencies(tests_${label} ${name})
  endforeach()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  set(environment "")
  if(LOCKSTEP_SANITIZE MATCHES "thread")
    set(environment ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp")
  endif()
  if(ARG_WHOLE)
    # One process for the whole program: its tests share something dear, such as running brokers.
    add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT}
      ${environment})
    if(ARG_COST)
      set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
    endif()
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT} ${environment})
  endif()
endfunction()
