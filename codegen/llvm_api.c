#include "llvm_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Newest first among those tested, then those known to have the same functions. */
static const char *const sonames[] = {
    "libLLVM-19.so.1", "libLLVM.so.19.1", "libLLVM.so.20.1", "libLLVM.so.18.1", "libLLVM-18.so.1",
};

static const struct llvm_fn {
    const char *name;
    size_t at; /* of the pointer in struct llvm_api */
} fns[] = {
#define LLVM_API(name) {"LLVM" #name, offsetof(struct llvm_api, name)},
#include "llvm.def"
#undef LLVM_API
};

/* What LLVMInitialize<Arch><part>() must have run for before code can be emitted. */
static const char *const parts[] = {"TargetInfo", "Target", "TargetMC", "AsmPrinter"};

/* LLVM registers its targets in global lists of its own without a lock. */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

/* NODELETE: LLVM's global constructors and destructors are not made to run twice in a process. */
enum { HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

static void *open_library(struct yir_diags *d)
{
    const char *given = getenv("YOLOC_LIBLLVM");
    if (given && *given) {
        void *lib = dlopen(given, HOW);
        if (!lib) yir_diag(d, (struct yir_loc){0}, E_LLVM, "cannot load YOLOC_LIBLLVM: %s", dlerror());
        return lib;
    }
    for (size_t i = 0; i < YIR_COUNT(sonames); i++) {
        void *lib = dlopen(sonames[i], HOW);
        if (lib) return lib;
        const char *why = dlerror(); /* a library that is there may still find no memory */
        if (why && !strstr(why, "cannot open shared object file: No such file")) {
            yir_diag(d, (struct yir_loc){0}, E_LLVM, "the LLVM library can't be loaded: %s", why);
            return NULL;
        }
    }
    yir_diag(d, (struct yir_loc){0}, E_LLVM,
             "no LLVM library found (%s and others were tried); set YOLOC_LIBLLVM to the path of one",
             sonames[0]);
    return NULL;
}

static bool symbol(void *lib, const char *name, void *fn)
{
    void *p = dlsym(lib, name);
    memcpy(fn, &p, sizeof p); /* ISO C has no conversion between object and function pointers */
    return p != NULL;
}

static int check_version(struct yir_diags *d, void *lib, struct llvm_api *out)
{
    unsigned *v = out->version;
    if (!symbol(lib, "LLVMGetVersion", &out->GetVersion))
        return yir_diag(d, (struct yir_loc){0}, E_LLVM, "the LLVM library is older than LLVM %d",
                        LLVM_OLDEST);
    out->GetVersion(&v[0], &v[1], &v[2]);
    if (v[0] >= LLVM_OLDEST) return 0;
    return yir_diag(d, (struct yir_loc){0}, E_LLVM, "LLVM %u.%u.%u is too old; LLVM %d or newer is needed",
                    v[0], v[1], v[2], LLVM_OLDEST);
}

/* Loop strength reduction takes nearly half of the code generator's time on kernels with hundreds of addresses in a loop, and
 * what it finds is no faster: they come with constant offsets from few bases. The C API has no other way to leave it out. */
static int set_options(struct yir_diags *d, void *lib)
{
    static const char *const option[] = {"yoloc", "-disable-lsr"};
    static bool done; /* LLVM's options belong to the process, and may be set once */
    void (*parse)(int, const char *const *, const char *);
    if (!symbol(lib, "LLVMParseCommandLineOptions", &parse))
        return yir_diag(d, (struct yir_loc){0}, E_LLVM, "the LLVM library lacks LLVMParseCommandLineOptions");
    pthread_mutex_lock(&registering);
    if (!done) parse((int)YIR_COUNT(option), option, NULL);
    done = true;
    pthread_mutex_unlock(&registering);
    return 0;
}

static int register_target(struct yir_diags *d, void *lib, const char *arch)
{
    const char *target = strcmp(arch, "aarch64") ? "X86" : "AArch64";
    for (size_t i = 0; i < YIR_COUNT(parts); i++) {
        char name[64];
        void (*init)(void);
        snprintf(name, sizeof name, "LLVMInitialize%s%s", target, parts[i]);
        if (!symbol(lib, name, &init))
            return yir_diag(d, (struct yir_loc){0}, E_LLVM,
                            "the LLVM library was built without the target %s", target);
        pthread_mutex_lock(&registering);
        init();
        pthread_mutex_unlock(&registering);
    }
    return 0;
}

int llvm_load(struct yir_diags *d, const char *arch, struct llvm_api *out)
{
    void *lib = open_library(d);
    if (!lib || check_version(d, lib, out)) return -1;
    for (size_t i = 0; i < YIR_COUNT(fns); i++)
        if (!symbol(lib, fns[i].name, (char *)out + fns[i].at))
            return yir_diag(d, (struct yir_loc){0}, E_LLVM, "the LLVM library (%u.%u.%u) lacks %s",
                            out->version[0], out->version[1], out->version[2], fns[i].name);
    return register_target(d, lib, arch) || set_options(d, lib) ? -1 : 0;
}
