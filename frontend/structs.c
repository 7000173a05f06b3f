/* structs.c: structs with their generics put in.
 *
 * A struct is made once for each mention with other arguments (a map from
 * declaration, argument polys and `as` dtype), so nested mentions share.  It
 * outlives the function that mentions it, so its dims have the facts
 * restored; sem_type_apply puts in those of the function. */
#include "frontend/check.h"

enum { MAX_STRUCT_DEPTH = 255, MAX_LEAVES = 65536 };

typedef struct scope_save {
  td_map_t scope;
  sem_entry_t **data;
  size_t length, capacity;
  sem_module_t *module;
} scope_save_t;

/* A struct is read in the terms of its own file: no name of the function
 * that mentions it is visible. */
static void enter_scope(sem_ctx_t *c, scope_save_t *save, sem_module_t *m) {
  save->scope = c->scope;
  save->data = c->stack.data;
  save->length = c->stack.length;
  save->capacity = c->stack.capacity;
  save->module = c->module;
  td_map_init(&c->scope, c->arena);
  c->stack.data = NULL;
  c->stack.length = c->stack.capacity = 0;
  c->module = m;
}

/* Back to the names of the mention. */
static void leave_scope(sem_ctx_t *c, const scope_save_t *save) {
  c->scope = save->scope;
  c->stack.data = save->data;
  c->stack.length = save->length;
  c->stack.capacity = save->capacity;
  c->module = save->module;
}

/* Leaf counts double at each level of a hostile text; they stop just past
 * the limit. */
static uint64_t add_saturating(uint64_t a, uint64_t b) {
  return a + b > MAX_LEAVES ? MAX_LEAVES + 1 : a + b;
}

/* `else` makes two fields one tensor, so they must agree in everything. */
static bool same_field_type(sem_ctx_t *c, const sem_type_t *a,
                            const sem_type_t *b) {
  const char *where = NULL;
  if (a->kind != b->kind || a->dtype != b->dtype) return false;
  if (sem_differing_dim(c, a, b) != (int)a->rank) return false;
  return a->kind == SEM_TENSOR ||
         sem_same_structure(c, a->record, b->record, &where);
}

/* Resolved behind all fields, since it may name a later one. */
static bool read_else(sem_ctx_t *c, sem_struct_t *s, uint32_t i,
                      const ast_field_t *f) {
  for (uint32_t k = 0; k < s->field_count; k++) {
    if (strcmp(s->fields[k].name, f->other.text) != 0) continue;
    if (k == i) break;
    if (!same_field_type(c, &s->fields[i].type, &s->fields[k].type)) {
      td_diag_t *d = sem_report(
          c, TD_E06, f->other.loc, "%s is %s, but %s is %s", f->name.text,
          sem_type_text(c, &s->fields[i].type), f->other.text,
          sem_type_text(c, &s->fields[k].type));
      td_diag_label(d, s->fields[k].loc, "%s is declared here",
                    f->other.text);
      td_diag_help(d, "a field may stand for another one of equal type only");
      return false;
    }
    s->fields[i].else_field = (int32_t)k;
    return true;
  }
  td_diag_t *d = sem_report(c, TD_E01, f->other.loc,
                            "struct %s has no other field %s", s->name,
                            f->other.text);
  td_nearest_t n = td_nearest_start(td_str(f->other.text));
  for (uint32_t k = 0; k < s->field_count; k++) {
    if (k != i) td_nearest_offer(&n, td_str(s->fields[k].name));
  }
  if (n.best.data != NULL) {
    td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(n.best));
  }
  return false;
}

/* Fields have a space of names for each struct. */
static bool is_repeated(sem_ctx_t *c, const ast_decl_t *decl, size_t i) {
  for (size_t k = 0; k < i; k++) {
    if (decl->fields[k].name.text != decl->fields[i].name.text) continue;
    td_diag_t *d = sem_report(c, TD_E10, decl->fields[i].name.loc,
                              "field %s is already defined at %s",
                              decl->fields[i].name.text,
                              sem_line(c, decl->fields[k].name.loc));
    td_diag_label(d, decl->fields[k].name.loc, "%s is declared here",
                  decl->fields[i].name.text);
    return true;
  }
  return false;
}

/* All fields are read even after a fault: faults of several are independent. */
static bool read_fields(sem_ctx_t *c, const ast_decl_t *decl,
                        sem_struct_t *s) {
  bool ok = true;
  s->fields = TD_NEW_ARRAY(c->arena, sem_field_t, decl->field_count);
  for (size_t i = 0; i < decl->field_count; i++) {
    const ast_field_t *f = &decl->fields[i];
    sem_field_t *field = &s->fields[s->field_count++];
    field->name = td_arena_strdup(c->arena, f->name.text);
    field->loc = f->name.loc;
    field->else_field = -1;
    if (f->from != NULL) field->from = td_arena_strdup(c->arena, f->from);
    ok = !is_repeated(c, decl, i) && ok;
    if (f->type == NULL || !sem_read_type(c, f->type, &field->type)) {
      ok = false;
      continue;
    }
    sem_restore_type(c, &field->type);
    bool nested = field->type.kind == SEM_STRUCT;
    s->leaf_count = (uint32_t)add_saturating(
        s->leaf_count, nested ? field->type.record->leaf_count : 1);
    uint32_t rank =
        field->type.rank + (nested ? field->type.record->leaf_rank : 0);
    if (rank > s->leaf_rank) s->leaf_rank = rank;
  }
  if (!ok) return false;
  if (s->leaf_count > MAX_LEAVES) {
    sem_report(c, TD_L04, decl->name.loc, "struct %s has more than %d leaves",
               s->name, MAX_LEAVES);
    return false;
  }
  for (size_t i = 0; i < decl->field_count; i++) {
    if (decl->fields[i].other.text == NULL) continue;
    ok = read_else(c, s, (uint32_t)i, &decl->fields[i]) && ok;
  }
  return ok;
}

/* The state of the declaration finds a struct inside itself, through any
 * chain of others and whatever its generics. */
static const sem_struct_t *make_struct(sem_ctx_t *c, sem_record_t *record,
                                       const ix_poly_t *const *args) {
  const ast_decl_t *decl = record->decl;
  if (record->state == SEM_BUSY) {
    td_diag_t *d = sem_report(c, TD_E34, decl->name.loc,
                              "struct %s contains itself", record->name);
    td_diag_help(d, "structs nest, but not recursively: a stack "
                 "`[L] Block` repeats one");
    record->failed = true;
    return NULL;
  }
  if (c->struct_depth >= MAX_STRUCT_DEPTH) {
    sem_report(c, TD_L04, decl->name.loc, "structs nest deeper than %d",
               MAX_STRUCT_DEPTH);
    return NULL;
  }
  scope_save_t save;
  enter_scope(c, &save, record->module);
  record->state = SEM_BUSY;
  c->struct_depth++;
  sem_struct_t *s = TD_NEW(c->arena, sem_struct_t);
  s->name = record->name;
  s->syntax = decl;
  s->loc = decl->name.loc;
  bool ok = true;
  for (size_t i = 0; i < decl->generic_count; i++) {
    const ast_generic_t *g = &decl->generics[i];
    if (g->is_pack || g->what.text != NULL) {
      sem_report(c, TD_E47, g->loc, "the generics of a struct are dims");
      ok = false;
      continue;
    }
    sem_entry_t *e = sem_declare(c, SEM_ENTRY_GENERIC, g->name, false);
    if (e == NULL) {
      ok = false;
    } else {
      e->poly = args[i];
    }
  }
  ok = ok && read_fields(c, decl, s);
  c->struct_depth--;
  record->state = SEM_DONE;
  leave_scope(c, &save);
  if (!ok) record->failed = true;
  return ok ? s : NULL;
}

/* The key is the declaration and the polys of its arguments; polys are hash-
 * consed, so their addresses are their identity. */
static const sem_struct_t *find_struct(sem_ctx_t *c, sem_record_t *record,
                                       const ix_poly_t *const *args,
                                       size_t count) {
  td_buf_t key;
  td_buf_init(&key, c->task);
  td_buf_put(&key, (const char *)&record, sizeof record);
  for (size_t i = 0; i < count; i++) {
    td_buf_put(&key, (const char *)&args[i], sizeof args[i]);
  }
  sem_struct_t *s = td_map_get(&c->structs, td_buf_view(&key));
  if (s == NULL && !record->failed) {
    ix_facts_t *facts = c->facts;
    c->facts = c->base_facts;
    s = (sem_struct_t *)(uintptr_t)make_struct(c, record, args);
    c->facts = facts;
    if (s != NULL) td_map_put(&c->structs, td_buf_view(&key), s);
  }
  td_buf_free(&key);
  return s;
}

/* Symbols stand for the generics; what its dims would need of them is for
 * each mention to show. */
void sem_check_record(sem_ctx_t *c, sem_record_t *record) {
  size_t count = record->decl->generic_count;
  if (record->state != SEM_NEW || record->failed) return;
  const ix_poly_t **args = TD_NEW_ARRAY(c->arena, const ix_poly_t *, count);
  for (size_t i = 0; i < count; i++) {
    ast_name_t name = record->decl->generics[i].name;
    args[i] = ix_sym(c->pool, ix_symbol_create(c->pool, name.text,
                                               IX_SYM_GENERIC, name.loc));
  }
  /* What its dims need of the generics is for its mentions to show. */
  c->unproved++;
  find_struct(c, record, args, count);
  c->unproved--;
}

/* Arguments are restored first: a struct outlives the facts of the function
 * that mentions it. */
bool sem_read_record(sem_ctx_t *c, const ast_type_t *t, sem_record_t *record,
                     sem_type_t *out) {
  if (record->failed) return false;
  size_t wanted = record->decl->generic_count;
  out->kind = SEM_STRUCT;
  if (t->dim_count != wanted) {
    td_diag_t *d = sem_report(c, TD_E47, t->loc,
                              "struct %s has %zu generics, %zu given",
                              record->name, wanted, t->dim_count);
    td_diag_label(d, record->decl->name.loc, "%s is declared here",
                  record->name);
    return false;
  }
  const ix_poly_t **args = TD_NEW_ARRAY(c->arena, const ix_poly_t *, wanted);
  bool ok = true;
  for (size_t i = 0; i < wanted; i++) {
    if (t->dims[i].expr == NULL) {
      sem_report(c, TD_E47, t->dims[i].loc, "the generics of a struct are "
                 "dims, a pack is several");
      return false;
    }
    args[i] = sem_dim_expr(c, t->dims[i].expr, "dim");
    ok = args[i] != NULL && ok;
    if (ok) args[i] = ix_restore_facts(c->pool, args[i], c->facts);
  }
  if (!ok) return false;
  out->record = find_struct(c, record, args, wanted);
  return out->record != NULL;
}

/* dtype UNSET: of the derivative, each float leaf in its arithmetic type. */
const sem_struct_t *sem_struct_as(sem_ctx_t *c, const sem_struct_t *s,
                                  tdsl_dtype_t dtype) {
  td_buf_t key;
  td_buf_init(&key, c->task);
  td_buf_puts(&key, "as");
  td_buf_put(&key, (const char *)&s, sizeof s);
  td_buf_put(&key, (const char *)&dtype, sizeof dtype);
  sem_struct_t *copy = td_map_get(&c->structs, td_buf_view(&key));
  if (copy == NULL) {
    copy = TD_NEW(c->arena, sem_struct_t);
    *copy = *s;
    copy->fields = TD_NEW_ARRAY(c->arena, sem_field_t, s->field_count);
    for (uint32_t i = 0; i < s->field_count; i++) {
      sem_type_t *type = &copy->fields[i].type;
      copy->fields[i] = s->fields[i];
      if (type->kind == SEM_STRUCT) {
        type->record = sem_struct_as(c, type->record, dtype);
        type->dtype = dtype;
      } else if (td_dtype_is_float(type->dtype)) {
        type->dtype = dtype != TDSL_DTYPE_UNSET ? dtype
                                                : sem_arithmetic(type->dtype);
      } else if (dtype == TDSL_DTYPE_UNSET) {
        type->lo = type->hi = NULL;
      }
    }
    td_map_put(&c->structs, td_buf_view(&key), copy);
  }
  td_buf_free(&key);
  return copy;
}

/* Of a bf16 leaf the derivative is f32: it is accumulated, and the leaf is
 * not. */
const sem_struct_t *sem_struct_gradient(sem_ctx_t *c, const sem_struct_t *s) {
  return sem_struct_as(c, s, TDSL_DTYPE_UNSET);
}
