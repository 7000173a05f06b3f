# cmake -DOUT=x.c -DHEADER=driver/stdlib_embed.h "-DFILES=a;b" -P this
# Writes each file as a C array, so that a program needs no folder of ours.
# NAME and TYPE say what the table is called and made of.
if(NOT NAME)
  set(NAME tdsl_stdlib)
  set(TYPE tdsl_embedded_file_t)
endif()
set(text "/* Written by cmake/EmbedFiles.cmake. */\n")
string(APPEND text "#include \"${HEADER}\"\n\n")
set(rows "")
set(count 0)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text
    "static const unsigned char file_${count}[] = {${bytes}0};\n\n")
  string(APPEND rows "  {\"${name}\", file_${count}, ${length}},\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND text
  "const ${TYPE} ${NAME}_files[] = {\n${rows}"
  "  {NULL, NULL, 0},\n};\n\n"
  "const size_t ${NAME}_file_count = ${count};\n")
file(WRITE ${OUT} "${text}")
