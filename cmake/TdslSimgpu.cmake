# The simulated GPU: libtdsl_simgpu.so, a driver of its own that nothing
# links. The handlers (x_*.c) are compiled once for each level of the host's
# instruction set; the best one is picked at load. Headers that it may see:
# its own, runtime/base and the two lists of vendor types.
file(GLOB simgpu_all CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/simgpu/*.c)
if(NOT simgpu_all)
  return()
endif()
set(simgpu_exec ${simgpu_all})
list(FILTER simgpu_exec INCLUDE REGEX "/x_[^/]*\\.c$")
set(simgpu_rest ${simgpu_all})
list(FILTER simgpu_rest EXCLUDE REGEX "/x_[^/]*\\.c$")

set(simgpu_tree ${CMAKE_BINARY_DIR}/inc/tdsl_simgpu)
file(REMOVE_RECURSE ${simgpu_tree})
tdsl_link_files(${simgpu_tree} runtime/simgpu)
tdsl_link_files(${simgpu_tree} runtime/base)
foreach(header IN ITEMS runtime/cuda/cuda_types.h runtime/coll/nccl_types.h)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${header})
    get_filename_component(folder ${header} DIRECTORY)
    file(MAKE_DIRECTORY ${simgpu_tree}/${folder})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${header} ${simgpu_tree}/${header}
      SYMBOLIC)
  endif()
endforeach()

function(simgpu_sources TARGET)
  target_include_directories(${TARGET} PRIVATE
    ${CMAKE_SOURCE_DIR}/include ${simgpu_tree})
  target_link_libraries(${TARGET} PRIVATE tdsl_flags tdsl_warnings)
  set_target_properties(${TARGET} PROPERTIES
    C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
endfunction()

# No error numbers and no traps from arithmetic: what lets the compiler turn
# a choice between two floating-point values into a blend.
set(simgpu_math -fno-math-errno -fno-trapping-math)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  # a hint that this clang cannot follow is no fault of the source
  list(APPEND simgpu_math -Wno-pass-failed)
endif()
set(simgpu_levels base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(simgpu_levels v2 v3 v4)
endif()
set(simgpu_objects "")
foreach(level IN LISTS simgpu_levels)
  add_library(tdsl_simgpu_${level} OBJECT ${simgpu_exec})
  simgpu_sources(tdsl_simgpu_${level})
  target_compile_definitions(tdsl_simgpu_${level} PRIVATE
    SIM_VARIANT=_${level})
  target_compile_options(tdsl_simgpu_${level} PRIVATE -O3 ${simgpu_math})
  if(NOT level STREQUAL base)
    target_compile_options(tdsl_simgpu_${level} PRIVATE
      -march=x86-64-${level})
  endif()
  list(APPEND simgpu_objects $<TARGET_OBJECTS:tdsl_simgpu_${level}>)
endforeach()

add_library(tdsl_simgpu SHARED ${simgpu_rest} ${simgpu_objects})
simgpu_sources(tdsl_simgpu)
target_compile_options(tdsl_simgpu PRIVATE ${simgpu_math})
if(NOT simgpu_levels STREQUAL "base")
  target_compile_definitions(tdsl_simgpu PRIVATE SIM_HAVE_X86=1)
endif()
target_link_libraries(tdsl_simgpu PRIVATE tdsl_runtime_base m)
# The base library's own symbols stay inside.
target_link_options(tdsl_simgpu PRIVATE
  "-Wl,--exclude-libs,ALL" "-Wl,-Bsymbolic")
if(NOT TDSL_SANITIZE)
  target_link_options(tdsl_simgpu PRIVATE "-Wl,--no-undefined")
endif()
