/* tdsl.y: tokens -> syntax tree.  LALR(1) without conflicts; the checker,
 * not the grammar, sees to it that left sides are places, that `:` and marks
 * stand where they may, and that texts stand where texts may.
 *
 * Recovery is at the end of a statement, field or declaration.  newline.c
 * decides where that is; an error makes it skip (ast_filter_recover), and
 * yyerrok lets the next error be reported at once.
 *
 * Locations come from the tokens: the look-ahead of the newline rule makes
 * "the current line" one too late. */
%require "3.8"
%define api.pure full
%define api.prefix {ast_yy}
%define api.token.prefix {TOK_}
%define api.location.type {td_loc_t}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {ast_parser_t *p}

%code requires {
#include "frontend/build.h"
}

%code {
static int ast_yylex(YYSTYPE *value, td_loc_t *loc, ast_parser_t *p);
static void ast_yyerror(td_loc_t *loc, ast_parser_t *p, const char *text);
static void grow_stack(ast_parser_t *p, void **states, size_t state_bytes,
                       void **values, size_t value_bytes, void **locs,
                       size_t loc_bytes, ptrdiff_t *capacity);

/* From the first symbol to the last; an empty rule is a point. */
#define YYLLOC_DEFAULT(Current, Rhs, N)                                      \
  ((Current) = (N) ? td_loc_join(YYRHSLOC(Rhs, 1), YYRHSLOC(Rhs, N))         \
                   : ast_loc_end(YYRHSLOC(Rhs, 0)))

/* The stacks grow in the arena, so unwinding leaks nothing; the exploring
 * stack of LAC never outgrows its first array in this grammar. */
#define yyoverflow(text, states, state_bytes, values, value_bytes, locs,     \
                   loc_bytes, capacity)                                      \
  grow_stack(p, (void **)(states), (size_t)(state_bytes),                    \
             (void **)(values), (size_t)(value_bytes), (void **)(locs),      \
             (size_t)(loc_bytes), (capacity))
#define YYSTACK_ALLOC(bytes) ((void)(bytes), NULL)

/* Far above what 255 open brackets can need. */
#define YYMAXDEPTH 20000

/* A constructor refuses (NULL) what is nested too deeply, with L04 given. */
#define TAKE(to, from)                                                       \
  do {                                                                       \
    (to) = (from);                                                           \
    if (!(to)) {                                                             \
      ast_filter_recover(p);                                                 \
      YYERROR;                                                               \
    }                                                                        \
  } while (0)

/* One value as a list of its own, and a list longer by one. */
#define ONE(type, item) ast_list_add(p, ast_list(p, sizeof(type)), &(item))
#define MORE(list, item) ast_list_add(p, (list), &(item))
}

%union {
  const char *text;
  int code;
  ast_expr_t *expr;
  ast_stmt_t *stmt;
  ast_decl_t *decl;
  ast_block_t *block;
  ast_type_t *type;
  ast_range_t *range;
  ast_shard_t *shard;
  ast_list_t *list;
  ast_dim_t *dim;
  ast_sub_t *sub;
  ast_arg_t *arg;
  ast_attr_t *attr;
  ast_lhs_t *lhs;
  ast_binder_t *binder;
  ast_item_t *item;
  ast_field_t *field;
  ast_generic_t *generic;
  ast_param_t *param;
  ast_sub_list_t *subs;
}

%token <text> IDENT NUM STR DTYPE
%token <code> LIT REDUCE
%token IMPORT "import" DIM "dim" DYN "dyn" CONST "const" REQUIRE "require"
%token ASSERT "assert" MESH "mesh" STRUCT "struct" FN "fn" EXPORT "export"
%token FOR "for" IN "in" EACH "each" VAR "var" IF "if" THEN "then"
%token ELSE "else" AND "and" OR "or" NOT "not" WHERE "where" WITH "with"
%token FROM "from" INOUT "inout" AS "as" PARTIAL "partial"
%token CHECKPOINT "checkpoint" NL "end of line" ASSIGN ":=" ADDEQ "+="
%token ARROW "->" EQ "==" NE "!=" LE "<=" GE ">=" ELLIPSIS "..." DOTDOT ".."

%precedence ELSE
%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' '>' LE GE
%left '+' '-'
%precedence RED
%left '*' '/' '%'
%precedence NEG
%right '^'

%type <decl> decl result
%type <list> names_opt idents dimdefs dyndefs constdefs axes generics
%type <list> genlist fields from_opt params paramlist stacks dims dimlist
%type <list> suffixes results with_opt attrs stmts lhss exprs idxs binders
%type <list> args arglist
%type <item> dimdef dyndef constdef axis
%type <generic> generic
%type <field> field
%type <param> param
%type <type> type
%type <text> elem
%type <dim> dim
%type <shard> shard
%type <attr> attr
%type <block> body
%type <stmt> stmt
%type <lhs> lhs
%type <range> range
%type <expr> expr post where_opt
%type <subs> sub
%type <sub> idx
%type <binder> binder
%type <arg> arg

%%

file:
    decls
  ;
decls:
    %empty
  | decls decl NL         { td_vec_push(p->arena, &p->decls, $2); }
  | decls NL
  | decls error NL        { yyerrok; }
  ;
decl:
    IMPORT IDENT names_opt
      { $$ = ast_import(p, @$, NAME($2, @2), $3); }
  | DIM dimdefs           { $$ = ast_items(p, AST_DECL_DIM, @$, $2); }
  | DYN dyndefs           { $$ = ast_items(p, AST_DECL_DYN, @$, $2); }
  | CONST constdefs       { $$ = ast_items(p, AST_DECL_CONST, @$, $2); }
  | REQUIRE exprs         { $$ = ast_facts(p, @$, $2); }
  | MESH '(' axes ')'     { $$ = ast_items(p, AST_DECL_MESH, @$, $3); }
  | STRUCT IDENT generics '{' fields '}'
      { $$ = ast_struct(p, @$, NAME($2, @2), $3, $5); }
  | FN IDENT generics '(' params ')' result
      { $$ = ast_fn(p, $7, @$, false, NAME($2, @2), $3, $5); }
  | EXPORT FN IDENT generics '(' params ')' result
      { $$ = ast_fn(p, $8, @$, true, NAME($3, @3), $4, $6); }
  ;
names_opt:
    %empty                { $$ = NULL; }
  | '(' idents ')'        { $$ = $2; }
  ;
idents:
    IDENT                 { ast_name_t n = NAME($1, @1);
                            $$ = ONE(ast_name_t, n); }
  | idents ',' IDENT      { ast_name_t n = NAME($3, @3); $$ = MORE($1, n); }
  ;
dimdefs:
    dimdef                { $$ = ONE(ast_item_t, *$1); }
  | dimdefs ',' dimdef    { $$ = MORE($1, *$3); }
  ;
dimdef:
    IDENT                 { $$ = ast_item(p, @$, NAME($1, @1), NULL); }
  | IDENT '=' expr        { $$ = ast_item(p, @$, NAME($1, @1), $3); }
  ;
dyndefs:
    dyndef                { $$ = ONE(ast_item_t, *$1); }
  | dyndefs ',' dyndef    { $$ = MORE($1, *$3); }
  ;
dyndef:
    IDENT LE expr         { $$ = ast_item(p, @$, NAME($1, @1), $3); }
  ;
constdefs:
    constdef                { $$ = ONE(ast_item_t, *$1); }
  | constdefs ',' constdef  { $$ = MORE($1, *$3); }
  ;
constdef:
    IDENT '=' expr        { $$ = ast_item(p, @$, NAME($1, @1), $3); }
  ;
axes:
    axis                  { $$ = ONE(ast_item_t, *$1); }
  | axes ',' axis         { $$ = MORE($1, *$3); }
  ;
axis:
    IDENT                 { $$ = ast_item(p, @$, NAME($1, @1), NULL); }
  | IDENT '=' expr        { $$ = ast_item(p, @$, NAME($1, @1), $3); }
  ;
generics:
    %empty                { $$ = NULL; }
  | '[' genlist ']'       { $$ = $2; }
  ;
genlist:
    generic               { $$ = ONE(ast_generic_t, *$1); }
  | genlist ',' generic   { $$ = MORE($1, *$3); }
  ;
generic:
    IDENT
      { $$ = ast_generic(p, @$, false, NAME($1, @1), NO_NAME); }
  | ELLIPSIS IDENT
      { $$ = ast_generic(p, @$, true, NAME($2, @2), NO_NAME); }
  | IDENT ':' IDENT
      { $$ = ast_generic(p, @$, false, NAME($1, @1), NAME($3, @3)); }
  ;
fields:
    %empty                { $$ = ast_list(p, sizeof(ast_field_t)); }
  | fields field NL       { $$ = MORE($1, *$2); }
  | fields NL
  | fields error NL       { yyerrok; }
  ;
field:
    IDENT ':' type from_opt
      { $$ = ast_field(p, @$, NAME($1, @1), $3, $4); }
  ;
from_opt:
    %empty                { $$ = NULL; }
  | FROM STR              { ast_name_t n = NAME($2, @2);
                            $$ = ONE(ast_name_t, n); }
  | FROM STR ELSE IDENT   { ast_name_t n = NAME($2, @2);
                            $$ = ONE(ast_name_t, n);
                            n = NAME($4, @4); $$ = MORE($$, n); }
  ;
params:
    %empty                { $$ = NULL; }
  | paramlist
  ;
paramlist:
    param                 { $$ = ONE(ast_param_t, *$1); }
  | paramlist ',' param   { $$ = MORE($1, *$3); }
  ;
param:
    IDENT ':' type
      { $$ = ast_param(p, @$, NAME($1, @1), false, $3, NULL); }
  | IDENT ':' type '=' expr
      { $$ = ast_param(p, @$, NAME($1, @1), false, $3, $5); }
  | IDENT ':' INOUT type
      { $$ = ast_param(p, @$, NAME($1, @1), true, $4, NULL); }
  ;
type:
    elem dims suffixes
      { $$ = ast_type(p, @$, NULL, NAME($1, @1), $2, $3); }
  | stacks elem dims suffixes
      { $$ = ast_type(p, @$, $1, NAME($2, @2), $3, $4); }
  ;
elem:
    DTYPE
  | IDENT
  ;
stacks:
    '[' dim ']'           { $$ = ONE(ast_dim_t, *$2); }
  | stacks '[' dim ']'    { $$ = MORE($1, *$3); }
  ;
dims:
    %empty                { $$ = NULL; }
  | '[' dimlist ']'       { $$ = $2; }
  ;
dimlist:
    dim                   { $$ = ONE(ast_dim_t, *$1); }
  | dimlist ',' dim       { $$ = MORE($1, *$3); }
  ;
dim:
    expr                  { $$ = ast_dim(p, @$, $1, NO_NAME, NULL); }
  | expr '@' shard        { $$ = ast_dim(p, @$, $1, NO_NAME, $3); }
  | ELLIPSIS IDENT        { $$ = ast_dim(p, @$, NULL, NAME($2, @2), NULL); }
  ;
suffixes:
    %empty                { $$ = NULL; }
  | suffixes AS DTYPE
      { $$ = ast_suffix_as(p, $1, SPAN(@2, @3), $3); }
  | suffixes '@' shard
      { $$ = ast_suffix_shard(p, $1, SPAN(@2, @3), $3); }
  | suffixes PARTIAL '(' idents ')'
      { $$ = ast_suffix_partial(p, $1, SPAN(@2, @5), $4); }
  | suffixes IN range
      { $$ = ast_suffix_in(p, $1, SPAN(@2, @3), $3); }
  ;
shard:
    IDENT
      { $$ = ast_shard_axis(p, @$, NAME($1, @1)); }
  | '(' idents ')'
      { $$ = ast_shard_axes(p, @$, AST_SHARD_AXES, NO_NAME, $2); }
  | IDENT '(' idents ')'
      { $$ = ast_shard_axes(p, @$, AST_SHARD_LAYOUT, NAME($1, @1), $3); }
  ;
result:
    body
      { $$ = ast_tail(p, @$, NULL, NULL, $1, NULL); }
  | WITH attrs body
      { $$ = ast_tail(p, @$, NULL, $2, $3, NULL); }
  | ARROW type '=' expr
      { ast_result_t r = {.loc = @2, .type = $2};
        $$ = ast_tail(p, SPAN(@1, @2), ONE(ast_result_t, r), NULL, NULL,
                      $4); }
  | ARROW IDENT ':' type with_opt body
      { ast_result_t r = {SPAN(@2, @4), NAME($2, @2), $4};
        $$ = ast_tail(p, SPAN(@1, @4), ONE(ast_result_t, r), $5, $6,
                      NULL); }
  | ARROW '(' results ')' with_opt body
      { $$ = ast_tail(p, SPAN(@1, @4), $3, $5, $6, NULL); }
  ;
results:
    IDENT ':' type
      { ast_result_t r = {@$, NAME($1, @1), $3};
        $$ = ONE(ast_result_t, r); }
  | results ',' IDENT ':' type
      { ast_result_t r = {SPAN(@3, @5), NAME($3, @3), $5};
        $$ = MORE($1, r); }
  ;
with_opt:
    %empty                { $$ = NULL; }
  | WITH attrs            { $$ = $2; }
  ;
attrs:
    attr                  { $$ = ONE(ast_attr_t, *$1); }
  | attrs ',' attr        { $$ = MORE($1, *$3); }
  ;
attr:
    IDENT                 { $$ = ast_attr(p, @$, NAME($1, @1), false, NULL); }
  | CHECKPOINT            { $$ = ast_attr(p, @$, NAME(WORD(p, "checkpoint"),
                                          @1), false, NULL); }
  | DTYPE                 { $$ = ast_attr(p, @$, NAME($1, @1), false, NULL); }
  | IDENT '(' args ')'    { $$ = ast_attr(p, @$, NAME($1, @1), true, $3); }
  ;
body:
    '{' stmts '}'         { $$ = ast_block(p, @$, $2); }
  ;
stmts:
    %empty                { $$ = ast_list(p, sizeof(ast_stmt_t *)); }
  | stmts stmt NL         { $$ = MORE($1, $2); }
  | stmts NL
  | stmts error NL        { yyerrok; }
  ;
stmt:
    lhss '=' expr         { $$ = ast_define(p, @$, false, $1, $3); }
  | VAR lhs '=' expr      { $$ = ast_define(p, @$, true,
                                            ONE(ast_lhs_t, *$2), $4); }
  | post ASSIGN expr where_opt
                          { $$ = ast_update(p, @$, false, $1, $3, $4); }
  | post ADDEQ expr where_opt
                          { $$ = ast_update(p, @$, true, $1, $3, $4); }
  | post                  { $$ = ast_do(p, @$, $1); }
  | FOR IDENT IN range with_opt body
      { $$ = ast_for(p, @$, NAME($2, @2), $4, $5, $6); }
  | EACH idents IN exprs body
                          { $$ = ast_each(p, @$, $2, $4, $5); }
  | CHECKPOINT body       { $$ = ast_checkpoint(p, @$, $2); }
  | REQUIRE exprs         { $$ = ast_require(p, @$, $2); }
  | ASSERT expr           { $$ = ast_assert(p, @$, $2, NULL); }
  | ASSERT expr ',' STR   { $$ = ast_assert(p, @$, $2, $4); }
  ;
lhss:
    lhs                   { $$ = ONE(ast_lhs_t, *$1); }
  | lhss ',' lhs          { $$ = MORE($1, *$3); }
  ;
lhs:
    post                  { $$ = ast_lhs(p, @$, $1, NULL); }
  | post ':' type         { $$ = ast_lhs(p, @$, $1, $3); }
  ;
range:
    expr                  { $$ = ast_range(p, @$, NULL, $1); }
  | expr DOTDOT expr      { $$ = ast_range(p, @$, $1, $3); }
  ;
exprs:
    expr                  { $$ = ONE(ast_expr_t *, $1); }
  | exprs ',' expr        { $$ = MORE($1, $3); }
  ;
expr:
    post
  | NUM                   { $$ = ast_number(p, @$, $1); }
  | LIT                   { $$ = ast_literal(p, @$, $1); }
  | STR                   { $$ = ast_string(p, @$, $1); }
  | expr '+' expr         { TAKE($$, BINARY(ADD, @$, $1, @2, $3)); }
  | expr '-' expr         { TAKE($$, BINARY(SUB, @$, $1, @2, $3)); }
  | expr '*' expr         { TAKE($$, BINARY(MUL, @$, $1, @2, $3)); }
  | expr '/' expr         { TAKE($$, BINARY(DIV, @$, $1, @2, $3)); }
  | expr '%' expr         { TAKE($$, BINARY(MOD, @$, $1, @2, $3)); }
  | expr '^' expr         { TAKE($$, BINARY(POW, @$, $1, @2, $3)); }
  | '-' expr %prec NEG    { TAKE($$, ast_unary(p, AST_OP_NEG, @$, @1, $2)); }
  | NOT expr              { TAKE($$, ast_unary(p, AST_OP_NOT, @$, @1, $2)); }
  | expr AND expr         { TAKE($$, BINARY(AND, @$, $1, @2, $3)); }
  | expr OR expr          { TAKE($$, BINARY(OR, @$, $1, @2, $3)); }
  | expr EQ expr          { TAKE($$, BINARY(EQ, @$, $1, @2, $3)); }
  | expr NE expr          { TAKE($$, BINARY(NE, @$, $1, @2, $3)); }
  | expr '<' expr         { TAKE($$, BINARY(LT, @$, $1, @2, $3)); }
  | expr '>' expr         { TAKE($$, BINARY(GT, @$, $1, @2, $3)); }
  | expr LE expr          { TAKE($$, BINARY(LE, @$, $1, @2, $3)); }
  | expr GE expr          { TAKE($$, BINARY(GE, @$, $1, @2, $3)); }
  | IF expr THEN expr ELSE expr
                          { TAKE($$, ast_if(p, @$, @1, $2, $4, $6)); }
  | REDUCE '[' binders where_opt ']' expr %prec RED
      { TAKE($$, ast_reduce(p, @$, @1, $1, $3, $4, $6)); }
  | REDUCE '(' exprs ')'  { TAKE($$, ast_redcall(p, @$, @1, $1, $3)); }
  | REDUCE '(' exprs ')' IDENT
      { ast_wrong_brackets(p, @1, $1, SPAN(@2, @4), $3);
        ast_filter_recover(p);
        YYERROR; }
  | DTYPE '(' expr ')'    { TAKE($$, ast_cast(p, @$, @1, $1, $3)); }
  ;
post:
    IDENT                 { $$ = ast_name(p, @$, $1); }
  | '(' expr ')'          { $$ = ast_parens($2); }
  | post '.' IDENT        { TAKE($$, ast_member(p, @$, $1, @3, $3)); }
  | post sub              { TAKE($$, ast_subscript(p, @$, $1, @2, $2)); }
  | post '(' args ')'
      { TAKE($$, ast_call(p, @$, $1, SPAN(@2, @4), $3)); }
  ;
sub:
    '[' idxs ']'          { $$ = ast_sub_list(p, $2, NULL); }
  | '[' idxs '|' expr ']' { $$ = ast_sub_list(p, $2, $4); }
  ;
idxs:
    idx                   { $$ = ONE(ast_sub_t, *$1); }
  | idxs ',' idx          { $$ = MORE($1, *$3); }
  ;
idx:
    expr                  { $$ = ast_sub_expr(p, @$, $1); }
  | ':'                   { $$ = ast_sub_all(p, @$); }
  | IDENT '@' shard
      { $$ = ast_sub_index(p, @$, NAME($1, @1), NULL, $3); }
  | IDENT IN range
      { $$ = ast_sub_index(p, @$, NAME($1, @1), $3, NULL); }
  | IDENT IN range '@' shard
      { $$ = ast_sub_index(p, @$, NAME($1, @1), $3, $5); }
  ;
binders:
    binder                { $$ = ONE(ast_binder_t, *$1); }
  | binders ',' binder    { $$ = MORE($1, *$3); }
  ;
binder:
    IDENT                 { $$ = ast_binder(p, @$, NAME($1, @1), NULL); }
  | IDENT IN range        { $$ = ast_binder(p, @$, NAME($1, @1), $3); }
  ;
where_opt:
    %empty                { $$ = NULL; }
  | WHERE expr            { $$ = $2; }
  ;
args:
    %empty                { $$ = NULL; }
  | arglist
  ;
arglist:
    arg                   { $$ = ONE(ast_arg_t, *$1); }
  | arglist ',' arg       { $$ = MORE($1, *$3); }
  ;
arg:
    expr                  { $$ = ast_arg(p, @$, NO_NAME, $1); }
  | DTYPE                 { $$ = ast_arg_dtype(p, @$, $1); }
  | IDENT '=' expr        { $$ = ast_arg(p, @$, NAME($1, @1), $3); }
  ;

%%

static int ast_yylex(YYSTYPE *value, td_loc_t *loc, ast_parser_t *p) {
  ast_token_t token = ast_filter_next(p);
  *loc = token.loc;
  if (token.kind == TOK_LIT || token.kind == TOK_REDUCE) {
    value->code = token.code;
  } else {
    value->text = token.text;
  }
  return token.kind;
}

/* The parser's own texts are never shown: the custom report below and
 * grow_stack say what there is to say. */
static void ast_yyerror(td_loc_t *loc, ast_parser_t *p, const char *text) {
  (void)loc, (void)p, (void)text;
}

static void *grown(ast_parser_t *p, const void *old, size_t bytes,
                   size_t factor) {
  void *fresh = td_arena_alloc_array(p->arena, factor, bytes);
  memcpy(fresh, old, bytes);
  return fresh;
}

/* Each _bytes is the size of the full stack now.  Brackets are capped by
 * newline.c, so what gets to YYMAXDEPTH are prefixes: - - - x, if else if. */
static void grow_stack(ast_parser_t *p, void **states, size_t state_bytes,
                       void **values, size_t value_bytes, void **locs,
                       size_t loc_bytes, ptrdiff_t *capacity) {
  if (*capacity * 2 > YYMAXDEPTH) {
    ast_too_deep(p, p->last.loc);
    return; /* not grown: the parser gives up */
  }
  *states = grown(p, *states, state_bytes, 2);
  *values = grown(p, *values, value_bytes, 2);
  *locs = grown(p, *locs, loc_bytes, 2);
  *capacity *= 2;
}

/* Whether the state takes this token; by token number, as in the scanner. */
#define HAS(token) (expected[YYTRANSLATE(token)])

static void want(ast_expected_t *e, const char *words) {
  if (e->count < AST_EXPECTED_MAX) e->words[e->count++] = words;
}

/* Tokens named one by one, in this order. */
static const struct {
  int token;
  const char *words;
} singles[] = {
    {')', "`)`"},
    {']', "`]`"},
    {'}', "`}`"},
    {'{', "`{`"},
    {',', "`,`"},
    {':', "`:`"},
    {'=', "`=`"},
    {TOK_ASSIGN, "`:=`"},
    {TOK_ADDEQ, "`+=`"},
    {TOK_ARROW, "`->`"},
    {TOK_THEN, "`then`"},
    {TOK_ELSE, "`else`"},
    {TOK_IN, "`in`"},
    {TOK_WITH, "`with`"},
    {TOK_WHERE, "`where`"},
    {TOK_FROM, "`from`"},
    {TOK_DOTDOT, "`..`"},
};

/* Tokens that stand for a class are named by the class. */
static void name_expected(ast_expected_t *e, const bool *expected) {
  bool expression = HAS(TOK_NUM), statement = HAS(TOK_FOR);
  bool declaration = HAS(TOK_STRUCT);
  for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++) {
    if (!HAS(singles[i].token)) continue;
    if (singles[i].token == ':' && expression) continue;
    want(e, singles[i].words);
  }
  if (declaration) {
    want(e, "a declaration");
  } else if (statement) {
    want(e, "a statement");
  } else if (expression) {
    want(e, "an expression");
  } else if (HAS(TOK_DTYPE)) {
    want(e, HAS(TOK_IDENT) ? "a type" : "a dtype");
  } else if (HAS(TOK_IDENT)) {
    want(e, "a name");
  } else if (HAS(TOK_STR)) {
    want(e, "a text");
  } else if (!e->value) {
    if (HAS(TOK_FN)) want(e, "`fn`");
    if (HAS(TOK_LE)) want(e, "`<=`");
    if (HAS('(')) want(e, "`(`");
    if (HAS('[')) want(e, "`[`");
  }
  if (e->value) want(e, "an operator");
  if (HAS(TOK_NL) && !statement && !declaration) {
    want(e, "the end of the line");
  }
}

static int yyreport_syntax_error(const yypcontext_t *context,
                                 ast_parser_t *p) {
  yysymbol_kind_t list[YYNTOKENS];
  bool expected[YYNTOKENS] = {false};
  int count = yypcontext_expected_tokens(context, list, YYNTOKENS);
  for (int i = 0; i < count; i++) expected[list[i]] = true;
  int got = p->last.kind;
  ast_expected_t e = {0};
  e.value = HAS('+');
  e.name = HAS(TOK_IDENT);
  /* Only a second comparison is refused where an operator may stand. */
  e.chained = e.value && (got == TOK_EQ || got == TOK_NE || got == TOK_LE ||
                          got == TOK_GE || got == '<' || got == '>');
  name_expected(&e, expected);
  ast_report_syntax(p, &e);
  ast_filter_recover(p);
  return 0;
}

ast_file_t *ast_parse(td_task_t *task, td_arena_t *arena, uint32_t source) {
  ast_parser_t *p = TD_NEW(arena, ast_parser_t);
  ast_filter_start(p, task, arena, source);
  (void)ast_yyparse(p);
  return ast_file_finish(p);
}
