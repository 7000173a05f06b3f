/* Integer, logic and bit instructions. */
#include "runtime/simgpu/x.h"

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

/* Handlers of the shape d = f(a, b, c) with operands of type T in rows of
   type R; what a row holds above the operand's width is zero. */
#define OP(name, RD, TD, RA, TA, RB, TB, RC, TC, expr)                        \
  SIM_DEF(name) {                                                             \
    RD *d = (RD *)(void *)(w->r + i->d);                                      \
    const RA *pa = (const RA *)(const void *)(w->r + i->a);                   \
    const RB *pb = (const RB *)(const void *)(w->r + i->b);                   \
    const RC *pc = (const RC *)(const void *)(w->r + i->c);                   \
    if (m == SIM_FULL) {                                                      \
      SIM_LANES {                                                             \
        TA a = (TA)pa[l];                                                     \
        TB b = (TB)pb[l];                                                     \
        TC c = (TC)pc[l];                                                     \
        (void)a, (void)b, (void)c;                                            \
        d[l] = (RD)(TD)(expr);                                                \
      }                                                                       \
    } else {                                                                  \
      SIM_LANES {                                                             \
        TA a = (TA)pa[l];                                                     \
        TB b = (TB)pb[l];                                                     \
        TC c = (TC)pc[l];                                                     \
        RD keep = d[l];                                                       \
        (void)a, (void)b, (void)c;                                            \
        d[l] = SIM_BIT(m) ? (RD)(TD)(expr) : keep;                            \
      }                                                                       \
    }                                                                         \
    return i + 1;                                                             \
  }

#define OP16(name, T, expr)                                                   \
  OP(name, sim_u32, uint16_t, sim_u32, T, sim_u32, T, sim_u32, T, expr)
#define OP32(name, T, expr)                                                   \
  OP(name, sim_u32, uint32_t, sim_u32, T, sim_u32, T, sim_u32, T, expr)
#define OP64(name, T, expr)                                                   \
  OP(name, sim_u64, uint64_t, sim_u64, T, sim_u64, T, sim_u64, T, expr)

OP16(add_16, uint32_t, a + b)
OP32(add_16x2, uint32_t,
     ((a + b) & 0xFFFFu) | ((a >> 16) + (b >> 16)) << 16)
OP32(add_32, uint32_t, a + b)
OP64(add_64, uint64_t, a + b)
OP16(sub_16, uint32_t, a - b)
OP32(sub_32, uint32_t, a - b)
OP64(sub_64, uint64_t, a - b)
OP16(mul_16, uint32_t, a *b)
OP32(mul_32, uint32_t, a *b)
OP64(mul_64, uint64_t, a *b)
OP16(mad_16, uint32_t, a *b + c)
OP32(mad_32, uint32_t, a *b + c)
OP64(mad_64, uint64_t, a *b + c)

static inline int32_t clamp_s32(int64_t v) {
  return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}
OP32(add_sat_s32, int32_t, clamp_s32((int64_t)a + b))
OP32(sub_sat_s32, int32_t, clamp_s32((int64_t)a - b))

OP(mulhi_u16, sim_u32, uint16_t, sim_u32, uint16_t, sim_u32, uint16_t,
   sim_u32, uint16_t, ((uint32_t)a * b) >> 16)
OP(mulhi_s16, sim_u32, uint16_t, sim_u32, int16_t, sim_u32, int16_t, sim_u32,
   int16_t, (int32_t)(a * b) >> 16)
OP32(mulhi_u32, uint32_t, ((uint64_t)a * b) >> 32)
OP32(mulhi_s32, int32_t, ((int64_t)a * b) >> 32)
OP64(mulhi_u64, uint64_t, (u128)a *b >> 64)
OP64(mulhi_s64, int64_t, (s128)a *b >> 64)
OP32(madhi_u32, uint32_t, (uint32_t)(((uint64_t)a * b) >> 32) + c)
OP32(madhi_s32, int32_t,
     (uint32_t)(((int64_t)a * b) >> 32) + (uint32_t)c)
OP64(madhi_u64, uint64_t, (uint64_t)((u128)a * b >> 64) + c)
OP64(madhi_s64, int64_t, (uint64_t)((s128)a * b >> 64) + (uint64_t)c)

OP(wide_u16, sim_u32, uint32_t, sim_u32, uint16_t, sim_u32, uint16_t,
   sim_u32, uint32_t, (uint32_t)a *b)
OP(wide_s16, sim_u32, uint32_t, sim_u32, int16_t, sim_u32, int16_t, sim_u32,
   uint32_t, a *b)
OP(wide_u32, sim_u64, uint64_t, sim_u32, uint32_t, sim_u32, uint32_t,
   sim_u32, uint32_t, (uint64_t)a *b)
OP(wide_s32, sim_u64, uint64_t, sim_u32, int32_t, sim_u32, int32_t, sim_u32,
   uint32_t, (int64_t)a *b)
OP(madwide_u16, sim_u32, uint32_t, sim_u32, uint16_t, sim_u32, uint16_t,
   sim_u32, uint32_t, (uint32_t)a *b + c)
OP(madwide_s16, sim_u32, uint32_t, sim_u32, int16_t, sim_u32, int16_t,
   sim_u32, uint32_t, (uint32_t)(a * b) + c)
OP(madwide_u32, sim_u64, uint64_t, sim_u32, uint32_t, sim_u32, uint32_t,
   sim_u64, uint64_t, (uint64_t)a *b + c)
OP(madwide_s32, sim_u64, uint64_t, sim_u32, int32_t, sim_u32, int32_t,
   sim_u64, uint64_t, (uint64_t)((int64_t)a * b) + c)

/* -- carries: one bit a lane, kept in the warp -- */

/* First lanes' carries in, then out; only lanes of m change. */
#define CARRY(name, R, T, W, sum)                                             \
  SIM_DEF(name) {                                                             \
    R *d = (R *)(void *)(w->r + i->d);                                        \
    const R *pa = (const R *)(const void *)(w->r + i->a);                     \
    const R *pb = (const R *)(const void *)(w->r + i->b);                     \
    const R *pc = (const R *)(const void *)(w->r + i->c);                     \
    uint32_t out = w->carry;                                                  \
    for (uint32_t l = 0; l < 32; l++) {                                       \
      if (!SIM_BIT(m)) continue;                                              \
      T a = (T)pa[l], b = (T)pb[l], c = (T)pc[l];                             \
      W in = i->sub ? (W)SIM_BIT(w->carry) : 0;                               \
      (void)c;                                                                \
      W s = (sum);                                                            \
      d[l] = (R)s;                                                            \
      out = (out & ~(1u << l)) |                                              \
            ((uint32_t)(s >> (8 * sizeof(T))) & 1u) << l;                     \
    }                                                                         \
    if (i->mods & SIM_MOD_CC) w->carry = out;                                 \
    return i + 1;                                                             \
  }

CARRY(addc_32, sim_u32, uint32_t, uint64_t, (uint64_t)a + b + in)
CARRY(subc_32, sim_u32, uint32_t, uint64_t, (uint64_t)a - b - in)
CARRY(addc_64, sim_u64, uint64_t, u128, (u128)a + b + in)
CARRY(subc_64, sim_u64, uint64_t, u128, (u128)a - b - in)
CARRY(madc_lo_32, sim_u32, uint32_t, uint64_t,
      (uint64_t)(uint32_t)(a * b) + c + in)
CARRY(madc_hi_u32, sim_u32, uint32_t, uint64_t,
      (((uint64_t)a * b) >> 32) + c + in)
CARRY(madc_hi_s32, sim_u32, uint32_t, uint64_t,
      (uint64_t)(uint32_t)(((int64_t)(int32_t)a * (int32_t)b) >> 32) + c + in)

/* -- division: lane by lane; by zero is reported -- */

#define DIVIDE(name, R, TD, T, expr)                                          \
  SIM_DEF(name) {                                                             \
    R *d = (R *)(void *)(w->r + i->d);                                        \
    const R *pa = (const R *)(const void *)(w->r + i->a);                     \
    const R *pb = (const R *)(const void *)(w->r + i->b);                     \
    for (uint32_t l = 0; l < 32; l++) {                                       \
      if (!SIM_BIT(m)) continue;                                              \
      T a = (T)pa[l], b = (T)pb[l];                                           \
      if (b == 0) {                                                           \
        if (!sim_find(w, i, SIM_CHECK_NUM_DIV, l, PTX_SPACE_REG, 0, 0,        \
                      "integer division by zero"))                            \
          return NULL;                                                        \
        d[l] = (R)(TD)-1;                                                     \
        continue;                                                             \
      }                                                                       \
      d[l] = (R)(TD)(expr);                                                   \
    }                                                                         \
    return i + 1;                                                             \
  }

DIVIDE(div_u16, sim_u32, uint16_t, uint16_t, a / b)
DIVIDE(div_s16, sim_u32, uint16_t, int16_t, a / b)
DIVIDE(div_u32, sim_u32, uint32_t, uint32_t, a / b)
DIVIDE(div_s32, sim_u32, uint32_t, int32_t, (int64_t)a / b)
DIVIDE(div_u64, sim_u64, uint64_t, uint64_t, a / b)
DIVIDE(div_s64, sim_u64, uint64_t, int64_t,
       b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
DIVIDE(rem_u16, sim_u32, uint16_t, uint16_t, a % b)
DIVIDE(rem_s16, sim_u32, uint16_t, int16_t, a % b)
DIVIDE(rem_u32, sim_u32, uint32_t, uint32_t, a % b)
DIVIDE(rem_s32, sim_u32, uint32_t, int32_t, (int64_t)a % b)
DIVIDE(rem_u64, sim_u64, uint64_t, uint64_t, a % b)
DIVIDE(rem_s64, sim_u64, uint64_t, int64_t, b == -1 ? 0 : a % b)

OP16(abs_s16, int16_t, a < 0 ? -a : a)
OP32(abs_s32, int32_t, a < 0 ? 0u - (uint32_t)a : (uint32_t)a)
OP64(abs_s64, int64_t, a < 0 ? 0u - (uint64_t)a : (uint64_t)a)
OP16(neg_s16, int16_t, -a)
OP32(neg_s32, uint32_t, 0u - a)
OP64(neg_s64, uint64_t, 0u - a)
OP16(min_u16, uint16_t, a < b ? a : b)
OP16(min_s16, int16_t, a < b ? a : b)
OP32(min_u32, uint32_t, a < b ? a : b)
OP32(min_s32, int32_t, a < b ? a : b)
OP64(min_u64, uint64_t, a < b ? a : b)
OP64(min_s64, int64_t, a < b ? a : b)
OP16(max_u16, uint16_t, a > b ? a : b)
OP16(max_s16, int16_t, a > b ? a : b)
OP32(max_u32, uint32_t, a > b ? a : b)
OP32(max_s32, int32_t, a > b ? a : b)
OP64(max_u64, uint64_t, a > b ? a : b)
OP64(max_s64, int64_t, a > b ? a : b)
OP32(sad_u32, uint32_t, c + (a > b ? a - b : b - a))
OP32(sad_s32, int32_t,
     (uint32_t)c + (a > b ? (uint32_t)a - (uint32_t)b
                          : (uint32_t)b - (uint32_t)a))

/* min and max of two 16-bit integers each; sub: bit 0 max, bit 1 signed */
static inline uint32_t minmax_16(uint32_t a, uint32_t b, unsigned sub) {
  uint32_t flip = sub & 2 ? 0x8000u : 0;
  bool a_first = (a ^ flip) < (b ^ flip);
  return (sub & 1) ? (a_first ? b : a) : (a_first ? a : b);
}
OP32(minmax_16x2, uint32_t,
     minmax_16(a & 0xFFFFu, b & 0xFFFFu, i->sub) |
         minmax_16(a >> 16, b >> 16, i->sub) << 16)

OP32(and_32, uint32_t, a &b)
OP64(and_64, uint64_t, a &b)
OP32(or_32, uint32_t, a | b)
OP64(or_64, uint64_t, a | b)
OP32(xor_32, uint32_t, a ^ b)
OP64(xor_64, uint64_t, a ^ b)
OP16(not_16, uint32_t, ~a)
OP32(not_32, uint32_t, ~a)
OP64(not_64, uint64_t, ~a)
OP32(cnot_32, uint32_t, a == 0)

/* -- shifts: the amount is 32 bits wide and clamps -- */
#define SHIFT(name, R, TD, T, expr)                                           \
  OP(name, R, TD, R, T, sim_u32, uint32_t, sim_u32, uint32_t, expr)
SHIFT(shl_16, sim_u32, uint16_t, uint32_t, b > 15 ? 0 : a << (b & 15))
SHIFT(shl_32, sim_u32, uint32_t, uint32_t, b > 31 ? 0 : a << (b & 31))
SHIFT(shl_64, sim_u64, uint64_t, uint64_t, b > 63 ? 0 : a << (b & 63))
SHIFT(shr_u16, sim_u32, uint16_t, uint16_t, b > 15 ? 0 : a >> (b & 15))
SHIFT(shr_u32, sim_u32, uint32_t, uint32_t, b > 31 ? 0 : a >> (b & 31))
SHIFT(shr_u64, sim_u64, uint64_t, uint64_t, b > 63 ? 0 : a >> (b & 63))
SHIFT(shr_s16, sim_u32, uint16_t, int16_t, a >> (b > 15 ? 15 : b))
SHIFT(shr_s32, sim_u32, uint32_t, int32_t, a >> (b > 31 ? 31 : b))
SHIFT(shr_s64, sim_u64, uint64_t, int64_t, a >> (b > 63 ? 63 : b))

static inline uint32_t funnel(uint32_t n, uint32_t mods) {
  return mods & SIM_MOD_WRAP ? n & 31 : n > 32 ? 32 : n;
}
OP32(shf_l, uint32_t,
     (((uint64_t)b << 32 | a) << funnel(c, i->mods)) >> 32)
OP32(shf_r, uint32_t, ((uint64_t)b << 32 | a) >> funnel(c, i->mods))

/* Per bit position, bit number 4a + 2b + c of the table. */
static inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c,
                            uint32_t table) {
  uint32_t out = 0;
  for (unsigned k = 0; k < 8; k++) {
    uint32_t term = (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    out |= term & (0u - (table >> k & 1u));
  }
  return out;
}
OP32(lop3, uint32_t, lop3(a, b, c, (uint32_t)i->imm))

static uint32_t prmt(uint32_t a, uint32_t b, uint32_t c, unsigned mode) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  static const uint16_t selectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543}, /* f4e */
      {0x5670, 0x6701, 0x7012, 0x0123}, /* b4e */
      {0x0000, 0x1111, 0x2222, 0x3333}, /* rc8 */
      {0x3210, 0x3211, 0x3222, 0x3333}, /* ecl */
      {0x0000, 0x1110, 0x2210, 0x3210}, /* ecr */
      {0x1010, 0x3232, 0x1010, 0x3232}, /* rc16 */
  };
  uint32_t select = mode ? selectors[mode - 1][c & 3] : c;
  uint32_t out = 0;
  for (unsigned k = 0; k < 4; k++) {
    uint32_t nibble = select >> (4 * k) & 15;
    uint32_t byte = (uint32_t)(bytes >> (8 * (nibble & 7))) & 0xFF;
    if (nibble & 8) byte = byte & 0x80 ? 0xFF : 0;
    out |= byte << (8 * k);
  }
  return out;
}
OP32(prmt, uint32_t, prmt(a, b, c, i->sub))

#define FIELD(name, R, U, S, bits, is_signed)                                 \
  static inline U name##_of(U a, uint32_t pos, uint32_t length) {             \
    pos &= 255;                                                               \
    length &= 255;                                                            \
    if (length == 0) return 0;                                                \
    uint32_t top = pos + length - 1 < bits ? pos + length - 1 : bits - 1;     \
    U sign = is_signed ? (U)(a >> top & 1) : 0;                               \
    U field = pos < bits ? (U)(a >> pos) : 0;                                 \
    uint32_t have = pos < bits ? bits - pos : 0;                              \
    uint32_t keep = length < have ? length : have;                            \
    U mask = keep >= bits ? (U) ~(U)0 : (U)(((U)1 << keep) - 1);              \
    return (U)((field & mask) | (sign ? (U)~mask : 0));                       \
  }                                                                           \
  OP(name, R, U, R, U, sim_u32, uint32_t, sim_u32, uint32_t,                  \
     name##_of(a, b, c))
FIELD(bfe_u32, sim_u32, uint32_t, int32_t, 32, 0)
FIELD(bfe_s32, sim_u32, uint32_t, int32_t, 32, 1)
FIELD(bfe_u64, sim_u64, uint64_t, int64_t, 64, 0)
FIELD(bfe_s64, sim_u64, uint64_t, int64_t, 64, 1)

/* The low `length` bits of a placed into b at pos. */
#define INSERT(name, R, U, bits)                                              \
  static inline U name##_of(U a, U b, uint32_t pos, uint32_t length) {        \
    pos &= 255;                                                               \
    length &= 255;                                                            \
    if (length == 0 || pos >= bits) return b;                                 \
    U mask = length >= bits ? (U) ~(U)0 : (U)(((U)1 << length) - 1);          \
    return (U)((b & ~(U)(mask << pos)) | (U)((a & mask) << pos));             \
  }                                                                           \
  SIM_DEF(name) {                                                             \
    R *d = (R *)(void *)(w->r + i->d);                                        \
    const R *a = (const R *)(const void *)(w->r + i->a);                      \
    const R *b = (const R *)(const void *)(w->r + i->b);                      \
    const sim_u32 *c = sim_row(w, i->c), *e = sim_row(w, i->e);               \
    SIM_STORE(U, d, name##_of(a[l], b[l], c[l], e[l]));                       \
    return i + 1;                                                             \
  }
INSERT(bfi_32, sim_u32, uint32_t, 32)
INSERT(bfi_64, sim_u64, uint64_t, 64)

static inline uint32_t highest(uint64_t a, uint32_t bits, bool shift) {
  if (a == 0) return UINT32_MAX;
  uint32_t at = 63u - (uint32_t)__builtin_clzll(a);
  return shift ? bits - 1 - at : at;
}
#define COUNT(name, R, T, expr)                                               \
  OP(name, sim_u32, uint32_t, R, T, sim_u32, uint32_t, sim_u32, uint32_t, expr)
COUNT(bfind_u32, sim_u32, uint32_t,
      highest(a, 32, (i->mods & SIM_MOD_SHIFTAMT) != 0))
COUNT(bfind_s32, sim_u32, uint32_t,
      highest(a >> 31 ? (uint32_t)~a : a, 32,
              (i->mods & SIM_MOD_SHIFTAMT) != 0))
COUNT(bfind_u64, sim_u64, uint64_t,
      highest(a, 64, (i->mods & SIM_MOD_SHIFTAMT) != 0))
COUNT(bfind_s64, sim_u64, uint64_t,
      highest(a >> 63 ? ~a : a, 64, (i->mods & SIM_MOD_SHIFTAMT) != 0))
COUNT(clz_32, sim_u32, uint32_t, a ? (uint32_t)__builtin_clz(a) : 32u)
COUNT(clz_64, sim_u64, uint64_t, a ? (uint32_t)__builtin_clzll(a) : 64u)
COUNT(popc_32, sim_u32, uint32_t, (uint32_t)__builtin_popcount(a))
COUNT(popc_64, sim_u64, uint64_t, (uint32_t)__builtin_popcountll(a))

static inline uint64_t reverse(uint64_t a) {
  a = (a >> 1 & UINT64_C(0x5555555555555555)) |
      (a & UINT64_C(0x5555555555555555)) << 1;
  a = (a >> 2 & UINT64_C(0x3333333333333333)) |
      (a & UINT64_C(0x3333333333333333)) << 2;
  a = (a >> 4 & UINT64_C(0x0F0F0F0F0F0F0F0F)) |
      (a & UINT64_C(0x0F0F0F0F0F0F0F0F)) << 4;
  return __builtin_bswap64(a);
}
OP32(brev_32, uint32_t, reverse(a) >> 32)
OP64(brev_64, uint64_t, reverse(a))

/* Four products of bytes and an addend; signedness by operand. */
static inline uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed,
                            bool b_signed) {
  for (unsigned k = 0; k < 4; k++) {
    uint32_t x = a >> (8 * k) & 0xFF, y = b >> (8 * k) & 0xFF;
    int32_t sx = a_signed ? (int8_t)x : (int32_t)x;
    int32_t sy = b_signed ? (int8_t)y : (int32_t)y;
    c += (uint32_t)(sx * sy);
  }
  return c;
}
OP32(dp4a, uint32_t,
     dp4a(a, b, c, i->type == PTX_S32, i->type2 == PTX_S32))

/* Two products of a half of a and a byte of b, from byte `first` on. */
static inline uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c,
                            unsigned first, bool a_signed, bool b_signed) {
  for (unsigned k = 0; k < 2; k++) {
    uint32_t x = a >> (16 * k) & 0xFFFF, y = b >> (8 * (first + k)) & 0xFF;
    int32_t sx = a_signed ? (int16_t)x : (int32_t)x;
    int32_t sy = b_signed ? (int8_t)y : (int32_t)y;
    c += (uint32_t)(sx * sy);
  }
  return c;
}
OP32(dp2a_lo, uint32_t,
     dp2a(a, b, c, 0, i->type == PTX_S32, i->type2 == PTX_S32))
OP32(dp2a_hi, uint32_t,
     dp2a(a, b, c, 2, i->type == PTX_S32, i->type2 == PTX_S32))
