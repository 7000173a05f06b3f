/* Canonical Huffman codes are decoded bit by bit from the counts of each
   length (section 3.2.2 of the RFC): codes of one length are consecutive
   numbers, so comparing with the first of each length finds the symbol
   without a tree. Input arrays are small; speed is not the point. */
#include "runtime/io/inflate.h"

#include <string.h>

#define LONGEST_CODE 15
#define LITERALS 288
#define DISTANCES 30

typedef struct stream_t {
  const unsigned char *in;
  size_t in_bytes, in_at;
  unsigned char *out;
  size_t out_bytes, out_at;
  uint32_t bits; /* bits read ahead, the next one lowest */
  unsigned bit_count;
  bool failed;
} stream_t;

typedef struct code_t {
  uint16_t count[LONGEST_CODE + 1]; /* codes of each length */
  uint16_t symbol[LITERALS];        /* by length, then by symbol */
} code_t;

/* The next bits, lowest first, at most 13 at a time. Past the end the stream
   has failed and gives zeros. */
static uint32_t take(stream_t *s, unsigned count) {
  while (s->bit_count < count) {
    if (s->in_at == s->in_bytes) {
      s->failed = true;
      return 0;
    }
    s->bits |= (uint32_t)s->in[s->in_at++] << s->bit_count;
    s->bit_count += 8;
  }
  uint32_t value = s->bits & ((1u << count) - 1);
  s->bits >>= count;
  s->bit_count -= count;
  return value;
}

/* False for a set of lengths that no prefix code has. An incomplete one is
   allowed only with at most one code. */
static bool build(code_t *code, const uint8_t *lengths, int n) {
  uint16_t next[LONGEST_CODE + 1];
  memset(code->count, 0, sizeof code->count);
  for (int i = 0; i < n; i++) code->count[lengths[i]]++;
  code->count[0] = 0;
  int left = 1, used = 0;
  for (int i = 1; i <= LONGEST_CODE; i++) {
    left = left * 2 - code->count[i];
    if (left < 0) return false;
    used += code->count[i];
  }
  if (left > 0 && used > 1) return false;
  next[1] = 0;
  for (int i = 1; i < LONGEST_CODE; i++) {
    next[i + 1] = (uint16_t)(next[i] + code->count[i]);
  }
  for (int i = 0; i < n; i++) {
    if (lengths[i]) code->symbol[next[lengths[i]]++] = (uint16_t)i;
  }
  return true;
}

/* value is the code so far, first the first code of this length, index the
   symbols of shorter codes. */
static unsigned decode(stream_t *s, const code_t *code) {
  unsigned value = 0, first = 0, index = 0;
  for (int length = 1; length <= LONGEST_CODE; length++) {
    value |= take(s, 1);
    if (s->failed) return 0;
    unsigned count = code->count[length];
    if (value < first + count) return code->symbol[index + value - first];
    index += count;
    first = (first + count) << 1;
    value <<= 1;
  }
  s->failed = true;
  return 0;
}

/* Length and its complement, then that many bytes. */
static bool copy_stored(stream_t *s) {
  s->bits = 0; /* the rest of the byte is skipped */
  s->bit_count = 0;
  if (s->in_bytes - s->in_at < 4) return false;
  const unsigned char *p = s->in + s->in_at;
  unsigned n = p[0] | (unsigned)p[1] << 8;
  unsigned check = p[2] | (unsigned)p[3] << 8;
  s->in_at += 4;
  if ((n ^ check) != 0xffff) return false;
  if (n > s->in_bytes - s->in_at || n > s->out_bytes - s->out_at) {
    return false;
  }
  if (n) memcpy(s->out + s->out_at, s->in + s->in_at, n);
  s->in_at += n;
  s->out_at += n;
  return true;
}

/* Lengths and distances: a base for each symbol and how many bits to add
   (section 3.2.5). */
static const uint16_t length_base[29] = {
    3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1,
                                         1, 1, 2, 2, 2, 2, 3, 3, 3, 3,
                                         4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t distance_base[DISTANCES] = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,
    33,  49,  65,  97,  129, 193,  257,  385,  513,  769,
    1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t distance_extra[DISTANCES] = {
    0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
    6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

/* Symbols below 256 are bytes, 256 ends the block, the others are copies of
   what was written before. */
static bool copy_coded(stream_t *s, const code_t *literals,
                       const code_t *distances) {
  for (;;) {
    unsigned symbol = decode(s, literals);
    if (s->failed) return false;
    if (symbol == 256) return true;
    if (symbol < 256) {
      if (s->out_at == s->out_bytes) return false;
      s->out[s->out_at++] = (unsigned char)symbol;
      continue;
    }
    symbol -= 257;
    if (symbol >= 29) return false;
    size_t length = length_base[symbol] + take(s, length_extra[symbol]);
    unsigned far = decode(s, distances);
    if (s->failed || far >= DISTANCES) return false;
    size_t distance = distance_base[far] + take(s, distance_extra[far]);
    if (s->failed || distance > s->out_at ||
        length > s->out_bytes - s->out_at) {
      return false;
    }
    /* Byte by byte: the source may run into what is being written. */
    for (; length; length--, s->out_at++) {
      s->out[s->out_at] = s->out[s->out_at - distance];
    }
  }
}

static bool read_fixed(stream_t *s) {
  code_t literals, distances;
  uint8_t lengths[LITERALS];
  for (int i = 0; i < LITERALS; i++) {
    lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  }
  build(&literals, lengths, LITERALS);
  /* Incomplete without the two reserved codes, so with them: decoding one is
     refused by its number. */
  memset(lengths, 5, 32);
  build(&distances, lengths, 32);
  return copy_coded(s, &literals, &distances);
}

/* The codes of the block are themselves coded, by a third code whose lengths
   come first in an order that leaves the rare ones out (section 3.2.7). */
static bool read_dynamic(stream_t *s) {
  static const uint8_t order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                    11, 4,  12, 3, 13, 2, 14, 1, 15};
  code_t literals, distances;
  uint8_t lengths[LITERALS + 32];
  int literal_count = (int)take(s, 5) + 257;
  int distance_count = (int)take(s, 5) + 1;
  int count = (int)take(s, 4) + 4;
  if (s->failed || literal_count > 286 || distance_count > DISTANCES) {
    return false;
  }
  memset(lengths, 0, sizeof lengths);
  for (int i = 0; i < count; i++) lengths[order[i]] = (uint8_t)take(s, 3);
  if (s->failed || !build(&literals, lengths, 19)) return false;
  int total = literal_count + distance_count;
  for (int i = 0; i < total;) {
    unsigned symbol = decode(s, &literals);
    if (s->failed) return false;
    if (symbol < 16) {
      lengths[i++] = (uint8_t)symbol;
      continue;
    }
    uint8_t value = 0;
    if (symbol == 16) {
      if (i == 0) return false;
      value = lengths[i - 1];
    }
    int repeat = symbol == 16   ? 3 + (int)take(s, 2)
                 : symbol == 17 ? 3 + (int)take(s, 3)
                                : 11 + (int)take(s, 7);
    if (s->failed || repeat > total - i) return false;
    while (repeat--) lengths[i++] = value;
  }
  if (lengths[256] == 0) return false; /* nothing could end the block */
  return build(&literals, lengths, literal_count) &&
         build(&distances, lengths + literal_count, distance_count) &&
         copy_coded(s, &literals, &distances);
}

/* Bytes behind the last block are ignored, as the archive's sizes bound the
   stream from outside. */
bool io_inflate(const unsigned char *in, size_t in_bytes, unsigned char *out,
                size_t out_bytes) {
  stream_t s = {.in = in, .in_bytes = in_bytes, .out = out,
                .out_bytes = out_bytes};
  bool last;
  do {
    last = take(&s, 1);
    uint32_t kind = take(&s, 2);
    if (s.failed) return false;
    bool ok = kind == 0   ? copy_stored(&s)
              : kind == 1 ? read_fixed(&s)
              : kind == 2 ? read_dynamic(&s)
                          : false;
    if (!ok) return false;
  } while (!last);
  return s.out_at == out_bytes;
}

uint32_t io_crc32(const unsigned char *data, size_t length) {
  /* Half a byte at a time; a table of 16 needs no set-up. */
  static const uint32_t table[16] = {
      0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
      0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < length; i++) {
    crc ^= data[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}
