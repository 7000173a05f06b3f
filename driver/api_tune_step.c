/* api_tune_step.c: which sizes the search tries, one change after another. */
#include "driver/api_tuning.h"

/* ---- the CPU: the micro-kernel, then blocks around it -------------------- */

enum { CPU_STEPS = 10 };

static uint32_t round_to(uint32_t value, uint32_t unit) {
  uint32_t r = (value + unit / 2) / unit * unit;
  return r < unit ? unit : r;
}

/* Rows of the micro-kernel that fit beside `wide` registers of columns. */
static uint32_t most_rows(const ir_target_t *target, uint32_t wide) {
  return (target->registers - 1 - wide) / wide;
}

static void set_micro(const ir_target_t *target, uint32_t wide,
                      pass_sizes_t *s) {
  s->nr = wide * target->lanes;
  s->mr = most_rows(target, wide);
  s->mc = round_to(s->mc, s->mr);
  s->nc = round_to(s->nc, s->nr);
}

static void change_cpu(const ir_target_t *target, uint32_t step,
                       pass_sizes_t *s) {
  switch (step) {
    case 0: case 1: case 2: case 3: set_micro(target, step + 1, s); break;
    case 4: s->kc = round_to(s->kc / 2, 16); break;
    case 5: s->kc *= 2; break;
    case 6: s->nc = round_to(s->nc / 2, s->nr); break;
    case 7: s->nc = round_to(s->nc * 2, s->nr); break;
    case 8: s->mc = round_to(s->mc / 2, s->mr); break;
    default: s->mc = round_to(s->mc * 2, s->mr); break;
  }
}

/* ---- a GPU: the tile, then what is around it ----------------------------- */

static uint32_t tile_count(void) {
  pass_sizes_t s = {0};
  uint32_t n = 0;
  while (pass_product_tile(n, &s)) n++;
  return n;
}

/* Splits decide how many blocks a tile has, so they come first, and again
 * behind the tiles. */
static const pass_sizes_t others[] = {
    {.splits = 1 + PASS_SPLITS_ALL}, {.splits = 1 + PASS_SPLITS_OFF},
    {.kc = 16}, {.kc = 32}, {.stages = 2}, {.stages = 3}, {.stages = 4},
};
enum { OTHERS = sizeof others / sizeof others[0], SPLITS = 2 };

static void change_gpu(uint32_t step, pass_sizes_t *s) {
  uint32_t tiles = tile_count();
  bool is_tile = step >= SPLITS && step < SPLITS + tiles;
  if (is_tile) {
    (void)pass_product_tile(step - SPLITS, s);
    return;
  }
  const pass_sizes_t *o =
      &others[step < SPLITS ? step : step - SPLITS - tiles];
  if (o->splits > 0) s->splits = o->splits;
  if (o->kc > 0) s->kc = o->kc;
  if (o->stages > 0) s->stages = o->stages;
}

/* ---- either -------------------------------------------------------------- */

uint32_t drv_tune_steps(const ir_target_t *target) {
  return target->sm > 0 ? SPLITS + tile_count() + OTHERS : CPU_STEPS;
}

pass_sizes_t drv_tune_first(const ir_target_t *target) {
  pass_sizes_t none = {0};
  if (target->sm > 0) return none;
  return (pass_sizes_t){.mr = target->mr, .nr = target->nr, .mc = target->mc,
                        .nc = target->nc, .kc = target->kc};
}

bool drv_tune_change(const ir_target_t *target, uint32_t step,
                     pass_sizes_t *s) {
  pass_sizes_t old = *s;
  if (target->sm > 0) change_gpu(step, s);
  else change_cpu(target, step, s);
  return memcmp(&old, s, sizeof old) != 0 && drv_sizes_fit(target, s);
}

/* Of a GPU only what was asked for has a number. */
static void put_gpu(td_buf_t *out, const pass_sizes_t *s) {
  const char *comma = "";
  if (s->mc > 0) {
    td_buf_printf(out, "%ux%u", s->mc, s->nc);
    comma = ", ";
  }
  if (s->kc > 0) {
    td_buf_printf(out, "%sdepth %u", comma, s->kc);
    comma = ", ";
  }
  if (s->stages > 0) {
    td_buf_printf(out, "%s%u stages", comma, s->stages);
    comma = ", ";
  }
  if (s->splits > 0) {
    td_buf_printf(out, "%ssplits %s", comma, drv_splits_name(s->splits));
    comma = ", ";
  }
  if (comma[0] == '\0') td_buf_puts(out, "by rule");
}

void drv_tune_print(td_buf_t *out, const ir_target_t *target,
                    const pass_sizes_t *s) {
  if (target->sm > 0) {
    put_gpu(out, s);
    return;
  }
  td_buf_printf(out, "%ux%u, blocks %u x %u x %u", s->mr, s->nr, s->mc, s->nc,
                s->kc);
}
