#include "codegen.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Bits of CPUID that a level needs: ecx1 leaf 1, ebx7 leaf 7, ecx81 leaf 0x80000001; xcr0: register state the
 * system must save. The levels are those of the x86-64 psABI. */
struct cpuid_bits {
    uint32_t ecx1, ebx7, ecx81;
    uint64_t xcr0;
};

#if defined(__x86_64__)
#define LAHF     1u /* ecx81; no compiler names it */
#define ECX1_V2  (bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT)
#define ECX1_V3  (ECX1_V2 | bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C)
#define EBX7_V3  (bit_BMI | bit_AVX2 | bit_BMI2)
#define EBX7_V4  (EBX7_V3 | bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL)
#define ECX81_V3 (LAHF | bit_LZCNT)
#else /* levels of another machine: they are compiled for, never found */
#define LAHF     0
#define ECX1_V2  0
#define ECX1_V3  0
#define EBX7_V3  0
#define EBX7_V4  0
#define ECX81_V3 0
#endif
#define YMM        0x06u /* xcr0 */
#define ZMM        0xe6u
#define NEEDS_V2   "cx8,cmov,mmx,fxsr,sse,sse2,sse3,ssse3,sse4.1,sse4.2,crc32,popcnt,cx16,sahf"
#define NEEDS_V3   NEEDS_V2 ",avx,avx2,fma,f16c,bmi,bmi2,lzcnt,movbe,xsave"
#define NEEDS_V4   NEEDS_V3 ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
#define X86_TRIPLE "x86_64-unknown-linux-gnu"
#define ARM_TRIPLE "aarch64-unknown-linux-gnu"

/* Best last within an architecture. needs: names as LLVM and runtime/cpu_features.def have them. */
static const struct level {
    const char *name, *arch, *triple, *cpu, *needs;
    int lanes, vregs;
    bool fma, mem_splat;
    struct cpuid_bits bits;
} levels[] = {
    /* clang-format off */
    {"x86-64-v2", "x86_64", X86_TRIPLE, "x86-64-v2", NEEDS_V2, 4, 16, false, false, {ECX1_V2, 0, LAHF, 0}},
    {"x86-64-v3", "x86_64", X86_TRIPLE, "x86-64-v3", NEEDS_V3, 8, 16, true, false, {ECX1_V3, EBX7_V3, ECX81_V3, YMM}},
    {"x86-64-v4", "x86_64", X86_TRIPLE, "x86-64-v4", NEEDS_V4, 16, 32, true, true, {ECX1_V3, EBX7_V4, ECX81_V3, ZMM}},
    {"aarch64", "aarch64", ARM_TRIPLE, "generic", "fp-armv8,neon", 4, 32, true, false, {0, 0, 0, 0}},
    /* clang-format on */
};

/* GPUs. What is made for one of them runs on others of the same major number that are not older; sm_90a on none. NVRTC 13 has
 * no sm_70 any more. */
static const struct gpu {
    const char *name, *what;
    int sm, sms; /* sms: of the largest that is sold */
    bool own;    /* may use what only it has */
} gpus[] = {
    /* clang-format off */
    {"sm_75", "Turing", 75, 72, false},
    {"sm_80", "Ampere, A100", 80, 108, false},
    {"sm_86", "Ampere", 86, 84, false},
    {"sm_87", "Ampere, Orin", 87, 16, false},
    {"sm_89", "Ada", 89, 128, false},
    {"sm_90a", "Hopper", 90, 132, true},
    {"sm_100", "Blackwell, B200", 100, 148, false},
    {"sm_120", "Blackwell", 120, 170, false},
    {"sm_70", "Volta", 70, 80, false},
    /* clang-format on */
};

/* Everything a user may write, for "did you mean". */
static const char *const spellings[] = {
    "cpu:native",  "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64", "cuda:sm_70",  "cuda:sm_75", "cuda:sm_80",
    "cuda:sm_86",  "cuda:sm_87",    "cuda:sm_89",    "cuda:sm_90a",   "cuda:sm_100", "cuda:sm_120",
};

#if defined(__x86_64__)
static uint64_t enabled_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool host_has(const struct level *l)
{
    const struct cpuid_bits *n = &l->bits;
    uint32_t a, b, ecx1 = 0, ebx7 = 0, ecx81 = 0, c, d;
    if (strcmp(l->arch, "x86_64") || !__get_cpuid(1, &a, &b, &ecx1, &d)) return false;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) ebx7 = b;
    if (!__get_cpuid(0x80000001, &a, &b, &ecx81, &d)) ecx81 = 0;
    if ((ecx1 & n->ecx1) != n->ecx1 || (ebx7 & n->ebx7) != n->ebx7 || (ecx81 & n->ecx81) != n->ecx81)
        return false;
    /* Levels with register state need OSXSAVE, so xgetbv is there. */
    return !n->xcr0 || (enabled_state() & n->xcr0) == n->xcr0;
}
#else
static bool host_has(const struct level *l)
{
#if defined(__aarch64__)
    return !strcmp(l->arch, "aarch64");
#else
    (void)l;
    return false;
#endif
}
#endif

const char *cg_cpu_name(struct yir_arena *a)
{
#if defined(__x86_64__)
    uint32_t r[12] = {0}, id = 0, b, c, d;
    char brand[49] = "";
    for (uint32_t i = 0; i < 3; i++) __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(brand, r, sizeof r);
    __get_cpuid(1, &id, &b, &c, &d);
    return yir_format(a, "%s, id %08x", brand, (unsigned)id);
#else
    return yir_strdup(a, "a CPU without a name");
#endif
}

/* Text after "Model:" of the file that the driver keeps for a GPU. */
static void put_model(struct yir_str *s, const char *folder)
{
    char path[300], line[200];
    if (snprintf(path, sizeof path, "%s/information", folder) >= (int)sizeof path) return;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "Model:", 6)) yir_str_fmt(s, "%.*s;", (int)strcspn(line + 6, "\n"), line + 6);
    if (f) fclose(f);
}

const char *cg_gpu_names(struct yir_arena *a)
{
    struct yir_str s = {.arena = a};
    glob_t found;
    yir_str_fmt(&s, "%s", "");
    if (glob("/proc/driver/nvidia/gpus/*", 0, NULL, &found)) return s.text;
    for (size_t i = 0; i < found.gl_pathc && i < 64; i++) put_model(&s, found.gl_pathv[i]);
    globfree(&found);
    return s.text;
}

static const struct level *best_level(void)
{
    const struct level *best = NULL;
    for (size_t i = 0; i < YIR_COUNT(levels); i++)
        if (host_has(&levels[i])) best = &levels[i];
    return best;
}

static const struct level *find_level(const char *name)
{
    for (size_t i = 0; i < YIR_COUNT(levels); i++)
        if (!strcmp(levels[i].name, name)) return &levels[i];
    return NULL;
}

/* "fma,avx2" to "+fma,+avx2" */
static const char *llvm_features(struct yir_arena *a, const char *needs)
{
    struct yir_str s = {.arena = a};
    yir_str_put(&s, "+", 1);
    for (const char *p = needs; *p; p++) {
        yir_str_put(&s, p, 1);
        if (*p == ',') yir_str_put(&s, "+", 1);
    }
    return s.text;
}

static void fill_cpu(struct yir_arena *a, const struct level *l, struct cg_target *out)
{
    const char *text = yir_format(a, "cpu:%s", l->name);
    *out = (struct cg_target){
        .kb = {.name = text,
               .lanes = l->lanes,
               .vregs = l->vregs,
               .has_fma = l->fma,
               .mem_splat = l->mem_splat,
               .rcp14 = l->lanes == 16,
               .scalef = l->lanes == 16},
        .backend = CG_CPU,
        .text = text,
        .triple = l->triple,
        .cpu = l->cpu,
        .features = llvm_features(a, l->needs),
        .needs = l->needs,
        .arch = l->arch,
        .prefer_width = l->lanes * 32,
    };
}

static int unknown(struct yir_diags *d, const char *text)
{
    const char *near = yir_nearest(text, spellings, YIR_COUNT(spellings));
    yir_diag(d, (struct yir_loc){0}, E_TARGET, "unknown target '%s'", text);
    if (near)
        yir_diag_note(d, (struct yir_loc){0}, "did you mean '%s'?", near);
    else
        yir_diag_note(d, (struct yir_loc){0},
                      "targets are cpu:native, cpu:LEVEL (x86-64-v2, x86-64-v3, x86-64-v4, aarch64) and cuda:SM (sm_75 ... sm_120)");
    return -1;
}

static int find_cpu(struct yir_arena *a, struct yir_diags *d, const char *text, struct cg_target *out)
{
    const char *name = text + strlen("cpu:");
    bool native = !strcmp(name, "native");
    const struct level *l = native ? best_level() : find_level(name);
    if (!l && native)
        return yir_diag(
            d, (struct yir_loc){0}, E_TARGET,
            "this machine's CPU is below every level that code is generated for (x86-64-v2, aarch64)");
    if (!l) return unknown(d, text);
#ifndef YOLOC_LLVM
    return yir_diag(d, (struct yir_loc){0}, E_TARGET, "target '%s': this build has no CPU code generation",
                    text);
#endif
    fill_cpu(a, l, out);
    return 0;
}

static int find_cuda(struct yir_arena *a, struct yir_diags *d, const char *text, struct cg_target *out)
{
    const char *name = text + strlen("cuda:");
    for (size_t i = 0; i < YIR_COUNT(gpus); i++) {
        if (strcmp(gpus[i].name, name)) continue;
        text = yir_strdup(a, text);
        *out = (struct cg_target){
            .kb = {.name = text,
                   .lanes = 8,
                   .vregs = 128,
                   .has_fma = true,
                   .native_math = true,
                   .element_units = true,
                   .sm = gpus[i].sm,
                   .sm_a = gpus[i].own,
                   .sms = gpus[i].sms},
            .backend = CG_CUDA,
            .text = text,
            .features = "",
            .needs = "",
            .arch = gpus[i].name,
        };
        return 0;
    }
    return unknown(d, text);
}

int cg_target_find(struct yir_arena *a, struct yir_diags *d, const char *text, struct cg_target *out)
{
    if (!strncmp(text, "cpu:", 4)) return find_cpu(a, d, text, out);
    if (!strncmp(text, "cuda:", 5)) return find_cuda(a, d, text, out);
    if (strcmp(text, "ref")) return unknown(d, text);
    *out = (struct cg_target){
        .kb = {.name = "ref", .lanes = 1, .vregs = 16, .has_fma = true, .native_math = true},
        .backend = CG_REF,
        .text = "ref",
        .needs = "",
        .arch = ""};
    return 0;
}

void cg_targets_list(struct yir_str *out)
{
#ifdef YOLOC_LLVM
    const struct level *best = best_level();
    if (best) yir_str_fmt(out, "cpu:native     this machine: cpu:%s\n", best->name);
    for (size_t i = 0; i < YIR_COUNT(levels); i++)
        yir_str_fmt(out, "cpu:%-10s %s, %d float lanes%s\n", levels[i].name, levels[i].arch, levels[i].lanes,
                    host_has(&levels[i]) ? ", runs here" : "");
#endif
    const char *nvrtc = cg_nvrtc_version(out->arena, yir_diags_new(out->arena, NULL, NULL));
    for (size_t i = 0; i < YIR_COUNT(gpus); i++)
        yir_str_fmt(out, "cuda:%-9s %s, by %s\n", gpus[i].name, gpus[i].what, nvrtc ? nvrtc : "NVRTC, which is not here");
}
