# tests/fuzz/fuzz_NAME.c as libFuzzer targets in build/fuzz. The whole
# project is instrumented for coverage, else the fuzzer is blind.
if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "TDSL_FUZZ needs clang")
endif()
target_compile_options(tdsl_flags INTERFACE -fsanitize=fuzzer-no-link)
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_include_directories(${name} PRIVATE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR} ${TDSL_GENERATED})
  target_link_libraries(${name} PRIVATE tdsl_flags tdsl_warnings)
  if(name STREQUAL "fuzz_ptx")
    # the simulated GPU is a driver of its own, not a part of the library
    target_link_libraries(${name} PRIVATE tdsl_simgpu)
  elseif(TARGET tdsl_static)
    target_link_libraries(${name} PRIVATE tdsl_static)
  else()
    get_property(folders GLOBAL PROPERTY TDSL_TARGETS)
    target_link_libraries(${name} PRIVATE ${folders})
  endif()
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
