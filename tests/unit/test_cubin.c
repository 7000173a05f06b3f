/* Registers that machine code tells of its kernels: an ELF file made here by
 * the public layout of ELF64 and of .nv.info, and what is no such file. */
#include "runtime/cuda/cuda_cubin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Header, five sections at 64, and their bytes behind them. */
enum { SECTIONS = 64, COUNT = 5, TEXT = SECTIONS + COUNT * 64, BYTES = 640 };

static unsigned char image[BYTES];

static void put(size_t at, uint64_t v, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    image[at + i] = (unsigned char)(v >> 8 * i);
}

static void section(size_t index, uint64_t name, uint64_t type, uint64_t at,
                    uint64_t bytes, uint64_t link) {
  size_t h = SECTIONS + index * 64;
  put(h, name, 4);
  put(h + 4, type, 4);
  put(h + 24, at, 8);
  put(h + 32, bytes, 8);
  put(h + 40, link, 4);
}

static void make(void) {
  static const char titles[] = "\0.nv.info\0.symtab\0.strtab";
  static const char names[] = "\0first\0other";
  memset(image, 0, sizeof image);
  memcpy(image, "\x7f" "ELF\2\1", 6);
  put(18, 190, 2);
  put(40, SECTIONS, 8);
  put(58, 64, 2);
  put(60, COUNT, 2);
  put(62, 4, 2);
  section(1, 1, 0x70000000, TEXT, 48, 2);
  section(2, 10, 2, TEXT + 64, 3 * 24, 3);
  section(3, 18, 3, TEXT + 144, sizeof names, 0);
  section(4, 0, 3, TEXT + 160, sizeof titles, 0);
  /* form 3 has its number in place of a size; a longest stack; registers of
     symbols 2 and 1 */
  static const unsigned char records[48] = {
      3, 0x1b, 255, 0,
      4, 0x11, 8, 0, 1, 0, 0, 0, 96, 0, 0, 0,
      4, 0x2f, 8, 0, 2, 0, 0, 0, 40, 0, 0, 0,
      4, 0x2f, 8, 0, 1, 0, 0, 0, 168, 0, 0, 0};
  memcpy(image + TEXT, records, sizeof records);
  put(TEXT + 64 + 24, 1, 4);
  put(TEXT + 64 + 48, 7, 4);
  memcpy(image + TEXT + 144, names, sizeof names);
  memcpy(image + TEXT + 160, titles, sizeof titles);
}

typedef struct seen {
  uint32_t count, first, other;
  size_t letters;
} seen_t;

static void see(void *user, const char *kernel, uint32_t registers) {
  seen_t *s = user;
  s->count++;
  s->letters += strlen(kernel);
  if (strcmp(kernel, "first") == 0) s->first = registers;
  if (strcmp(kernel, "other") == 0) s->other = registers;
}

/* In memory of its own, so that one byte beyond is noticed. */
static seen_t read_all(size_t bytes) {
  seen_t s = {0};
  unsigned char *copy = malloc(bytes + (bytes == 0));
  assert_non_null(copy);
  memcpy(copy, image, bytes);
  rcuda_cubin_registers(copy, bytes, see, &s);
  free(copy);
  return s;
}

static void kernels(void **state) {
  (void)state;
  make();
  seen_t s = read_all(BYTES);
  assert_int_equal(s.count, 2);
  assert_int_equal(s.first, 168);
  assert_int_equal(s.other, 40);
}

static void cut_off(void **state) {
  (void)state;
  make();
  size_t end = TEXT + 160 + 26; /* of the last section */
  for (size_t n = 0; n < end; n++) assert_int_equal(read_all(n).count, 0);
  assert_int_equal(read_all(end).count, 2);
  image[0] = 'x';
  assert_int_equal(read_all(BYTES).count, 0);
}

/* Any byte of it may be any: nothing is read beyond, and no kernel has a name
 * that does not end. */
static void damaged(void **state) {
  (void)state;
  static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
  for (size_t i = 0; i < BYTES; i++) {
    for (size_t k = 0; k < sizeof values; k++) {
      make();
      image[i] = values[k];
      assert_true(read_all(BYTES).count <= 3);
    }
  }
  for (size_t i = 4; i + 8 <= BYTES; i++) {
    make();
    memset(image + i, 0xff, 8);
    assert_true(read_all(BYTES).count <= 3);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels),
                                     cmocka_unit_test(cut_off),
                                     cmocka_unit_test(damaged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
