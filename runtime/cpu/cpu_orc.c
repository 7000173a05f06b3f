/* cpu_orc.c: see cpu_orc.h. */
#include "runtime/cpu/cpu_orc.h"

#include "runtime/cpu/cpu_helpers.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>

#include <stdlib.h>

struct rcpu_code {
  LLVMOrcLLJITRef jit;
  LLVMOrcJITDylibRef library; /* bare: only what is put in is found */
  char *reported;             /* last text of the session's reporter */
};

/* Takes the text of an error and ends it. */
static void report(td_task_t *task, const char *what, LLVMErrorRef error,
                   const char *detail) {
  char *text = LLVMGetErrorMessage(error);
  td_loc_t none = {0};
  td_diag(task, TD_B06, none, "%s: %s%s%s", what, text,
          detail != NULL ? ": " : "", detail != NULL ? detail : "");
  LLVMDisposeErrorMessage(text);
}

/* The name of a missing symbol goes here and not into the error. */
static void keep_report(void *context, LLVMErrorRef error) {
  rcpu_code_t *code = context;
  if (code->reported != NULL) LLVMDisposeErrorMessage(code->reported);
  code->reported = LLVMGetErrorMessage(error);
}

/* LLVM's table of targets has no lock. A constructor fills it while the
 * library is being loaded, before there can be a second thread in it. */
__attribute__((constructor)) static void initialize_target(void) {
#if defined(__aarch64__)
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
#else
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
#endif
}

static bool define_helpers(rcpu_code_t *code, td_task_t *task) {
  rcpu_symbol_t symbols[RCPU_SYMBOL_MAX];
  LLVMOrcCSymbolMapPair pairs[RCPU_SYMBOL_MAX];
  uint32_t count = rcpu_symbols(symbols);
  for (uint32_t i = 0; i < count; i++) {
    pairs[i].Name = LLVMOrcLLJITMangleAndIntern(code->jit, symbols[i].name);
    pairs[i].Sym.Address = symbols[i].address;
    pairs[i].Sym.Flags.GenericFlags =
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
    pairs[i].Sym.Flags.TargetFlags = 0;
  }
  LLVMErrorRef error = LLVMOrcJITDylibDefine(
      code->library, LLVMOrcAbsoluteSymbols(pairs, count));
  if (error == NULL) return true;
  report(task, "cannot define helpers", error, NULL);
  return false;
}

rcpu_code_t *rcpu_code_create(td_task_t *task) {
  rcpu_code_t *code = calloc(1, sizeof *code);
  if (code == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the JIT");
  }
  LLVMErrorRef error = LLVMOrcCreateLLJIT(&code->jit, NULL);
  if (error != NULL) {
    report(task, "cannot start the JIT", error, NULL);
    free(code);
    return NULL;
  }
  LLVMOrcExecutionSessionRef session =
      LLVMOrcLLJITGetExecutionSession(code->jit);
  LLVMOrcExecutionSessionSetErrorReporter(session, keep_report, code);
  code->library =
      LLVMOrcExecutionSessionCreateBareJITDylib(session, "kernels");
  if (!define_helpers(code, task)) {
    rcpu_code_destroy(code);
    return NULL;
  }
  return code;
}

bool rcpu_code_add(rcpu_code_t *code, td_task_t *task, const void *object,
                   size_t bytes) {
  LLVMMemoryBufferRef buffer =
      LLVMCreateMemoryBufferWithMemoryRangeCopy(object, bytes, "kernels");
  LLVMErrorRef error =
      LLVMOrcLLJITAddObjectFile(code->jit, code->library, buffer);
  if (error == NULL) return true;
  report(task, "cannot link kernels", error, NULL);
  return false;
}

/* The lookup of a bare library goes through the session; the callback runs
 * before LLVMOrcExecutionSessionLookup's materialisation has returned. */
typedef struct lookup {
  bool is_done;
  LLVMErrorRef error;
  uint64_t address;
} lookup_t;

static void found(LLVMErrorRef error, LLVMOrcCSymbolMapPairs result,
                  size_t count, void *context) {
  lookup_t *l = context;
  l->is_done = true;
  l->error = error;
  if (error == NULL && count == 1) l->address = result[0].Sym.Address;
}

rcpu_kernel_fn rcpu_code_find(rcpu_code_t *code, td_task_t *task,
                              const char *symbol) {
  LLVMOrcExecutionSessionRef session =
      LLVMOrcLLJITGetExecutionSession(code->jit);
  LLVMOrcCJITDylibSearchOrderElement order = {
      code->library, LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly};
  LLVMOrcCLookupSetElement name = {
      LLVMOrcLLJITMangleAndIntern(code->jit, symbol),
      LLVMOrcSymbolLookupFlagsRequiredSymbol};
  lookup_t l = {0};
  LLVMOrcExecutionSessionLookup(session, LLVMOrcLookupKindStatic, &order, 1,
                                &name, 1, found, &l);
  td_loc_t none = {0};
  if (l.error != NULL) {
    report(task, "cannot find kernel", l.error, code->reported);
    return NULL;
  }
  if (!l.is_done || l.address == 0) {
    td_diag(task, TD_B06, none, "kernel %s is not in its module", symbol);
    return NULL;
  }
  uintptr_t address = (uintptr_t)l.address;
  rcpu_kernel_fn fn;
  memcpy(&fn, &address, sizeof fn);
  return fn;
}

void rcpu_code_destroy(rcpu_code_t *code) {
  if (code == NULL) return;
  if (code->jit != NULL) {
    LLVMErrorRef error = LLVMOrcDisposeLLJIT(code->jit);
    if (error != NULL) LLVMConsumeError(error);
  }
  if (code->reported != NULL) LLVMDisposeErrorMessage(code->reported);
  free(code);
}
