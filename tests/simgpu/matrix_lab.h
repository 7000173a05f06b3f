/* Fragments of matrix instructions as the ISA manual draws them, element by
   element, and kernels around one instruction. Each warp of a launch is a
   probe of its own: its registers come from memory and go back there. */
#ifndef MATRIX_LAB_H
#define MATRIX_LAB_H

#include "sim_lab.h"

typedef struct coord_t {
  unsigned row, col;
} coord_t;

/* Coordinate of element i of a fragment; g = lane / 4, q = lane % 4. */
typedef coord_t (*fragment_t)(unsigned g, unsigned q, unsigned i);

typedef enum element_t {
  E_F16, E_BF16, E_TF32, E_E4M3, E_E5M2, E_F64, E_F32, E_S32,
  E_S8, E_U8, E_S4, E_U4, E_B1
} element_t;

typedef struct form_t {
  const char *name; /* behind "mma.sync.aligned." */
  const char *target;
  unsigned m, n, k;
  element_t a, b, c;
  fragment_t fa, fb, fc;
  int op; /* b1: '&' or '^' */
} form_t;

static inline unsigned element_bits(element_t e) {
  switch (e) {
  case E_F64: return 64;
  case E_F32: case E_S32: case E_TF32: return 32;
  case E_F16: case E_BF16: return 16;
  case E_S4: case E_U4: return 4;
  case E_B1: return 1;
  default: return 8;
  }
}

static inline unsigned exponent_bits(element_t e) {
  switch (e) {
  case E_F16: case E_E5M2: return 5;
  case E_E4M3: return 4;
  case E_F64: return 11;
  default: return 8;
  }
}

static inline unsigned fraction_bits(element_t e) {
  switch (e) {
  case E_F16: case E_TF32: return 10;
  case E_BF16: return 7;
  case E_E4M3: return 3;
  case E_E5M2: return 2;
  case E_F64: return 52;
  default: return 23;
  }
}

/* The code of a value that the type holds exactly. */
static inline uint64_t encode(element_t e, double v) {
  if (e == E_S32 || e == E_S8 || e == E_U8 || e == E_S4 || e == E_U4 ||
      e == E_B1) {
    uint64_t all = element_bits(e) == 64
                       ? UINT64_MAX
                       : (UINT64_C(1) << element_bits(e)) - 1;
    return (uint64_t)(int64_t)v & all;
  }
  if (e == E_F64) {
    uint64_t bits;
    memcpy(&bits, &v, 8);
    return bits;
  }
  if (e == E_F32 || e == E_TF32) {
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
  }
  unsigned eb = exponent_bits(e), fb = fraction_bits(e);
  int bias = (1 << (eb - 1)) - 1, x;
  uint64_t sign = signbit(v) ? UINT64_C(1) << (eb + fb) : 0;
  if (v == 0) return sign;
  double s = frexp(fabs(v), &x); /* [1/2, 1) */
  x--;
  if (x < 1 - bias) /* subnormal */
    return sign | (uint64_t)ldexp(fabs(v), (int)fb - (1 - bias));
  uint64_t fraction = (uint64_t)ldexp(s * 2 - 1, (int)fb);
  return sign | (uint64_t)(x + bias) << fb | fraction;
}

/* The value of a code. */
static inline double decode(element_t e, uint64_t bits) {
  unsigned size = element_bits(e);
  if (e == E_S32 || e == E_S8 || e == E_S4)
    return (double)((int64_t)(bits << (64 - size)) >> (64 - size));
  if (e == E_U8 || e == E_U4 || e == E_B1) return (double)bits;
  if (e == E_F64) {
    double d;
    memcpy(&d, &bits, 8);
    return d;
  }
  if (e == E_F32 || e == E_TF32) {
    uint32_t b = (uint32_t)bits;
    float f;
    memcpy(&f, &b, 4);
    return (double)f;
  }
  unsigned eb = exponent_bits(e), fb = fraction_bits(e);
  int bias = (1 << (eb - 1)) - 1;
  unsigned x = (unsigned)(bits >> fb) & ((1u << eb) - 1);
  double f = (double)(bits & ((1u << fb) - 1));
  double sign = bits >> (eb + fb) & 1 ? -1 : 1;
  if (e == E_E4M3 && (bits & 0x7F) == 0x7F) return (double)NAN;
  if (e != E_E4M3 && x == (1u << eb) - 1)
    return f != 0 ? (double)NAN : sign * (double)INFINITY;
  if (x == 0) return sign * ldexp(f, 1 - bias - (int)fb);
  return sign * ldexp(f + ldexp(1, (int)fb), (int)x - bias - (int)fb);
}

/* -- registers of a warp in memory: [register][lane], 4 or 8 bytes -- */

static inline unsigned element_count(unsigned rows, unsigned cols) {
  return rows * cols / 32; /* of a lane */
}

static inline void put_element(uint8_t *regs, element_t e, unsigned lane,
                               unsigned i, uint64_t code) {
  unsigned bits = element_bits(e);
  if (bits == 64) {
    memcpy(regs + 256 * i + 8 * lane, &code, 8);
    return;
  }
  unsigned per = 32 / bits, at = i % per * bits;
  uint32_t word, keep = bits == 32 ? 0 : ~(((1u << bits) - 1) << at);
  uint8_t *p = regs + 128 * (i / per) + 4 * lane;
  memcpy(&word, p, 4);
  word = (word & keep) | (uint32_t)code << at;
  memcpy(p, &word, 4);
}

static inline uint64_t get_element(const uint8_t *regs, element_t e,
                                   unsigned lane, unsigned i) {
  unsigned bits = element_bits(e);
  uint64_t wide;
  if (bits == 64) {
    memcpy(&wide, regs + 256 * i + 8 * lane, 8);
    return wide;
  }
  unsigned per = 32 / bits;
  uint32_t word;
  memcpy(&word, regs + 128 * (i / per) + 4 * lane, 4);
  if (bits == 32) return word;
  return word >> (i % per * bits) & ((1u << bits) - 1);
}

static inline void put_matrix(uint8_t *regs, element_t e, fragment_t f,
                              unsigned rows, unsigned cols,
                              const double *matrix) {
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < element_count(rows, cols); i++) {
      coord_t at = f(lane / 4, lane % 4, i);
      put_element(regs, e, lane, i,
                  encode(e, matrix[at.row * cols + at.col]));
    }
}

static inline void get_matrix(const uint8_t *regs, element_t e, fragment_t f,
                              unsigned rows, unsigned cols, double *matrix) {
  for (unsigned n = 0; n < rows * cols; n++) matrix[n] = (double)NAN;
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < element_count(rows, cols); i++) {
      coord_t at = f(lane / 4, lane % 4, i);
      matrix[at.row * cols + at.col] =
          decode(e, get_element(regs, e, lane, i));
    }
}

static inline unsigned reg_count(element_t e, unsigned rows, unsigned cols) {
  unsigned bits = element_bits(e);
  return rows * cols * bits / 32 / (bits == 64 ? 64 : 32);
}

/* Text into a buffer, one piece after another. */
typedef struct text_t {
  char *data;
  size_t length, bytes;
} text_t;

static inline void say(text_t *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void say(text_t *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->data + t->length, t->bytes - t->length, format, args);
  va_end(args);
  if (n < 0 || (size_t)n >= t->bytes - t->length) fail_msg("text too long");
  t->length += (size_t)n;
}

static inline void say_vector(text_t *t, const char *prefix, unsigned from,
                              unsigned count) {
  say(t, "{");
  for (unsigned n = 0; n < count; n++)
    say(t, "%s%s%u", n ? "," : "", prefix, from + n);
  say(t, "}");
}

/* Entry k(in, out): %in and %out of the warp, whose blocks of registers are
   `in` and `out` bytes each; %tid, %lane4, %lane8. */
static inline void say_head(text_t *t, const char *target, unsigned in,
                            unsigned out, const char *shared) {
  say(t,
      ".version 8.7\n.target %s\n.address_size 64\n"
      ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"
      "%s.reg .b32 %%r<300>, %%t, %%w, %%l, %%s, %%x; .reg .f64 %%d<64>;\n"
      ".reg .b64 %%in, %%out, %%o, %%q<16>; .reg .pred %%p, %%z;\n"
      "ld.param.u64 %%in, [pin]; ld.param.u64 %%out, [pout];\n"
      "mov.u32 %%t, %%tid.x; mov.u32 %%w, %%ctaid.x; mov.u32 %%x,"
      " %%ntid.x;\n"
      "mad.lo.u32 %%w, %%w, %%x, %%t; shr.u32 %%w, %%w, 5;\n"
      "and.b32 %%l, %%t, 31; mul.wide.u32 %%o, %%w, %u;\n"
      "add.s64 %%in, %%in, %%o; mul.wide.u32 %%o, %%w, %u;\n"
      "add.s64 %%out, %%out, %%o; mul.wide.u32 %%o, %%l, 4;\n"
      "add.s64 %%in, %%in, %%o; add.s64 %%out, %%out, %%o;\n",
      target, shared, in, out);
}

/* Registers from memory at `at` on; f64 ones are twice as large. */
static inline unsigned say_load(text_t *t, bool wide, unsigned first,
                                unsigned count, unsigned at) {
  for (unsigned n = 0; n < count; n++, at += wide ? 256 : 128) {
    if (wide)
      say(t, "add.s64 %%q0, %%in, %%o; ld.global.b64 %%d%u, [%%q0+%u];\n",
          first + n, at);
    else
      say(t, "ld.global.b32 %%r%u, [%%in+%u];\n", first + n, at);
  }
  return at;
}

static inline void say_store(text_t *t, bool wide, unsigned first,
                             unsigned count) {
  for (unsigned n = 0; n < count; n++) {
    if (wide)
      say(t, "add.s64 %%q0, %%out, %%o; st.global.b64 [%%q0+%u], %%d%u;\n",
          256 * n, first + n);
    else
      say(t, "st.global.b32 [%%out+%u], %%r%u;\n", 128 * n, first + n);
  }
}

/* The result of a launch of `warps` warps, 4 a block. */
static inline int matrix_launch(lab_t *lab, const char *text,
                                const uint8_t *in, unsigned in_bytes,
                                uint8_t *out, unsigned out_bytes,
                                unsigned warps) {
  rcuda_module_t *module = lab_load(lab, text);
  uint64_t din = lab_copy_in(lab, in, (size_t)in_bytes * warps);
  uint64_t dout = lab_alloc(lab, (size_t)out_bytes * warps);
  /* what a kernel leaves out is zero, no finding */
  lab->cuMemsetD8_v2(dout, 0, (size_t)out_bytes * warps);
  void *params[] = {&din, &dout};
  int code = lab_launch(lab, lab_func(lab, module, "k"), (warps + 3) / 4,
                        warps < 4 ? warps * 32 : 128, 0, params);
  if (!code) lab_copy_out(lab, out, dout, (size_t)out_bytes * warps);
  if (!code) {
    lab->cuMemFree_v2(din);
    lab->cuMemFree_v2(dout);
    lab->cuModuleUnload(module);
  }
  return code;
}

#endif
