/* cuda_cubin.c: see cuda_cubin.h. Nothing in the image is believed: every
 * place is looked at only if it lies inside. */
#include "runtime/cuda/cuda_cubin.h"

enum {
  HEADER_BYTES = 64,
  SECTION_BYTES = 64,
  SYMBOL_BYTES = 24,
  TYPE_SYMBOLS = 2,
  TYPE_NO_BYTES = 8, /* of a section that takes no place in the file */
  INFO_SIZED = 4,
  INFO_REGISTERS = 0x2f,
};

typedef struct image {
  const unsigned char *data;
  size_t bytes;
} image_t;

typedef struct section {
  uint32_t type, link;
  image_t text; /* empty: it lies outside */
} section_t;

/* Little-endian; 0 outside. */
static uint64_t number_at(const image_t *m, uint64_t at, uint32_t bytes) {
  uint64_t v = 0;
  if (at > m->bytes || m->bytes - at < bytes) return 0;
  for (uint32_t i = bytes; i > 0; i--) v = v << 8 | m->data[at + i - 1];
  return v;
}

static const char *name_at(const image_t *names, uint64_t at) {
  if (at >= names->bytes) return NULL;
  const char *name = (const char *)names->data + at;
  bool is_whole = memchr(name, '\0', names->bytes - at) != NULL;
  return is_whole && name[0] != '\0' ? name : NULL;
}

static image_t part_of(const image_t *m, uint64_t at, uint64_t bytes) {
  if (at > m->bytes || bytes > m->bytes - at) return (image_t){NULL, 0};
  return (image_t){m->data + at, (size_t)bytes};
}

/* The uint64_t of a header's place cannot overflow: its index has 16 bits,
 * and what lies past the end is no section. */
static bool section_at(const image_t *m, uint64_t index, section_t *out,
                       uint32_t *name) {
  uint64_t at = number_at(m, 40, 8), count = number_at(m, 60, 2);
  if (index >= count || at > m->bytes) return false;
  image_t h = part_of(m, at + index * SECTION_BYTES, SECTION_BYTES);
  if (h.data == NULL) return false;
  *name = (uint32_t)number_at(&h, 0, 4);
  out->type = (uint32_t)number_at(&h, 4, 4);
  out->link = (uint32_t)number_at(&h, 40, 4);
  out->text = out->type == TYPE_NO_BYTES
                  ? (image_t){NULL, 0}
                  : part_of(m, number_at(&h, 24, 8), number_at(&h, 32, 8));
  return true;
}

static void read_info(const image_t *info, const image_t *symbols,
                      const image_t *names, rcuda_cubin_fn see, void *user) {
  for (size_t at = 0; at + 4 <= info->bytes;) {
    uint64_t form = number_at(info, at, 1), name = number_at(info, at + 1, 1);
    size_t size = (size_t)number_at(info, at + 2, 2);
    at += 4;
    if (form != INFO_SIZED) continue;
    if (name == INFO_REGISTERS && size >= 8 && info->bytes - at >= 8) {
      uint64_t symbol = number_at(info, at, 4) * SYMBOL_BYTES;
      image_t one = part_of(symbols, symbol, SYMBOL_BYTES);
      const char *kernel =
          one.data == NULL ? NULL : name_at(names, number_at(&one, 0, 4));
      if (kernel != NULL) {
        see(user, kernel, (uint32_t)number_at(info, at + 4, 4));
      }
    }
    at += size;
  }
}

void rcuda_cubin_registers(const void *data, size_t bytes,
                           rcuda_cubin_fn see, void *user) {
  static const unsigned char magic[5] = {0x7f, 'E', 'L', 'F', 2};
  image_t m = {data, bytes}, symbols = {NULL, 0}, names = {NULL, 0};
  image_t info = {NULL, 0};
  section_t titles, s, linked;
  uint32_t title, unused;
  if (bytes < HEADER_BYTES || memcmp(data, magic, sizeof magic) != 0 ||
      number_at(&m, 58, 2) != SECTION_BYTES ||
      !section_at(&m, number_at(&m, 62, 2), &titles, &unused)) {
    return;
  }
  for (uint64_t i = 0; section_at(&m, i, &s, &title); i++) {
    const char *name = name_at(&titles.text, title);
    if (name != NULL && strcmp(name, ".nv.info") == 0) info = s.text;
    if (s.type == TYPE_SYMBOLS &&
        section_at(&m, s.link, &linked, &unused)) {
      symbols = s.text;
      names = linked.text;
    }
  }
  read_info(&info, &symbols, &names, see, user);
}
