# cmake -DOUT=x.h -DNAME=MACRO "-DFILES=a;b" -P this
# A header with the hash of all these files, so that what depends on their
# text can name it.
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  get_filename_component(name ${file} NAME)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUT} "/* Written by cmake/HashFiles.cmake. */
#define ${NAME} \"${hash}\"
")
