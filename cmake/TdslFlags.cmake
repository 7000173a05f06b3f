# Compiler flags of every hand-written file. Contraction is off throughout:
# the text of an expression defines its arithmetic.
include(CheckCCompilerFlag)
find_package(Threads REQUIRED)

add_library(tdsl_flags INTERFACE)
target_compile_options(tdsl_flags INTERFACE
  -ffp-contract=off -fno-semantic-interposition -pthread
  "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/="
  "-ffile-prefix-map=${CMAKE_BINARY_DIR}/=")
target_compile_definitions(tdsl_flags INTERFACE
  _POSIX_C_SOURCE=200809L
  TDSL_WITH_LLVM=$<BOOL:${TDSL_WITH_LLVM}>)
target_link_libraries(tdsl_flags INTERFACE Threads::Threads)
if(TDSL_ARENA_MALLOC)
  target_compile_definitions(tdsl_flags INTERFACE TDSL_ARENA_MALLOC=1)
endif()
if(TDSL_SANITIZE)
  target_compile_options(tdsl_flags INTERFACE
    -fsanitize=${TDSL_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(tdsl_flags INTERFACE -fsanitize=${TDSL_SANITIZE})
endif()

# Separate, because generated parsers are not held to the whole list.
add_library(tdsl_warnings INTERFACE)
target_compile_options(tdsl_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef
  -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings
  -Wdouble-promotion -Wvla)
if(TDSL_WERROR)
  target_compile_options(tdsl_warnings INTERFACE -Werror)
endif()
