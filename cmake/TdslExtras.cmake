# Examples that embed the library, benchmarks, installation.
if(NOT TARGET tdsl_static)
  return()
endif()

# examples/NAME/NAME.c uses the public header alone.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*/*.c)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  add_executable(example_${name} ${source})
  set_target_properties(example_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
  target_link_libraries(example_${name} PRIVATE
    tdsl_flags tdsl_warnings tdsl_static m)
  if(TARGET tdsl_simgpu)
    add_dependencies(example_${name} tdsl_simgpu)
  endif()
  if(TDSL_TESTS AND EXISTS ${folder}/run.sh)
    # tests/tdtest.py runs these itself, on several devices.
    add_test(NAME example.${name}
      COMMAND sh ${folder}/run.sh ${CMAKE_BINARY_DIR})
    set_tests_properties(example.${name} PROPERTIES
      LABELS examples SKIP_RETURN_CODE 77)
  elseif(TDSL_TESTS)
    add_test(NAME example.${name} COMMAND example_${name}
      WORKING_DIRECTORY ${folder})
    set_tests_properties(example.${name} PROPERTIES LABELS api)
  endif()
endforeach()

# bench/bench_NAME.c with bench/NAME/*.c, built on demand; the peer is linked
# where it is there.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/bench_*.c)
find_library(TDSL_OPENBLAS openblas)
find_path(TDSL_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas
  x86_64-linux-gnu)
mark_as_advanced(TDSL_OPENBLAS TDSL_CBLAS_INCLUDE)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^bench_" "" short ${name})
  file(GLOB parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/${short}/*.c)
  add_executable(${name} EXCLUDE_FROM_ALL ${source} ${parts})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE
    TDSL_BUILD_DIR="${CMAKE_BINARY_DIR}"
    TDSL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE
    tdsl_flags tdsl_warnings tdsl_static m)
  if(TDSL_OPENBLAS AND TDSL_CBLAS_INCLUDE)
    target_include_directories(${name} SYSTEM PRIVATE ${TDSL_CBLAS_INCLUDE})
    target_compile_definitions(${name} PRIVATE TDSL_HAVE_OPENBLAS=1)
    target_link_libraries(${name} PRIVATE ${TDSL_OPENBLAS})
  else()
    target_compile_definitions(${name} PRIVATE TDSL_HAVE_OPENBLAS=0)
  endif()
endforeach()

# Installation is relocatable: both descriptions find the rest from where
# they lie themselves.
if(NOT TARGET tdsl)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(TDSL_PRIVATE_LIBS "-lxxhash -ldl -lm -lpthread")
if(TDSL_WITH_LLVM)
  list(JOIN llvm_libs " " llvm_text)
  string(APPEND TDSL_PRIVATE_LIBS " -L${llvm_libdir} ${llvm_text}")
endif()
file(RELATIVE_PATH TDSL_LIB_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}" "/")
set(TDSL_PC_TO_PREFIX ../${TDSL_LIB_TO_PREFIX})
configure_file(${CMAKE_SOURCE_DIR}/cmake/tdsl.pc.in
  ${CMAKE_BINARY_DIR}/tdsl.pc @ONLY)
configure_file(${CMAKE_SOURCE_DIR}/cmake/tdslConfig.cmake.in
  ${CMAKE_BINARY_DIR}/tdslConfig.cmake @ONLY)
write_basic_package_version_file(
  ${CMAKE_BINARY_DIR}/tdslConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(TARGETS tdsl tdsl_static)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tdsl TYPE INCLUDE
  FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/tdsl.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/tdslConfig.cmake
  ${CMAKE_BINARY_DIR}/tdslConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tdsl)
