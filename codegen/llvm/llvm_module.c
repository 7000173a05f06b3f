/* llvm_module.c: a module from its making to machine code. */
#include "codegen/llvm/llvm_func.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

/* What has to be closed when a failure unwinds; on the task's defer list. */
typedef struct cgl_foreign {
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMTargetMachineRef machine;
  LLVMPassBuilderOptionsRef options;
  LLVMMemoryBufferRef buffer;
  char *message;
} cgl_foreign_t;

/* Runs when compiling ends, well or not: LLVM's objects are in no arena. */
static void close_foreign(void *arg) {
  cgl_foreign_t *f = arg;
  if (f->message != NULL) LLVMDisposeMessage(f->message);
  if (f->buffer != NULL) LLVMDisposeMemoryBuffer(f->buffer);
  if (f->options != NULL) LLVMDisposePassBuilderOptions(f->options);
  if (f->machine != NULL) LLVMDisposeTargetMachine(f->machine);
  if (f->builder != NULL) LLVMDisposeBuilder(f->builder);
  if (f->module != NULL) LLVMDisposeModule(f->module);
  if (f->context != NULL) LLVMContextDispose(f->context);
}

/* The handful that this IR needs: registers out of allocas, algebra, loop
 * invariants, loads and stores that repeat.  Vectors and unrolling are
 * spelled already, so no pass looks for them; what loops do with their
 * counters is the code generator's. */
static const char pipeline[] =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm),dse,simplifycfg)";

const char *cgl_symbol(td_arena_t *arena, const kir_kernel_t *kernel) {
  size_t n = strlen(kernel->name);
  char *out = td_arena_alloc(arena, n + 4);
  memcpy(out, "tk_", 3);
  for (size_t i = 0; i < n; i++) {
    char c = kernel->name[i];
    bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '_';
    out[3 + i] = ok ? c : '_';
  }
  return out;
}

/* Part of the kernel cache's key: another version may choose other code. */
const char *cgl_llvm_version(td_arena_t *arena) {
  unsigned major = 0, minor = 0, patch = 0;
  LLVMGetVersion(&major, &minor, &patch);
  return td_arena_printf(arena, "%u.%u.%u", major, minor, patch);
}

/* Code generators for the rows of ir/target.def, if LLVM was built with
 * them: `dump` shows the code of any machine. */
#define LLVM_TARGET(name)                                             \
  {#name, LLVMInitialize##name##TargetInfo, LLVMInitialize##name##Target, \
   LLVMInitialize##name##TargetMC},
#define LLVM_ASM_PRINTER(name) {#name, LLVMInitialize##name##AsmPrinter},
static const struct {
  const char *name;
  void (*info)(void), (*target)(void), (*code)(void);
} generators[] = {
#include <llvm/Config/Targets.def>
};
static const struct {
  const char *name;
  void (*open)(void);
} printers[] = {
#include <llvm/Config/AsmPrinters.def>
};

static bool is_wanted(const char *name) {
  return strcmp(name, "X86") == 0 || strcmp(name, "AArch64") == 0;
}

/* LLVM's table of targets has no lock. A constructor fills it while the
 * library is being loaded, before there can be a second thread in it. */
__attribute__((constructor)) static void initialize_targets(void) {
  for (size_t i = 0; i < sizeof generators / sizeof generators[0]; i++) {
    if (!is_wanted(generators[i].name)) continue;
    generators[i].info();
    generators[i].target();
    generators[i].code();
  }
  for (size_t i = 0; i < sizeof printers / sizeof printers[0]; i++) {
    if (is_wanted(printers[i].name)) printers[i].open();
  }
}

/* Selecting instructions takes time that grows with the square of a block;
 * for a formula of this many nodes the simple selector does. */
enum { HUGE_KERNEL = 20000 };

static LLVMTargetMachineRef open_machine(cgl_t *g, cgl_foreign_t *foreign,
                                         LLVMCodeGenOptLevel level) {
  const char *triple = g->target->triple;
  LLVMTargetRef target = NULL;
  if (LLVMGetTargetFromTriple(triple, &target, &foreign->message)) {
    td_raise(g->task, TDSL_STATUS_UNAVAILABLE,
             "this LLVM makes no code for %s", g->target->name);
  }
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
      target, triple, g->target->llvm_cpu, g->target->features,
      level, LLVMRelocPIC, LLVMCodeModelSmall);
  TD_CHECK(g->task, machine != NULL, "no machine %s", g->target->name);
  LLVMSetTarget(g->module, triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(g->module, layout);
  LLVMDisposeTargetData(layout);
  return machine;
}

/* LLVM's buffer goes away with its module. */
static void copy_out(cgl_t *g, const char *data, size_t bytes,
                     cgl_output_t *out) {
  char *copy = td_arena_alloc(g->arena, bytes + 1);
  memcpy(copy, data, bytes);
  out->bytes = bytes;
  out->data = copy;
}

static void set_types(cgl_t *g) {
  g->i1 = LLVMInt1TypeInContext(g->context);
  g->i8 = LLVMInt8TypeInContext(g->context);
  g->i16 = LLVMInt16TypeInContext(g->context);
  g->i32 = LLVMInt32TypeInContext(g->context);
  g->i64 = LLVMInt64TypeInContext(g->context);
  g->f32 = LLVMFloatTypeInContext(g->context);
  g->f64 = LLVMDoubleTypeInContext(g->context);
  g->ptr = LLVMPointerTypeInContext(g->context, 0);
  g->nothing = LLVMVoidTypeInContext(g->context);
}

/* A context of its own for each call makes calls independent of each other
 * and of the host's LLVM, if it has one. */
void cgl_compile(td_task_t *task, td_arena_t *arena,
                 const kir_kernel_t *const *kernels, uint32_t count,
                 const ir_target_t *target, cgl_form_t form,
                 cgl_output_t *out) {
  /* scratch of the emitter: dropped at the end */
  td_arena_t *scratch = TD_NEW(arena, td_arena_t);
  td_arena_init(scratch, task);
  cgl_foreign_t *foreign = TD_NEW(arena, cgl_foreign_t);
  td_defer(task, close_foreign, foreign);
  cgl_t *g = TD_NEW(scratch, cgl_t);
  uint32_t most = 0;
  g->task = task;
  g->arena = scratch;
  g->target = target;
  g->context = foreign->context = LLVMContextCreate();
  g->module = foreign->module =
      LLVMModuleCreateWithNameInContext("tdsl", g->context);
  g->builder = foreign->builder = LLVMCreateBuilderInContext(g->context);
  set_types(g);
  foreign->machine = open_machine(g, foreign, LLVMCodeGenLevelDefault);
  for (uint32_t i = 0; i < count; i++) {
    g->emitted = 0;
    cgl_kernel(g, kernels[i]);
    if (g->emitted > most) most = g->emitted;
  }
  if (most > HUGE_KERNEL) {
    LLVMDisposeTargetMachine(foreign->machine);
    foreign->machine = NULL;
    foreign->machine = open_machine(g, foreign, LLVMCodeGenLevelNone);
  }

  if (LLVMVerifyModule(g->module, LLVMReturnStatusAction,
                       &foreign->message)) {
    TD_ICE(task, "LLVM refuses the module of kernel %s: %s",
           count > 0 ? kernels[0]->name : "", foreign->message);
  }
  LLVMDisposeMessage(foreign->message);
  foreign->message = NULL;
  foreign->options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(g->module, pipeline, foreign->machine,
                                     foreign->options);
  if (error != NULL) {
    char *text = LLVMGetErrorMessage(error);
    const char *copy = td_arena_strdup(arena, text);
    LLVMDisposeErrorMessage(text);
    TD_ICE(task, "LLVM passes: %s", copy);
  }
  if (form == CGL_IR) {
    foreign->message = LLVMPrintModuleToString(g->module);
    td_arena_t *keep = g->arena;
    g->arena = arena;
    copy_out(g, foreign->message, strlen(foreign->message), out);
    g->arena = keep;
  } else {
    LLVMCodeGenFileType type =
        form == CGL_OBJECT ? LLVMObjectFile : LLVMAssemblyFile;
    if (LLVMTargetMachineEmitToMemoryBuffer(foreign->machine, g->module,
                                            type, &foreign->message,
                                            &foreign->buffer)) {
      TD_ICE(task, "LLVM emits nothing: %s", foreign->message);
    }
    g->arena = arena;
    copy_out(g, LLVMGetBufferStart(foreign->buffer),
             LLVMGetBufferSize(foreign->buffer), out);
  }
  td_undefer(task, true);
  td_arena_free_all(scratch);
}
