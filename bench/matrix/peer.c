/* peer.c: matrix libraries that happen to be installed, opened by name, so
 * that none is needed to build. */
#include "bench/matrix/matrix.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* cblas_sgemm: row-major 101, no transpose 111, transpose 112. */
typedef void (*cblas_sgemm_fn)(int order, int ta, int tb, int m, int n, int k,
                               float alpha, const float *a, int lda,
                               const float *b, int ldb, float beta, float *c,
                               int ldc);
/* dnnl_sgemm: row-major, dims of 64 bits, 0 for success. */
typedef int (*dnnl_sgemm_fn)(char ta, char tb, int64_t m, int64_t n,
                             int64_t k, float alpha, const float *a,
                             int64_t lda, const float *b, int64_t ldb,
                             float beta, float *c, int64_t ldc);

static void run_cblas(const peer_t *p, int b_is_nk, int m, int n, int k,
                      const float *a, const float *b, float *c) {
  cblas_sgemm_fn fn;
  memcpy(&fn, &p->sgemm, sizeof fn);
  fn(101, 111, b_is_nk ? 112 : 111, m, n, k, 1.0f, a, k, b, b_is_nk ? k : n,
     0.0f, c, n);
}

static void run_dnnl(const peer_t *p, int b_is_nk, int m, int n, int k,
                     const float *a, const float *b, float *c) {
  dnnl_sgemm_fn fn;
  memcpy(&fn, &p->sgemm, sizeof fn);
  (void)fn('N', b_is_nk ? 'T' : 'N', m, n, k, 1.0f, a, k, b, b_is_nk ? k : n,
           0.0f, c, n);
}

static void put_version(peer_t *p) {
  const char *(*text)(void) = NULL;
  void *symbol = dlsym(p->library, "openblas_get_config");
  if (symbol == NULL) symbol = dlsym(p->library, "bli_info_get_version_str");
  if (symbol != NULL) memcpy(&text, &symbol, sizeof text);
  (void)snprintf(p->version, sizeof p->version, "%s",
                 text != NULL ? text() : "version not told");
}

int peer_open(peer_t *out) {
  static const struct {
    const char *name, *file, *symbol;
  } known[PEER_MOST] = {
      {"OpenBLAS", "libopenblas.so.0", "cblas_sgemm"},
      {"BLIS", "libblis.so.4", "cblas_sgemm"},
      {"oneDNN", "libdnnl.so.2", "dnnl_sgemm"},
  };
  int count = 0;
  for (int i = 0; i < PEER_MOST; i++) {
    peer_t *p = &out[count];
    memset(p, 0, sizeof *p);
    p->name = known[i].name;
    p->library = dlopen(known[i].file, RTLD_NOW | RTLD_LOCAL);
    if (p->library == NULL) continue;
    p->sgemm = dlsym(p->library, known[i].symbol);
    if (p->sgemm == NULL) continue;
    p->gemm = strcmp(known[i].symbol, "dnnl_sgemm") == 0 ? run_dnnl
                                                         : run_cblas;
    put_version(p);
    count++;
  }
  return count;
}
