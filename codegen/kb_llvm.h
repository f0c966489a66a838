/* Draws kernel programs as LLVM IR. */
#ifndef KB_LLVM_H
#define KB_LLVM_H

#include "codegen.h"
#include "llvm_api.h"

/* Adds to the module a function `symbol` of type ym_cpu_fn (runtime/module.h) that runs the program for a
 * range of units. call->arg[i] is the i-th memory of the program that is not scratch. `value` is working
 * memory for kb->nnode values. checked: an access outside its memory goes to element 0 instead, and the
 * function returns 1 + the number of the argument (scratch: 1 + the number of arguments). */
void kb_llvm_function(const struct llvm_api *ll, LLVMModuleRef m, LLVMContextRef cx, const struct kb *prog,
                      const struct cg_target *t, const char *symbol, bool checked, LLVMValueRef *value);

#endif
