/* LLVM's C API, loaded at run time: nothing links against LLVM, and a machine without it can do all but
 * compile for CPUs. */
#ifndef LLVM_API_H
#define LLVM_API_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "ir/diag.h"

#define LLVM_OLDEST 18 /* opaque pointers, the new pass manager's C API, x86-64 levels as CPU names */

struct llvm_api {
#define LLVM_API(name) __typeof__(&LLVM##name) name;
#include "llvm.def"
#undef LLVM_API
    unsigned version[3]; /* major, minor, patch */
};

/* Loads LLVM and makes it ready for an architecture ("x86_64", "aarch64"). The file named by YOLOC_LIBLLVM,
 * else the usual names. -1 after reporting E_LLVM. The library stays loaded until the process ends. */
int llvm_load(struct yir_diags *d, const char *arch, struct llvm_api *out);

#endif
