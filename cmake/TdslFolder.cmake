# tdsl_folder(DIR [ALLOW DIR...] [SUBFOLDERS NAME...] [LIBRARIES LIB...]
#             [GRAMMAR NAME] [LLVM])
#
# One static target, tdsl_<dir with _>, from DIR/*.c and the named subfolders.
# Sources write includes from the root ("runtime/base/arena.h",
# <tdsl/base.h>); the target's include directory is a tree of links in the
# build folder that holds DIR and ALLOW and nothing else, so an include that
# the table forbids does not compile. A folder without a .c file is skipped.
# GRAMMAR runs flex and bison on NAME.l and NAME.y; the outputs are included
# as "DIR/NAME.tab.h" and "DIR/NAME.lex.h".
set(TDSL_GENERATED ${CMAKE_BINARY_DIR}/gen)
set_property(GLOBAL PROPERTY TDSL_TARGETS "")

function(tdsl_target_name OUT DIR)
  string(REPLACE "/" "_" name ${DIR})
  set(${OUT} tdsl_${name} PARENT_SCOPE)
endfunction()

# Links to the headers of DIR below ROOT, file by file: subfolders that are
# targets of their own (codegen/llvm below codegen) stay invisible.
function(tdsl_link_files ROOT DIR)
  file(GLOB headers CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/${DIR}/*.h ${CMAKE_SOURCE_DIR}/${DIR}/*.def)
  file(MAKE_DIRECTORY ${ROOT}/${DIR})
  foreach(header IN LISTS headers)
    get_filename_component(name ${header} NAME)
    file(CREATE_LINK ${header} ${ROOT}/${DIR}/${name} SYMBOLIC)
  endforeach()
endfunction()

function(tdsl_grammar TARGET DIR NAME)
  set(out ${TDSL_GENERATED}/${DIR})
  set(in ${CMAKE_SOURCE_DIR}/${DIR})
  find_program(TDSL_FLEX flex REQUIRED)
  find_program(TDSL_BISON bison REQUIRED)
  file(MAKE_DIRECTORY ${out})
  add_custom_command(
    OUTPUT ${out}/${NAME}.tab.c ${out}/${NAME}.tab.h
    COMMAND ${TDSL_BISON} -Werror -Wno-yacc
      --output=${out}/${NAME}.tab.c --header=${out}/${NAME}.tab.h
      ${DIR}/${NAME}.y
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    DEPENDS ${in}/${NAME}.y VERBATIM)
  add_custom_command(
    OUTPUT ${out}/${NAME}.lex.c ${out}/${NAME}.lex.h
    COMMAND ${TDSL_FLEX}
      --outfile=${out}/${NAME}.lex.c --header-file=${out}/${NAME}.lex.h
      ${DIR}/${NAME}.l
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    DEPENDS ${in}/${NAME}.l ${out}/${NAME}.tab.h VERBATIM)
  target_sources(${TARGET} PRIVATE
    ${out}/${NAME}.tab.c ${out}/${NAME}.tab.h
    ${out}/${NAME}.lex.c ${out}/${NAME}.lex.h)
  # What the tools write is not ours to keep free of these.
  set_source_files_properties(${out}/${NAME}.tab.c ${out}/${NAME}.lex.c
    PROPERTIES COMPILE_OPTIONS "-Wno-conversion;-Wno-sign-conversion;\
-Wno-unused-function;-Wno-unused-but-set-variable;-Wno-sign-compare;\
-Wno-shadow;-Wno-undef;-Wno-unused-parameter;-Wno-missing-prototypes")
endfunction()

function(tdsl_folder DIR)
  cmake_parse_arguments(arg "LLVM" "GRAMMAR" "ALLOW;SUBFOLDERS;LIBRARIES"
    ${ARGN})
  tdsl_target_name(target ${DIR})
  set(globs ${CMAKE_SOURCE_DIR}/${DIR}/*.c)
  foreach(sub IN LISTS arg_SUBFOLDERS)
    list(APPEND globs ${CMAKE_SOURCE_DIR}/${DIR}/${sub}/*.c)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  if(NOT sources OR (arg_LLVM AND NOT TDSL_WITH_LLVM))
    return()
  endif()
  add_library(${target} STATIC ${sources})
  set(tree ${CMAKE_BINARY_DIR}/inc/${target})
  file(REMOVE_RECURSE ${tree})
  foreach(dir IN ITEMS ${DIR} ${arg_ALLOW})
    tdsl_link_files(${tree} ${dir})
  endforeach()
  foreach(sub IN LISTS arg_SUBFOLDERS)
    tdsl_link_files(${tree} ${DIR}/${sub})
  endforeach()
  target_include_directories(${target} PRIVATE
    ${CMAKE_SOURCE_DIR}/include ${tree})
  target_link_libraries(${target} PRIVATE tdsl_flags tdsl_warnings)
  if(arg_GRAMMAR AND EXISTS ${CMAKE_SOURCE_DIR}/${DIR}/${arg_GRAMMAR}.y)
    target_include_directories(${target} PRIVATE ${TDSL_GENERATED})
    tdsl_grammar(${target} ${DIR} ${arg_GRAMMAR})
  endif()
  foreach(dir IN LISTS arg_ALLOW)
    tdsl_target_name(needed ${dir})
    if(TARGET ${needed})
      target_link_libraries(${target} PRIVATE ${needed})
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  if(arg_LLVM AND TDSL_WITH_LLVM)
    target_link_libraries(${target} PRIVATE tdsl_llvm)
  endif()
  set_property(GLOBAL APPEND PROPERTY TDSL_TARGETS ${target})
  set_property(GLOBAL APPEND PROPERTY TDSL_FOLDERS ${DIR})
endfunction()

# Files of the tree as C arrays in TARGET: NAME_files and NAME_file_count, of
# type NAME_file_t, declared in HEADER.
function(tdsl_embed TARGET NAME HEADER GLOB)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${GLOB})
  set(out ${TDSL_GENERATED}/${NAME}_embed.c)
  set(script ${CMAKE_SOURCE_DIR}/cmake/EmbedFiles.cmake)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${HEADER} -DNAME=${NAME}
      -DTYPE=${NAME}_file_t "-DFILES=${files}" -P ${script}
    DEPENDS ${files} ${script} ${CMAKE_SOURCE_DIR}/${HEADER} VERBATIM)
  target_sources(${TARGET} PRIVATE ${out})
endfunction()
