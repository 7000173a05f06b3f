/* tdsl.h: the whole public interface.

   Functions are tdsl_<noun>_<verb>, types tdsl_<noun>_t.  create/destroy:
   one owner.  retain/release: counted, from any thread.  get: lent, lives as
   long as its parent.  set: copies what it is given.  Descriptors begin with
   struct_bytes (use their _INIT); zero elsewhere means default.  Strings are
   {data, length} views in UTF-8.  See compile.h for ownership, threads and
   errors in one place, docs/embedding.md for a walk through. */
#ifndef TDSL_TDSL_H
#define TDSL_TDSL_H

#include <tdsl/base.h>
#include <tdsl/compile.h>
#include <tdsl/runtime.h>

#endif
