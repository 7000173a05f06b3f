/* ldmatrix, stmatrix, movmatrix: where each half goes, and what is judged. */
#include "matrix_lab.h"

static lab_t lab;

/* Of an 8x8 matrix in memory, the half of a lane's register: plain, lane
   4g + q holds row g, columns 2q and 2q + 1; with .trans, rows 2q and 2q + 1
   of column g. */
static coord_t plain(unsigned g, unsigned q, unsigned i) {
  return (coord_t){g, 2 * q + i};
}
static coord_t trans(unsigned g, unsigned q, unsigned i) {
  return (coord_t){2 * q + i, g};
}

/* Rows of the matrices lie in shuffled places of shared memory, 4 KiB. */
static unsigned place_of(unsigned matrix, unsigned row) {
  return (matrix * 8 + row) * 7 % 32 * 48;
}

static void head(text_t *t) {
  say_head(t, "sm_90", 4096, 1024, ".shared .align 128 .b8 s[4096];\n");
  /* fill: 32 words a lane; then the lane's row address */
  say(t, "mov.u32 %%s, s;\n mad.lo.u32 %%x, %%l, 4, %%s;\n");
}

static void run(const char *text, const uint8_t *in, uint8_t *out) {
  char report[2048];
  int code = matrix_launch(&lab, text, in, 4096, out, 1024, 1);
  if (code)
    fail_msg("result %d %s\n%s", code,
             lab_report(&lab, report, sizeof report), text);
}

static void loads(void **state) {
  (void)state;
  for (unsigned n = 1; n <= 4; n *= 2)
    for (unsigned mode = 0; mode < 4; mode++) {
      bool is_trans = mode & 1, is_generic = mode & 2;
      char text[16384];
      text_t t = {text, 0, sizeof text};
      static uint8_t in[4096], out[1024];
      uint16_t value;
      for (unsigned k = 0; k < 4096; k += 2) {
        value = (uint16_t)(40000 + k);
        memcpy(in + k, &value, 2);
      }
      for (unsigned m = 0; m < 4; m++)
        for (unsigned r = 0; r < 8; r++)
          for (unsigned c = 0; c < 8; c++) {
            value = (uint16_t)(m * 64 + r * 8 + c);
            memcpy(in + place_of(m, r) + 2 * c, &value, 2);
          }
      head(&t);
      for (unsigned k = 0; k < 32; k++)
        say(&t, "ld.global.b32 %%r9, [%%in+%u]; st.shared.b32 [%%x+%u],"
                " %%r9;\n",
            128 * k, 128 * k);
      /* (l * 7 mod 32) * 48; lanes whose address is not used get a bad one */
      say(&t, "bar.sync 0; mul.lo.u32 %%x, %%l, 7; and.b32 %%x, %%x, 31;\n"
              "mad.lo.u32 %%x, %%x, 48, %%s; setp.ge.u32 %%p, %%l, %u;\n"
              "@%%p mov.u32 %%x, 1;\n",
          8 * n);
      if (is_generic)
        say(&t, "cvt.u64.u32 %%q1, %%x; cvta.shared.u64 %%q1, %%q1;\n");
      say(&t, "ldmatrix.sync.aligned.m8n8.x%u%s%s.b16 ", n,
          is_trans ? ".trans" : "", is_generic ? "" : ".shared");
      say_vector(&t, "%r", 0, n);
      say(&t, ", [%s];\n", is_generic ? "%q1" : "%x");
      say_store(&t, false, 0, n);
      say(&t, "ret; }\n");
      run(text, in, out);
      for (unsigned m = 0; m < n; m++)
        for (unsigned lane = 0; lane < 32; lane++)
          for (unsigned i = 0; i < 2; i++) {
            coord_t at = (is_trans ? trans : plain)(lane / 4, lane % 4, i);
            assert_int_equal(get_element(out + 128 * m, E_F16, lane, i),
                             m * 64 + at.row * 8 + at.col);
          }
      assert_int_equal(lab_counter(&lab, "shared.bytes_read"), 128 * n);
    }
}

static void stores(void **state) {
  (void)state;
  for (unsigned n = 1; n <= 4; n *= 2)
    for (unsigned is_trans = 0; is_trans < 2; is_trans++) {
      char text[16384];
      text_t t = {text, 0, sizeof text};
      static uint8_t in[4096], out[1024];
      uint16_t value;
      memset(in, 0, sizeof in);
      for (unsigned m = 0; m < n; m++)
        for (unsigned lane = 0; lane < 32; lane++)
          for (unsigned i = 0; i < 2; i++) {
            coord_t at = (is_trans ? trans : plain)(lane / 4, lane % 4, i);
            put_element(in + 128 * m, E_F16, lane, i,
                        m * 64 + at.row * 8 + at.col + 1);
          }
      head(&t);
      say_load(&t, false, 0, n, 0);
      say(&t, "mov.u32 %%r9, 0;\n");
      for (unsigned k = 0; k < 8; k++)
        say(&t, "st.shared.b32 [%%x+%u], %%r9;\n", 128 * k);
      say(&t, "bar.sync 0; xor.b32 %%r10, %%l, 5;\n"
              "mad.lo.u32 %%r10, %%r10, 16, %%s;\n"
              "stmatrix.sync.aligned.m8n8.x%u%s.shared.b16 [%%r10], ",
          n, is_trans ? ".trans" : "");
      say_vector(&t, "%r", 0, n);
      say(&t, ";\nbar.sync 0;\n");
      for (unsigned k = 0; k < 8; k++)
        say(&t, "ld.shared.b32 %%r9, [%%x+%u]; st.global.b32 [%%out+%u],"
                " %%r9;\n",
            128 * k, 128 * k);
      say(&t, "ret; }\n");
      run(text, in, out);
      for (unsigned m = 0; m < 4; m++)
        for (unsigned r = 0; r < 8; r++)
          for (unsigned c = 0; c < 8; c++) {
            memcpy(&value, out + ((m * 8 + r) ^ 5) * 16 + 2 * c, 2);
            assert_int_equal(value, m < n ? m * 64 + r * 8 + c + 1 : 0);
          }
    }
}

static void moves(void **state) {
  (void)state;
  char text[4096];
  text_t t = {text, 0, sizeof text};
  uint8_t in[4096] = {0}, out[1024];
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < 2; i++) {
      coord_t at = plain(lane / 4, lane % 4, i);
      put_element(in, E_F16, lane, i, at.row * 8 + at.col);
    }
  head(&t);
  say_load(&t, false, 0, 1, 0);
  say(&t, "movmatrix.sync.aligned.m8n8.trans.b16 %%r0, %%r0;\n");
  say_store(&t, false, 0, 1);
  say(&t, "ret; }\n");
  run(text, in, out);
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < 2; i++) {
      coord_t at = trans(lane / 4, lane % 4, i);
      assert_int_equal(get_element(out, E_F16, lane, i),
                       at.row * 8 + at.col);
    }
}

/* -- mutants: {{right|wrong}}, 64 threads; s holds 1024 defined bytes -- */

static void judged(void **state) {
  (void)state;
  static const struct {
    const char *id, *right, *wrong;
  } cases[] = {
      {"warp.matrix", "@%p ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, "
                      "[%r10];",
       "@%z ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r10];"},
      {"warp.matrix",
       "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %l;",
       "@%z bra L; movmatrix.sync.aligned.m8n8.trans.b16 %r0, %l; L:"},
      {"warp.matrix",
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       " {%l,%l}, {%l}, {%l,%l,%l,%l};",
       "@%z exit;"
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       " {%l,%l}, {%l}, {%l,%l,%l,%l};"},
      {"mem.align",
       "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0,%r1,%r2,%r3}, [%r10];",
       "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0,%r1,%r2,%r3},"
       " [%r10+8];"},
      {"mem.bounds",
       "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10+512], {%l,%l,%l,%l};",
       "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10+3600],"
       " {%l,%l,%l,%l};"},
      {"race.shared",
       "bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16"
       " {%r0,%r1,%r2,%r3}, [%r11];",
       "bar.warp.sync 0xFFFFFFFF; ldmatrix.sync.aligned.m8n8.x4.shared.b16"
       " {%r0,%r1,%r2,%r3}, [%r11];"},
      {"race.shared",
       "bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16"
       " {%r0,%r1,%r2,%r3}, [%r11]; bar.sync 0; st.shared.b32 [%x], %l;",
       "bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16"
       " {%r0,%r1,%r2,%r3}, [%r11]; bar.warp.sync 0xFFFFFFFF;"
       "st.shared.b32 [%x], %l;"},
      {"mem.space",
       "cvta.shared.u64 %q1, %q1; ldmatrix.sync.aligned.m8n8.x1.b16 {%r0},"
       " [%q1];",
       "ldmatrix.sync.aligned.m8n8.x1.b16 {%r0}, [%in];"},
      /* rows that nobody wrote: what depends on them is undefined, and the
         rest is not: only column 1 of B is spoilt, lanes with q = 0 */
      {"init.use",
       "mov.u32 %r4, 0; setp.lt.u32 %p, %l, 4; @%p ld.shared.b32 %r4,"
       " [%s+2048]; setp.ge.u32 %p, %l, 8; @!%p mov.u32 %r4, 0;"
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       " {%l,%l}, {%r4}, {%l,%l,%l,%l}; setp.ne.u32 %p, %r0, 5;"
       "@%p st.global.b32 [%out], %r0;",
       "mov.u32 %r4, 0; and.b32 %r5, %l, 28; setp.eq.u32 %p, %r5, 4;"
       "@%p ld.shared.b32 %r4, [%s+2048];"
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       " {%l,%l}, {%r4}, {%l,%l,%l,%l}; setp.ne.u32 %p, %r1, 5;"
       "@%p st.global.b32 [%out], %r1;"},
      {"init.use",
       "mov.u32 %r4, 0; and.b32 %r5, %l, 28; setp.eq.u32 %p, %r5, 4;"
       "@%p ld.shared.b32 %r4, [%s+2048];"
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       " {%l,%l}, {%r4}, {%l,%l,%l,%l}; setp.ne.u32 %p, %r0, 5;"
       "@%p st.global.b32 [%out], %r0;",
       "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r10+2048];"
       "setp.ne.u32 %p, %r0, 5; @%p st.global.b32 [%out], %r0;"},
      /* the spoilt row of A spoils that row of D alone */
      {"init.use",
       "mov.u32 %r4, 0; setp.lt.u32 %p, %l, 4; @%p ld.shared.b32 %r4,"
       " [%s+2048];"
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       " {%r4,%l}, {%l}, {%l,%l,%l,%l}; setp.ne.u32 %p, %r2, 5;"
       "@%p st.global.b32 [%out], %r2;",
       "mov.u32 %r4, 0; setp.lt.u32 %p, %l, 4; @%p ld.shared.b32 %r4,"
       " [%s+2048];"
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       " {%l,%r4}, {%l}, {%l,%l,%l,%l}; setp.ne.u32 %p, %r2, 5;"
       "@%p st.global.b32 [%out], %r2;"}};
  for (size_t n = 0; n < 2 * (sizeof cases / sizeof *cases); n++) {
    bool is_wrong = n % 2;
    char text[8192], report[4096], id[64];
    static uint8_t in[2 * 4096], out[2 * 1024];
    text_t t = {text, 0, sizeof text};
    head(&t);
    say(&t, "mov.u32 %%r9, 0; mad.lo.u32 %%x, %%t, 4, %%s;\n");
    for (unsigned k = 0; k < 4; k++)
      say(&t, "st.shared.b32 [%%x+%u], %%r9;\n", 256 * k);
    /* r10: rows of this warp's own half; r11: rows across both */
    say(&t, "bar.sync 0; mov.u32 %%r0, 0; mov.u32 %%r1, 0;\n"
            "mad.lo.u32 %%r10, %%l, 16, %%s; mul.wide.u32 %%q1, %%l, 16;\n"
            "mov.u32 %%r12, s; cvt.u64.u32 %%q2, %%r12;\n"
            "add.s64 %%q1, %%q1, %%q2;\n"
            "mad.lo.u32 %%r11, %%l, 16, %%s;\n"
            "setp.lt.u32 %%p, %%l, 32; setp.lt.u32 %%z, %%l, 7;\n");
    if (n / 2 == 5) /* both warps write, and read what the other wrote */
      say(&t, "st.shared.b32 [%%x], %%l;\n");
    say(&t, "%s\nret; }\n", is_wrong ? cases[n / 2].wrong
                                     : cases[n / 2].right);
    lab_renew(&lab);
    bool is_single = strcmp(cases[n / 2].id, "mem.bounds") == 0;
    int code = matrix_launch(&lab, text, in, 4096, out, 1024,
                             is_single ? 1 : 2);
    lab_report(&lab, report, sizeof report);
    snprintf(id, sizeof id, "\"id\":\"%s\"", cases[n / 2].id);
    if (!is_wrong && code)
      fail_msg("the right one of %s: %d %s\n%s", cases[n / 2].id, code,
               report, cases[n / 2].right);
    if (is_wrong && (!code || !strstr(report, id)))
      fail_msg("%s is not caught: %d %s\n%s", cases[n / 2].id, code, report,
               cases[n / 2].wrong);
  }
  lab_renew(&lab);
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loads), cmocka_unit_test(stores),
      cmocka_unit_test(moves), cmocka_unit_test(judged)};
  return cmocka_run_group_tests_name("simgpu.ldmatrix", tests, setup, NULL);
}
