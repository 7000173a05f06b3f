/* Conversions, decimal text, the generator. Expected values come from the
   reference vectors, from arithmetic on the layouts of the formats, or from
   the standards that define them. */
#include "unit.h"

#include "runtime/base/num.h"
#include "runtime/base/rng.h"
#include "runtime/io/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

/* -- narrow floats, every pattern -- */

typedef struct layout_t {
  tdsl_dtype_t dtype;
  int significand, bias, exponent_bits;
} layout_t;

static const layout_t layouts[] = {
    {TDSL_DTYPE_F16, 10, 15, 5},
    {TDSL_DTYPE_BF16, 7, 127, 8},
    {TDSL_DTYPE_F8E4M3, 3, 7, 4},
    {TDSL_DTYPE_F8E5M2, 2, 15, 5},
};

/* The value of a pattern by the definition of its format. */
static double by_definition(const layout_t *l, unsigned bits) {
  int total = l->significand + l->exponent_bits;
  int e = (int)(bits >> l->significand & ((1u << l->exponent_bits) - 1));
  int m = (int)(bits & ((1u << l->significand) - 1));
  int top = (1 << l->exponent_bits) - 1;
  double sign = bits >> total & 1 ? -1.0 : 1.0;
  if (l->dtype == TDSL_DTYPE_F8E4M3) {
    if (e == top && m == (1 << l->significand) - 1) return (double)NAN;
  } else if (e == top) {
    return m ? (double)NAN : sign * (double)INFINITY;
  }
  if (e == 0) return sign * ldexp(m, 1 - l->bias - l->significand);
  return sign * ldexp(m + (1 << l->significand), e - l->bias - l->significand);
}

static void every_pattern_widens(void **state) {
  (void)state;
  for (int f = 0; f < 4; f++) {
    const layout_t *l = &layouts[f];
    unsigned count = 1u << (l->significand + l->exponent_bits + 1);
    for (unsigned bits = 0; bits < count; bits++) {
      double want = by_definition(l, bits);
      uint16_t place = (uint16_t)bits;
      double got = td_load_f64(l->dtype, &place);
      if (isnan(want)) {
        assert_true(isnan(got));
        continue;
      }
      assert_true(td_f64_bits(got) == td_f64_bits(want));
      /* Back again: itself, but infinity of the saturating types. */
      uint16_t back = 0;
      td_store_f64(l->dtype, &back, got);
      if (isinf(want) && l->dtype == TDSL_DTYPE_F8E5M2) {
        assert_int_equal(back & 0x7f, 0x7b);
      } else {
        assert_int_equal(back, bits);
      }
    }
  }
}

/* Between neighbours: below the middle down, above up, at it to even; from
   binary64, so that a second rounding through binary32 would show. */
static void rounding_is_to_nearest_even_once(void **state) {
  (void)state;
  for (int f = 0; f < 4; f++) {
    const layout_t *l = &layouts[f];
    unsigned count = 1u << (l->significand + l->exponent_bits);
    for (unsigned bits = 0; bits + 1 < count; bits++) {
      double a = by_definition(l, bits), b = by_definition(l, bits + 1);
      if (!isfinite(a) || !isfinite(b)) continue;
      double middle = (a + b) / 2;
      uint16_t got = 0;
      td_store_f64(l->dtype, &got, nextafter(middle, a));
      assert_int_equal(got, bits);
      td_store_f64(l->dtype, &got, nextafter(middle, b));
      assert_int_equal(got, bits + 1);
      td_store_f64(l->dtype, &got, middle);
      assert_int_equal(got, bits % 2 ? bits + 1 : bits);
      td_store_f64(l->dtype, &got, -middle);
      assert_int_equal(got & (count - 1), bits % 2 ? bits + 1 : bits);
    }
  }
}

static void ends_of_the_ranges(void **state) {
  (void)state;
  assert_int_equal(td_f64_to_f16(65519.999), 0x7bff);
  assert_int_equal(td_f64_to_f16(65520), 0x7c00);
  assert_int_equal(td_f64_to_f16(-1e300), 0xfc00);
  assert_int_equal(td_f64_to_bf16(1e300), 0x7f80);
  assert_int_equal(td_f64_to_f8e4m3(1e300), 0x7e);
  assert_int_equal(td_f64_to_f8e4m3((double)-INFINITY), 0xfe);
  assert_int_equal(td_f64_to_f8e5m2(61440), 0x7b);
  assert_int_equal(td_f64_to_f16((double)NAN), TD_F16_NAN);
  assert_int_equal(td_f64_to_bf16((double)-NAN), TD_BF16_NAN);
  assert_int_equal(td_f64_to_f8e4m3((double)NAN), TD_F8E4M3_NAN);
  assert_int_equal(td_f64_to_f8e5m2((double)NAN), TD_F8E5M2_NAN);
  /* Through binary32 this would tie and fall to even. */
  assert_int_equal(td_f64_to_bf16(1.00390625 + 0x1p-40), 0x3f81);
  assert_int_equal(td_f64_to_bf16(1.00390625), 0x3f80);
  assert_true(td_f64_to_i64((double)NAN) == 0);
  assert_true(td_f64_to_i64(1e300) == INT64_MAX);
  assert_true(td_f64_to_i64(-1e300) == INT64_MIN);
  assert_true(td_f64_to_i64(-1.9) == -1);
  assert_true(td_round_tf32(1.0f + 0x1p-11f) == 1.0f);
  assert_true(td_round_tf32(1.0f + 0x1p-11f + 0x1p-23f) == 1.0f + 0x1p-10f);
  assert_true(isinf(td_round_tf32(0x1.fffffep127f)));
}

static void integer_stores(void **state) {
  (void)state;
  int8_t b;
  uint8_t u;
  int32_t w;
  uint16_t h;
  td_store_i64(TDSL_DTYPE_I8, &b, 1000);
  assert_int_equal(b, 127);
  td_store_i64(TDSL_DTYPE_U8, &u, -5);
  assert_int_equal(u, 0);
  td_store_f64(TDSL_DTYPE_U8, &u, 300.7);
  assert_int_equal(u, 255);
  td_store_i64(TDSL_DTYPE_I32, &w, (int64_t)1 << 40);
  assert_int_equal(w, INT32_MAX);
  td_store_wrap(TDSL_DTYPE_I32, &w, ((int64_t)1 << 40) + 5);
  assert_int_equal(w, 5);
  /* Exactly above a tie by an amount that binary64 cannot hold. */
  td_store_i64(TDSL_DTYPE_BF16, &h,
               ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1);
  assert_int_equal(h, 0x5d81);
  td_store_i64(TDSL_DTYPE_BF16, &h, ((int64_t)1 << 60) + ((int64_t)1 << 52));
  assert_int_equal(h, 0x5d80);
  double d;
  td_store_i64(TDSL_DTYPE_F64, &d, INT64_MIN);
  assert_true(d == -0x1p63);
  assert_true(td_floor_div(-7, 2) == -4 && td_floor_mod(-7, 2) == 1);
  assert_true(td_wrap_add(INT64_MAX, 1) == INT64_MIN);
}

/* -- the reference vectors -- */

static uint32_t hex(td_str_t text) {
  uint32_t v = 0;
  for (size_t i = 0; i < text.length; i++) {
    char c = text.data[i];
    v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return v;
}

static void check_cast(io_json_t *j, td_str_t key, float value) {
  unsigned char place[8] = {0};
  tdsl_dtype_t dtype = td_dtype_parse(key);
  assert_true(dtype != TDSL_DTYPE_UNSET);
  td_store_f64(dtype, place, (double)value);
  if (td_dtype_is_int(dtype)) {
    int64_t want;
    assert_true(io_json_int(j, &want));
    assert_true(td_load_i64(dtype, place) == want);
    return;
  }
  td_str_t want;
  uint16_t got;
  memcpy(&got, place, sizeof got);
  assert_true(io_json_text(j, &want));
  if (td_str_eqc(want, "nan")) {
    assert_true(isnan(td_load_f64(dtype, place)));
  } else {
    assert_int_equal(got, hex(want));
  }
}

TASK_TEST(casts_match_the_vectors) {
  (void)arg;
  io_json_t j;
  td_str_t key, text;
  int count = 0;
  io_json_begin(&j, task, &task->arena, 0,
                unit_file(task, "vectors/casts.json"));
  assert_true(io_json_object(&j));
  while (io_json_key(&j, &key)) {
    if (!td_str_eqc(key, "casts")) {
      io_json_skip(&j);
      continue;
    }
    assert_true(io_json_array(&j));
    while (io_json_item(&j)) {
      float value = 0;
      assert_true(io_json_object(&j));
      while (io_json_key(&j, &key)) {
        if (td_str_eqc(key, "f32")) { /* comes first */
          assert_true(io_json_text(&j, &text));
          value = td_f32_from_bits(hex(text));
        } else {
          check_cast(&j, key, value);
          count++;
        }
      }
    }
  }
  assert_true(io_json_end(&j));
  assert_int_equal(count, 115 * 7);
}

static void check_words(io_json_t *j) {
  uint32_t words[10], got[4];
  int n = 0;
  td_str_t key, text;
  assert_true(io_json_object(j));
  while (io_json_key(j, &key)) { /* counter, key, out, in this order */
    assert_true(io_json_array(j));
    while (io_json_item(j)) {
      assert_true(io_json_text(j, &text));
      words[n++] = hex(text);
    }
  }
  assert_int_equal(n, 10);
  td_philox(words, words + 4, got);
  assert_memory_equal(got, words + 6, sizeof got);
}

static void check_uniform(io_json_t *j) {
  int64_t seed = 0, counters[4];
  double value = 0;
  int n = 0;
  td_str_t key;
  assert_true(io_json_object(j));
  while (io_json_key(j, &key)) {
    if (td_str_eqc(key, "seed")) {
      assert_true(io_json_int(j, &seed));
    } else if (td_str_eqc(key, "value")) {
      assert_true(io_json_number(j, &value));
    } else {
      assert_true(io_json_array(j));
      while (io_json_item(j)) assert_true(io_json_int(j, &counters[n++]));
    }
  }
  assert_true((double)td_uniform(seed, counters, n) == value);
}

TASK_TEST(generator_matches_the_vectors) {
  (void)arg;
  io_json_t j;
  td_str_t key;
  int count = 0;
  io_json_begin(&j, task, &task->arena, 0,
                unit_file(task, "vectors/uniform.json"));
  assert_true(io_json_object(&j));
  while (io_json_key(&j, &key)) {
    bool words = td_str_eqc(key, "philox4x32_10");
    if (!words && !td_str_eqc(key, "uniform")) {
      io_json_skip(&j);
      continue;
    }
    assert_true(io_json_array(&j));
    while (io_json_item(&j)) {
      if (words) check_words(&j);
      else check_uniform(&j);
      count++;
    }
  }
  assert_true(io_json_end(&j));
  assert_int_equal(count, 24);
}

/* -- decimal text -- */

static void check_text(double value, const char *want) {
  char text[TD_F64_TEXT];
  assert_int_equal(td_format_f64(text, value), strlen(want));
  assert_string_equal(text, want);
}

static void texts_of_floats(void **state) {
  (void)state;
  char text[TD_F64_TEXT];
  check_text(0, "0");
  check_text(-0.0, "-0");
  check_text(0.1, "0.1");
  check_text(1, "1");
  check_text(-2.5, "-2.5");
  check_text(1e15, "1000000000000000");
  check_text(1e16, "1e+16");
  check_text(123456789012345680.0, "1.2345678901234568e+17");
  check_text(0.0001, "0.0001");
  check_text(0.00001, "1e-5");
  check_text(5e-324, "5e-324");
  check_text(2.2250738585072014e-308, "2.2250738585072014e-308");
  check_text(1.7976931348623157e308, "1.7976931348623157e+308");
  check_text(9007199254740993.0, "9007199254740992");
  check_text((double)INFINITY, "inf");
  check_text((double)-INFINITY, "-inf");
  check_text((double)NAN, "nan");
  td_format_f32(text, 0.1f);
  assert_string_equal(text, "0.1");
  td_format_f32(text, 16777216.0f);
  assert_string_equal(text, "16777216");
  td_format_f32(text, 1e-45f);
  assert_string_equal(text, "1e-45");
  td_format_f32(text, 3.4028235e38f);
  assert_string_equal(text, "3.4028235e+38");
}

static void check_value(const char *text, double want) {
  double got;
  assert_true(td_parse_f64(td_str(text), &got));
  assert_true(td_f64_bits(got) == td_f64_bits(want));
}

static void floats_from_text(void **state) {
  (void)state;
  check_value("1e400", (double)INFINITY);
  check_value("-1e400", (double)-INFINITY);
  check_value("1e-400", 0);
  check_value("2.4703282292062327e-324", 0);
  check_value("2.4703282292062328e-324", 0x1p-1074);
  /* Exactly between two values: to even, and the slightest more goes up. */
  check_value("9007199254740993", 9007199254740992.0);
  check_value("9007199254740993.0000000000000000000000000000001",
              9007199254740994.0);
  check_value("179769313486231580793728971405301e276", 0x1.fffffffffffffp1023);
  check_value("0.000000000000000000000000000000000000000000000123e45", 0.123);
  check_value("0x1.8p3", 12);
  check_value("0x1.fffffffffffff8p0", 2);
  check_value("-0x1p-1074", -0x1p-1074);
  char digits[1200];
  memset(digits, '0', sizeof digits - 1);
  digits[sizeof digits - 1] = 0;
  digits[0] = '1';
  digits[1] = '.';
  check_value(digits, 1);
  digits[sizeof digits - 2] = '1';
  check_value(digits, 1);
  double value;
  static const char *const bad[] = {"",   ".5", "1.",  "1e",   "1e+", "0x",
                                    "+1", "--1", "1,5", "1 ",  " 1",  "Inf",
                                    "-nan", "1e5.0", "0x1p", "0x.p1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(td_parse_f64(td_str(bad[i]), &value));
  }
  float narrow;
  /* Through binary64 this would round twice. */
  assert_true(td_parse_f32(td_str("1.00000017881393432617187499"), &narrow));
  assert_true(narrow == 0x1.000002p0f);
  assert_true(td_parse_f32(td_str("1.00000017881393432617187501"), &narrow));
  assert_true(narrow == 0x1.000004p0f);
  int64_t i;
  assert_true(td_parse_i64(td_str("-9223372036854775808"), &i));
  assert_true(i == INT64_MIN);
  assert_false(td_parse_i64(td_str("9223372036854775808"), &i));
  assert_false(td_parse_i64(td_str("-"), &i));
  assert_false(td_parse_i64(td_str("1.0"), &i));
}

/* libc's own conversion, in the C locale and the default rounding mode, is
   the independent judge. */
static void text_and_value_agree_with_libc(void **state) {
  (void)state;
  uint32_t counter[4] = {0}, key[2] = {7, 9}, words[4];
  for (uint32_t i = 0; i < 200000; i++) {
    counter[0] = i;
    td_philox(counter, key, words);
    uint64_t bits = (uint64_t)words[0] << 32 | words[1];
    double value = td_f64_from_bits(bits);
    if (!isfinite(value)) continue;
    if (i % 2) value = (double)(int32_t)words[2] / 65536.0;
    char text[TD_F64_TEXT];
    size_t length = td_format_f64(text, value);
    double back;
    assert_true(td_parse_f64(td_str_n(text, length), &back));
    assert_true(td_f64_bits(back) == td_f64_bits(value));
    assert_true(td_f64_bits(strtod(text, NULL)) == td_f64_bits(value));
    char more[64]; /* 17 digits always suffice; ours are never more */
    snprintf(more, sizeof more, "%.16e", value);
    assert_true(td_parse_f64(td_str(more), &back));
    assert_true(td_f64_bits(back) == td_f64_bits(value));
    float narrow = td_f32_from_bits(words[3]);
    if (!isfinite(narrow)) continue;
    length = td_format_f32(text, narrow);
    float narrow_back;
    assert_true(td_parse_f32(td_str_n(text, length), &narrow_back));
    assert_true(td_f32_bits(narrow_back) == td_f32_bits(narrow));
    assert_true(td_f32_bits(strtof(text, NULL)) == td_f32_bits(narrow));
  }
}

static void no_locale_changes_a_number(void **state) {
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "tr_TR.UTF-8"};
  bool any = false;
  for (int i = 0; i < 2; i++) {
    if (!setlocale(LC_ALL, names[i])) continue;
    any = true;
    check_text(1234.5, "1234.5");
    check_value("1234.5", 1234.5);
  }
  setlocale(LC_ALL, "C");
  if (!any) skip(); /* neither locale is installed */
}

static void distances(void **state) {
  (void)state;
  assert_int_equal(td_ulp_distance(TDSL_DTYPE_F32, 1, 1 + 0x1p-23), 1);
  assert_int_equal(td_ulp_distance(TDSL_DTYPE_F32, -0.0, 0), 0);
  assert_int_equal(td_ulp_distance(TDSL_DTYPE_F32, -0x1p-149, 0x1p-149), 2);
  assert_int_equal(td_ulp_distance(TDSL_DTYPE_BF16, 1, 2), 128);
  assert_int_equal(td_ulp_distance(TDSL_DTYPE_F64, (double)NAN, (double)NAN),
                   0);
  assert_true(td_ulp_distance(TDSL_DTYPE_F64, 1, (double)NAN) == UINT64_MAX);
  assert_int_equal(td_ulp_distance(TDSL_DTYPE_I32, -3, 4), 7);
}

static void names_and_sizes(void **state) {
  (void)state;
  static const size_t bytes[] = {0, 8, 4, 2, 2, 1, 1, 8, 4, 1, 1, 1};
  for (int i = 1; i <= TDSL_DTYPE_BOOL; i++) {
    tdsl_dtype_t d = (tdsl_dtype_t)i;
    assert_int_equal(td_dtype_bytes(d), bytes[i]);
    assert_int_equal(td_dtype_parse(td_str(td_dtype_name(d))), d);
  }
  assert_int_equal(td_dtype_parse(td_str("tf32")), TDSL_DTYPE_UNSET);
  assert_int_equal(td_dtype_parse(td_str("unset")), TDSL_DTYPE_UNSET);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pattern_widens),
      cmocka_unit_test(rounding_is_to_nearest_even_once),
      cmocka_unit_test(ends_of_the_ranges),
      cmocka_unit_test(integer_stores),
      cmocka_unit_test(casts_match_the_vectors),
      cmocka_unit_test(generator_matches_the_vectors),
      cmocka_unit_test(texts_of_floats),
      cmocka_unit_test(floats_from_text),
      cmocka_unit_test(text_and_value_agree_with_libc),
      cmocka_unit_test(no_locale_changes_a_number),
      cmocka_unit_test(distances),
      cmocka_unit_test(names_and_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
