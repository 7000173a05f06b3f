/* kernel_key.c: see kernel_key.h. */
#include "codegen/kernel_key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Raised whenever the emitters change what they make of the same KIR. */
static const char emitter[] = "tdsl emitter 1";

/* Fields are told apart by their lengths, so that no two lists of fields
 * run together to the same bytes. */
static void add(XXH3_state_t *state, const char *data, size_t length) {
  uint64_t n = length;
  (void)XXH3_128bits_update(state, &n, sizeof n);
  if (length > 0) (void)XXH3_128bits_update(state, data, length);
}

cg_key_t cg_kernel_key(td_str_t kir, const char *target,
                       const char *compiler) {
  XXH3_state_t state;
  (void)XXH3_128bits_reset(&state);
  add(&state, emitter, sizeof emitter - 1);
  add(&state, compiler, strlen(compiler));
  add(&state, target, strlen(target));
  add(&state, kir.data, kir.length);
  XXH128_hash_t hash = XXH3_128bits_digest(&state);
  cg_key_t key = {hash.high64, hash.low64};
  return key;
}

void cg_key_text(cg_key_t key, char out[33]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 16; i++) {
    out[i] = digits[key.high >> (60 - 4 * i) & 15];
    out[16 + i] = digits[key.low >> (60 - 4 * i) & 15];
  }
  out[32] = '\0';
}
