/* kir_text.c: the tables behind kir_text.h, made from kir_ops.def. */
#include "ir/kir_text.h"

typedef struct scalar_row {
  const char *text;
  int arity;
  kir_class_t class_of;
} scalar_row_t;

static const scalar_row_t scalar_rows[] = {
#define KIR_SCALAR(id, text, arity, class, sentence)                          \
  {text, arity, KIR_CLASS_##class},
#include "ir/kir_ops.def"
};

static const char *const kind_rows[] = {
#define KIR_STMT(id, text, sentence) text,
#include "ir/kir_ops.def"
};

typedef struct infix_row {
  const char *text;
  int level;
  kir_x_t op;
} infix_row_t;

static const infix_row_t infix_rows[] = {
    {"or", 1, KIR_X_OR},  {"and", 2, KIR_X_AND}, {"==", 3, KIR_X_EQ},
    {"!=", 3, KIR_X_NE},  {"<", 3, KIR_X_LT},    {"<=", 3, KIR_X_LE},
    {">", 3, KIR_X_GT},   {">=", 3, KIR_X_GE},   {"+", 4, KIR_X_ADD},
    {"-", 4, KIR_X_SUB},  {"*", 5, KIR_X_MUL},   {"/", 5, KIR_X_DIV},
    {"%", 5, KIR_X_MOD},
};

/* ORDER KIR: the rows follow kir_space_t and kir_loop_t. */
static const char *const space_rows[] = {"global", "local", "shared",
                                         "register"};
static const char *const loop_rows[] = {"loop.block", "loop.serial",
                                        "loop.unroll", "loop.lane",
                                        "loop.warp"};
_Static_assert(sizeof space_rows / sizeof space_rows[0] == KIR_REGISTER + 1,
               "one word a space");
_Static_assert(sizeof loop_rows / sizeof loop_rows[0] == KIR_LOOP_WARP + 1,
               "one word a loop");

const char *kir_x_text(kir_x_t op) {
  return op < KIR_X_COUNT ? scalar_rows[op].text : "?";
}

int kir_x_arity(kir_x_t op) {
  return op < KIR_X_COUNT ? scalar_rows[op].arity : 0;
}

kir_class_t kir_x_class(kir_x_t op) {
  return op < KIR_X_COUNT ? scalar_rows[op].class_of : KIR_CLASS_leaf;
}

/* Few enough rows to be looked through. */
const char *kir_x_infix(kir_x_t op, int *out_level) {
  for (size_t i = 0; i < sizeof infix_rows / sizeof infix_rows[0]; i++) {
    if (infix_rows[i].op != op) continue;
    *out_level = infix_rows[i].level;
    return infix_rows[i].text;
  }
  return NULL;
}

bool kir_x_find_infix(td_str_t text, kir_x_t *out) {
  for (size_t i = 0; i < sizeof infix_rows / sizeof infix_rows[0]; i++) {
    if (!td_str_eqc(text, infix_rows[i].text)) continue;
    *out = infix_rows[i].op;
    return true;
  }
  return false;
}

const char *kir_kind_text(kir_kind_t kind) {
  return kind < KIR_KIND_COUNT ? kind_rows[kind] : "?";
}

const char *kir_space_text(kir_space_t space) {
  return space <= KIR_REGISTER ? space_rows[space] : "?";
}

const char *kir_loop_text(kir_loop_t loop) {
  return loop <= KIR_LOOP_WARP ? loop_rows[loop] : "?";
}

const char *kir_symbol_text(ix_symbol_kind_t kind) {
  switch (kind) {
    case IX_SYM_STATIC: return "static";
    case IX_SYM_DYN: return "dyn";
    case IX_SYM_GENERIC: return "generic";
    case IX_SYM_INDEX: return "index";
    case IX_SYM_LOOP: return "loop";
    case IX_SYM_DATA: return "data";
  }
  return "?";
}

bool kir_is_reserved(td_str_t word) {
  static const char *const words[] = {
      "inf",   "nan",  "true", "false", "in",   "out",  "inout", "dims",
      "where", "step", "safe", "and",   "or",   "let",  "if",    "else",
      "alloc", "note", "card", "min",   "max",  "alias", "copy",  "barrier",
      "transpose", "prefetch", "of", "swizzled", "stream"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (td_str_eqc(word, words[i])) return true;
  }
  return td_str_starts(word, "loop.") || td_str_starts(word, "fold.") ||
         td_str_starts(word, "copy.");
}

/* Nodes of e as a tree, counted up to a limit: a deep tree is never walked
 * further than that. */
static uint32_t weigh(const kir_expr_t *e, uint32_t limit, bool with_loads) {
  uint32_t weight = 1;
  if (e->op == KIR_X_LOAD ? !with_loads
                          : e->arg_count > 0 && e->op != KIR_X_ADD &&
                                e->op != KIR_X_SUB && e->op != KIR_X_MUL) {
    return limit + 1;
  }
  for (uint32_t i = 0; i < e->arg_count && weight <= limit; i++) {
    weight += weigh(e->args[i], limit - weight, false);
  }
  return weight;
}

/* Small expressions have small parts only, so that printing them twice never
 * hides sharing from the reader of the text. */
bool kir_is_small(const kir_expr_t *e) {
  enum { INDEX_WEIGHT = 5, LOAD_WEIGHT = 12 };
  uint32_t limit = e->op == KIR_X_LOAD ? LOAD_WEIGHT : INDEX_WEIGHT;
  return e->op != KIR_X_FOLD && weigh(e, limit, true) <= limit;
}
