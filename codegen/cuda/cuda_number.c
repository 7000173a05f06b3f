/* cuda_number.c: numbers and conversions as text: literals by exact value,
 * polynomials of dims, casts, functions.
 *
 * Operands and results are C expressions that can stand anywhere: a name, a
 * literal, a call, or in parentheses. */
#include "codegen/cuda/cuda_impl.h"

#define F(...) td_arena_printf(g->arena, __VA_ARGS__)

/* ---- literals ------------------------------------------------------------ */

/* 0x1.8p+3 from the bits of a normal number, the fraction given as hexadecimal
 * digits; printf and the locale stay out of it. */
static const char *hex_float(cgc_t *g, bool negative, uint64_t fraction,
                             int digits, int exponent, const char *suffix) {
  while (digits > 0 && (fraction & 15) == 0) {
    fraction >>= 4;
    digits--;
  }
  char text[17];
  for (int i = 0; i < digits; i++) {
    text[digits - 1 - i] = "0123456789abcdef"[fraction >> (4 * i) & 15];
  }
  text[digits] = '\0';
  return F("%s0x1%s%sp%d%s%s", negative ? "(-" : "", digits > 0 ? "." : "",
           text, exponent, suffix, negative ? ")" : "");
}

static const char *float_f32(cgc_t *g, float v) {
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  uint32_t field = u >> 23 & 255;
  bool negative = u >> 31 != 0;
  if (field == 255 || (field == 0 && (u & 0x7fffff) != 0)) {
    return F("__int_as_float(0x%x)", u);
  }
  if (v > -16777216.0f && v < 16777216.0f && v == (float)(int32_t)v) {
    int32_t n = (int32_t)v;
    if (!negative) return F("%d.0f", n);
    return F("(-%d.0f)", -n);
  }
  return hex_float(g, negative, (uint64_t)(u & 0x7fffff) << 1, 6,
                   (int)field - 127, "f");
}

static const char *float_f64(cgc_t *g, double v) {
  uint64_t u;
  memcpy(&u, &v, sizeof u);
  uint32_t field = (uint32_t)(u >> 52 & 2047);
  uint64_t fraction = u & 0xfffffffffffffull;
  bool negative = u >> 63 != 0;
  if (field == 2047 || (field == 0 && fraction != 0)) {
    return F("__longlong_as_double(0x%llxLL)", (unsigned long long)u);
  }
  if (v > -16777216.0 && v < 16777216.0 && v == (double)(int32_t)v) {
    int32_t n = (int32_t)v;
    if (!negative) return F("%d.0", n);
    return F("(-%d.0)", -n);
  }
  return hex_float(g, negative, fraction, 13, (int)field - 1023, "");
}

const char *cgc_float(cgc_t *g, tdsl_dtype_t type, double v) {
  return type == TDSL_DTYPE_F32 ? float_f32(g, (float)v) : float_f64(g, v);
}

/* What is no int by cgc_is_int must not look like one. */
const char *cgc_int(cgc_t *g, int64_t v) {
  if (v == INT64_MIN) return "(-9223372036854775807LL - 1)";
  const char *suffix = v > CGC_INT_MOST || v < -CGC_INT_MOST ? "LL" : "";
  if (v < 0) return F("(-%lld%s)", (long long)-v, suffix);
  return F("%lld%s", (long long)v, suffix);
}

/* ---- polynomials --------------------------------------------------------- */

/* is_positive: a >= 0 and b > 0 are known. */
const char *cgc_floor(cgc_t *g, bool is_mod, const char *a, const char *b,
                      bool is_positive, bool has_divisor, int64_t divisor) {
  /* the compiler does not know what is never negative */
  if (has_divisor && divisor > 0 && (divisor & (divisor - 1)) == 0) {
    if (is_mod) return F("(%s & %s)", a, cgc_int(g, divisor - 1));
    return F("(%s >> %d)", a, __builtin_ctzll((uint64_t)divisor));
  }
  if (is_positive) return F("(%s %s %s)", a, is_mod ? "%" : "/", b);
  return F("%s(%s, %s)", cgc_call(g, is_mod ? CGC_MOD : CGC_DIV),
           cgc_bare(g, a), cgc_bare(g, b));
}

static bool is_nonnegative(const ix_poly_t *p) {
  int64_t lo, hi;
  return ix_interval(p, &lo, &hi) && lo >= 0;
}

static const char *atom_text(cgc_t *g, const ix_atom_t *a) {
  if (a->kind == IX_ATOM_SYMBOL) {
    for (uint32_t i = 0; i < g->kernel->dim_count; i++) {
      if (g->kernel->dims[i] == a->symbol) return g->dim_names[i];
    }
    TD_ICE(g->task, "kernel %s has no dim %s", g->kernel->name,
           a->symbol->name);
  }
  const char *p = cgc_poly(g, a->p), *q = cgc_poly(g, a->q);
  if (a->kind == IX_ATOM_FLOOR || a->kind == IX_ATOM_MOD) {
    int64_t divisor = 0;
    bool is_const = ix_is_const(a->q, &divisor);
    return cgc_floor(g, a->kind == IX_ATOM_MOD, p, q, is_nonnegative(a->p),
                     is_const, divisor);
  }
  return F("%s(%s, %s)",
           cgc_call(g, a->kind == IX_ATOM_MIN ? CGC_MIN : CGC_MAX),
           cgc_bare(g, p), cgc_bare(g, q));
}

/* Depth of polys is bounded (IX_MAX_DEPTH), so recursion is. */
const char *cgc_poly(cgc_t *g, const ix_poly_t *p) {
  if (p->term_count == 0) return "0";
  int64_t constant;
  if (ix_is_const(p, &constant)) return cgc_int(g, constant);
  td_buf_t out;
  td_buf_init(&out, g->task);
  bool is_sum = p->term_count > 1, is_int = cgc_is_int_poly(p);
  for (uint32_t t = 0; t < p->term_count; t++) {
    const ix_term_t *term = &p->terms[t];
    int64_t c = term->coefficient;
    bool minus = c < 0 && c > INT64_MIN && t > 0;
    if (t > 0) td_buf_puts(&out, minus ? " - " : " + ");
    if (minus) c = -c;
    bool is_one = c == 1 && term->atom_count > 0;
    if (!is_int) td_buf_puts(&out, "(long long)");
    if (!is_one) td_buf_puts(&out, cgc_int(g, c));
    for (uint32_t i = 0; i < term->atom_count; i++) {
      if (i > 0 || !is_one) td_buf_puts(&out, " * ");
      td_buf_puts(&out, atom_text(g, term->atoms[i]));
    }
  }
  bool is_name = !is_sum && is_int && p->terms[0].coefficient == 1 &&
                 p->terms[0].atom_count == 1;
  const char *text = td_buf_finish(&out, g->arena);
  return is_name ? text : F("(%s)", text);
}

/* ---- storage ------------------------------------------------------------- */

const char *cgc_type(cgc_t *g, tdsl_dtype_t type) {
  switch ((int)type) {
    case TDSL_DTYPE_F64: return "double";
    case TDSL_DTYPE_F32: return "float";
    case TDSL_DTYPE_I64: return "long long";
    case TDSL_DTYPE_BOOL: return "bool";
    default: TD_ICE(g->task, "no arithmetic in dtype %d", (int)type);
  }
}

const char *cgc_storage_type(cgc_t *g, tdsl_dtype_t dtype) {
  switch (dtype) {
    case TDSL_DTYPE_F64: return "double";
    case TDSL_DTYPE_F32: return "float";
    case TDSL_DTYPE_F16: case TDSL_DTYPE_BF16: return "unsigned short";
    case TDSL_DTYPE_I64: return "long long";
    case TDSL_DTYPE_I32: return "int";
    case TDSL_DTYPE_I8: return "signed char";
    case TDSL_DTYPE_F8E4M3: case TDSL_DTYPE_F8E5M2: case TDSL_DTYPE_U8:
    case TDSL_DTYPE_BOOL:
      return "unsigned char";
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "no storage for dtype %d", (int)dtype);
}

const char *cgc_decode(cgc_t *g, tdsl_dtype_t dtype, const char *bits) {
  switch (dtype) {
    case TDSL_DTYPE_F64: case TDSL_DTYPE_F32: case TDSL_DTYPE_I64:
      return bits;
    case TDSL_DTYPE_F16: return F("%s(%s)", cgc_call(g, CGC_FROM_F16), bits);
    case TDSL_DTYPE_BF16:
      return F("%s(%s)", cgc_call(g, CGC_FROM_BF16), bits);
    case TDSL_DTYPE_F8E4M3:
      return F("%s(%s)", cgc_call(g, CGC_FROM_F8E4M3), bits);
    case TDSL_DTYPE_F8E5M2:
      return F("%s(%s)", cgc_call(g, CGC_FROM_F8E5M2), bits);
    case TDSL_DTYPE_I32: return F("((long long)%s)", bits);
    case TDSL_DTYPE_I8: case TDSL_DTYPE_U8: return F("((int)%s)", bits);
    case TDSL_DTYPE_BOOL: return F("(%s != 0)", bits);
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "no load of dtype %d", (int)dtype);
}

static const char *encode_narrow(cgc_t *g, tdsl_dtype_t dtype, const char *v,
                                 tdsl_dtype_t type) {
  cgc_helper_t helper = dtype == TDSL_DTYPE_F16      ? CGC_TO_F16
                        : dtype == TDSL_DTYPE_BF16   ? CGC_TO_BF16
                        : dtype == TDSL_DTYPE_F8E4M3 ? CGC_TO_F8E4M3
                                                     : CGC_TO_F8E5M2;
  if (type == TDSL_DTYPE_F64) {
    v = F("%s(%s)", cgc_call(g, CGC_TO_ODD), cgc_bare(g, v));
  }
  return F("%s(%s)", cgc_call(g, helper), cgc_bare(g, v));
}

const char *cgc_encode(cgc_t *g, tdsl_dtype_t dtype, const char *v,
                       tdsl_dtype_t type) {
  switch (dtype) {
    case TDSL_DTYPE_F64:
      return type == TDSL_DTYPE_F32 ? F("((double)%s)", v) : v;
    case TDSL_DTYPE_F32:
      return type == TDSL_DTYPE_F64 ? F("((float)%s)", v) : v;
    case TDSL_DTYPE_F16: case TDSL_DTYPE_BF16: case TDSL_DTYPE_F8E4M3:
    case TDSL_DTYPE_F8E5M2:
      return encode_narrow(g, dtype, v, type);
    case TDSL_DTYPE_I64: return v;
    case TDSL_DTYPE_I32: case TDSL_DTYPE_I8: case TDSL_DTYPE_U8:
    case TDSL_DTYPE_BOOL:
      return F("((%s)%s)", cgc_storage_type(g, dtype), v);
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "no store as dtype %d", (int)dtype);
}

const char *cgc_rounded(cgc_t *g, tdsl_dtype_t dtype, const char *v,
                        tdsl_dtype_t type) {
  if (dtype == type || dtype == TDSL_DTYPE_BOOL) return v;
  return cgc_decode(g, dtype, cgc_encode(g, dtype, v, type));
}

/* ---- casts --------------------------------------------------------------- */

static const char *cast_to_int(cgc_t *g, tdsl_dtype_t to, const char *v,
                               tdsl_dtype_t from) {
  if (from == TDSL_DTYPE_BOOL) return F("((long long)%s)", v);
  if (from == TDSL_DTYPE_F32 || from == TDSL_DTYPE_F64) {
    cgc_helper_t h =
        from == TDSL_DTYPE_F32 ? CGC_F32_TO_I64 : CGC_F64_TO_I64;
    v = F("%s(%s)", cgc_call(g, h), cgc_bare(g, v));
  }
  const char *lo = "0", *hi = "255";
  if (to == TDSL_DTYPE_I64) return v;
  if (to == TDSL_DTYPE_I32) {
    lo = "-2147483648LL";
    hi = "2147483647LL";
  } else if (to == TDSL_DTYPE_I8) {
    lo = "-128";
    hi = "127";
  }
  return F("%s(%s, %s, %s)", cgc_call(g, CGC_CLAMP), cgc_bare(g, v), lo, hi);
}

static const char *to_float(cgc_t *g, const char *type, const char *v,
                            bool same) {
  return same ? v : F("((%s)%s)", type, v);
}

const char *cgc_cast(cgc_t *g, tdsl_dtype_t to, const char *v,
                     tdsl_dtype_t from) {
  switch (to) {
    case TDSL_DTYPE_BOOL:
      if (from == TDSL_DTYPE_BOOL) return v;
      return F("(%s != %s)", v,
               from == TDSL_DTYPE_I64   ? "0"
               : from == TDSL_DTYPE_F32 ? "0.0f"
                                        : "0.0");
    case TDSL_DTYPE_I64: case TDSL_DTYPE_I32: case TDSL_DTYPE_I8:
    case TDSL_DTYPE_U8:
      return cast_to_int(g, to, v, from);
    case TDSL_DTYPE_F64: return to_float(g, "double", v, from == to);
    case TDSL_DTYPE_F32: return to_float(g, "float", v, from == to);
    case TDSL_DTYPE_F16: case TDSL_DTYPE_BF16: case TDSL_DTYPE_F8E4M3:
    case TDSL_DTYPE_F8E5M2:
      if (from != TDSL_DTYPE_F32 && from != TDSL_DTYPE_F64) {
        v = to_float(g, "double", v, false);
        from = TDSL_DTYPE_F64;
      }
      return cgc_rounded(g, to, v, from);
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "cast to dtype %d", (int)to);
}

/* ---- functions ----------------------------------------------------------- */

static const char *math_f32(cgc_t *g, kir_x_t op) {
  switch ((int)op) {
    case KIR_X_ABS: return "fabsf";
    case KIR_X_FLOOR: return "floorf";
    case KIR_X_CEIL: return "ceilf";
    case KIR_X_ROUND: return "rintf";
    case KIR_X_SQRT: return "sqrtf";
    case KIR_X_EXP: return cgc_call(g, CGC_EXP_F32);
    case KIR_X_EXP2: return cgc_call(g, CGC_EXP2_F32);
    case KIR_X_LOG: return cgc_call(g, CGC_LOG_F32);
    case KIR_X_LOG2: return cgc_call(g, CGC_LOG2_F32);
    case KIR_X_SIN: return cgc_call(g, CGC_SIN_F32);
    case KIR_X_COS: return cgc_call(g, CGC_COS_F32);
    case KIR_X_TANH: return cgc_call(g, CGC_TANH_F32);
    case KIR_X_ERF: return cgc_call(g, CGC_ERF_F32);
    default: TD_ICE(g->task, "f32 function %d", (int)op);
  }
}

static const char *math_f64(cgc_t *g, kir_x_t op) {
  switch ((int)op) {
    case KIR_X_ABS: return "fabs";
    case KIR_X_FLOOR: return "floor";
    case KIR_X_CEIL: return "ceil";
    case KIR_X_ROUND: return "rint";
    case KIR_X_SQRT: return "sqrt";
    case KIR_X_EXP: return "exp";
    case KIR_X_EXP2: return "exp2";
    case KIR_X_LOG: return "log";
    case KIR_X_LOG2: return "log2";
    case KIR_X_SIN: return "sin";
    case KIR_X_COS: return "cos";
    case KIR_X_TANH: return "tanh";
    case KIR_X_ERF: return "erf";
    default: TD_ICE(g->task, "f64 function %d", (int)op);
  }
}

const char *cgc_math(cgc_t *g, kir_x_t op, tdsl_dtype_t type, const char *a) {
  bool is_f32 = type == TDSL_DTYPE_F32;
  if (op == KIR_X_RSQRT) {
    return F(is_f32 ? "(1.0f / sqrtf(%s))" : "(1.0 / sqrt(%s))",
             cgc_bare(g, a));
  }
  return F("%s(%s)", is_f32 ? math_f32(g, op) : math_f64(g, op),
           cgc_bare(g, a));
}

const char *cgc_extreme(cgc_t *g, bool is_min, tdsl_dtype_t type,
                        const char *a, const char *b) {
  cgc_helper_t h = is_min ? CGC_MIN : CGC_MAX;
  if (type == TDSL_DTYPE_F32) h = is_min ? CGC_MIN_F32 : CGC_MAX_F32;
  if (type == TDSL_DTYPE_F64) h = is_min ? CGC_MIN_F64 : CGC_MAX_F64;
  return F("%s(%s, %s)", cgc_call(g, h), cgc_bare(g, a), cgc_bare(g, b));
}
