# Foreign libraries. Each is found by file, so that no pkg-config is needed;
# which folder may include which header is the layering lint's business.
function(tdsl_find_library OUT HEADER LIBRARY PACKAGE)
  find_path(${OUT}_INCLUDE ${HEADER})
  find_library(${OUT}_LIBRARY NAMES ${LIBRARY})
  mark_as_advanced(${OUT}_INCLUDE ${OUT}_LIBRARY)
  if(${OUT}_INCLUDE AND ${OUT}_LIBRARY)
    set(${OUT} ${${OUT}_LIBRARY} PARENT_SCOPE)
  elseif(PACKAGE)
    message(FATAL_ERROR "${HEADER} not found; install ${PACKAGE}")
  else()
    set(${OUT} "" PARENT_SCOPE)
  endif()
endfunction()

tdsl_find_library(TDSL_JANSSON jansson.h jansson libjansson-dev)
tdsl_find_library(TDSL_XXHASH xxhash.h xxhash libxxhash-dev)
set(TDSL_PCRE2 "")  # the tokenizer's; nothing links it yet

if(TDSL_WITH_LLVM)
  find_program(TDSL_LLVM_CONFIG NAMES llvm-config-19 llvm-config-18
    llvm-config-17 llvm-config-16 llvm-config-15 llvm-config)
  if(NOT TDSL_LLVM_CONFIG)
    message(FATAL_ERROR "llvm-config not found; install llvm-19-dev or "
      "configure with -DTDSL_WITH_LLVM=OFF")
  endif()
  function(tdsl_llvm_ask OUT)
    execute_process(COMMAND ${TDSL_LLVM_CONFIG} ${ARGN}
      OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
      RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "${TDSL_LLVM_CONFIG} ${ARGN} failed")
    endif()
    set(${OUT} ${text} PARENT_SCOPE)
  endfunction()
  tdsl_llvm_ask(TDSL_LLVM_VERSION --version)
  if(TDSL_LLVM_VERSION VERSION_LESS 15)
    message(FATAL_ERROR "LLVM ${TDSL_LLVM_VERSION} is older than 15")
  endif()
  tdsl_llvm_ask(llvm_include --includedir)
  tdsl_llvm_ask(llvm_libdir --libdir)
  tdsl_llvm_ask(llvm_libs --link-shared --libs)
  add_library(tdsl_llvm INTERFACE)
  # The C API's own headers are not written for our warning list.
  target_include_directories(tdsl_llvm SYSTEM INTERFACE ${llvm_include})
  separate_arguments(llvm_libs)
  target_link_directories(tdsl_llvm INTERFACE ${llvm_libdir})
  target_link_libraries(tdsl_llvm INTERFACE ${llvm_libs})
  message(STATUS "LLVM ${TDSL_LLVM_VERSION}")
else()
  set(TDSL_LLVM_VERSION "")
endif()
