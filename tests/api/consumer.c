/* A program outside the tree: it asks the library for its version, so that
 * header, library and link line are all exercised. */
#include <stdio.h>
#include <tdsl/tdsl.h>

int main(void) {
  tdsl_string_t text = tdsl_version_get_text();
  printf("%.*s\n", (int)text.length, text.data);
  return text.length == 0;
}
