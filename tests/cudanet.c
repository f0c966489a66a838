#include "cudanet.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kb_cuda.h"
#include "cuda/hostmap.h"
#include "randnet.h"

void cudanet_add(struct yir_str *text, const struct cg_program *p)
{
    for (uint32_t i = 0; i < p->nkernel; i++) {
        char head[256];
        snprintf(head, sizeof head, " %s(\n", p->kernel[i].symbol);
        if (text->len && strstr(text->text, head)) continue;
        yir_str_fmt(text, "/* %s */\n", p->kernel[i].label);
        kb_cuda_text(text, &p->kernel[i], p->opts.max_batch);
    }
}

void *cudanet_load(struct yir_arena *a, const struct yir_str *text)
{
    const char *scratch = getenv("YOLOC_TEST_SCRATCH");
    char *folder = yir_format(a, "%s/cudanet.XXXXXX", scratch ? scratch : P_tmpdir);
    cr_assert(mkdtemp(folder));
    FILE *f = fopen(yir_format(a, "%s/k.cu", folder), "w");
    cr_assert(f && fwrite(text->text, 1, text->len, f) == text->len && !fclose(f));
    const char *so = yir_format(a, "%s/k.so", folder);
    if (system(yir_format(a, "bash tests/cuda/host.sh '%s/k.cu' '%s'", folder, so)))
        cr_assert_fail("the kernels do not compile for the host: %s", folder);
    void *library = dlopen(so, RTLD_NOW);
    cr_assert(library, "%s", dlerror());
    cr_expect_eq(system(yir_format(a, "rm -r '%s'", folder)), 0);
    return library;
}

/* Numbers that both have exactly. */
static void fill_input(const struct yir_tdesc *d, uint64_t n, uint64_t state, void *bytes, double *ref)
{
    for (uint64_t k = 0; k < n; k++) {
        double x = (double)randnet_float(&state);
        yir_dtype_store(d->dtype, bytes, k, d->dtype == YIR_U8 ? floor((x + 1) * 128) : x);
        ref[k] = yir_dtype_load(d->dtype, bytes, k);
    }
}

struct cudanet cudanet_new(struct yir_arena *a, const struct yir_func *f, uint64_t seed)
{
    enum { ALIGN = 64, MORE = 256 };
    struct cudanet m = {f, yir_alloc_n(a, f->nbuf, sizeof(unsigned char *)), yir_alloc_n(a, f->nbuf, sizeof(double *))};
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        unsigned char *bytes = yir_alloc(a, b->bytes + MORE);
        bytes += ALIGN - (uintptr_t)bytes % ALIGN;
        memset(bytes, 0xff, b->bytes);
        m.bytes[i] = bytes;
        m.ref[i] = yir_alloc_n(a, b->bytes, sizeof(double));
        for (uint64_t k = 0; k < b->bytes; k++) m.ref[i][k] = NAN;
        if (b->kind != YIR_BUF_IN) continue;
        const struct yir_tdesc *d = yir_tdesc(f->types, f->input[b->io].type);
        fill_input(d, b->bytes / yir_dtype_size(d->dtype), i + seed, bytes, m.ref[i]);
    }
    return m;
}

/* Where memory i of the kernel is: packed weights, or a place in a buffer. */
static void *memory_of(struct yir_arena *a, const struct cudanet *m, const struct kb_mem *mem, double **ref)
{
    enum { ALIGN = 64 };
    size_t size = yir_dtype_size(mem->dtype);
    if (mem->kind == KB_MEM_WEIGHT) {
        const struct yir_weight *w = &m->f->weight[yir_index(mem->ref)];
        unsigned char *packed = yir_alloc_n(a, (size_t)mem->elems + ALIGN, size);
        packed += ALIGN - (uintptr_t)packed % ALIGN;
        cg_pack(yir_tdesc(m->f->types, w->type), w->data, mem->packing, mem->pack_arg, packed);
        *ref = yir_alloc_n(a, (size_t)mem->elems, sizeof(double));
        for (int64_t k = 0; k < mem->elems; k++) (*ref)[k] = yir_dtype_load(mem->dtype, packed, (size_t)k);
        return packed;
    }
    const struct yir_place input = {.buf = yir_index(mem->ref) + 1};
    const struct yir_place *at = yir_kind(mem->ref) == YIR_INP ? &input : &m->f->place[yir_index(mem->ref)];
    *ref = m->ref[at->buf - 1] + at->offset / size;
    return m->bytes[at->buf - 1] + at->offset;
}

/* As the runtime counts them. */
static unsigned count_blocks(const struct cg_launch *l, long long total, int multiprocessors)
{
    long long n = (total + l->per_block - 1) / l->per_block, most = (long long)l->most_blocks * multiprocessors;
    if (most && most < l->least_blocks) most = l->least_blocks;
    return (unsigned)(most && n > most ? most : n);
}

static struct host_map map_of(const struct cg_map *m, void *const *mem, size_t size)
{
    struct host_map out = {.address = mem[m->mem], .rank = (uint32_t)m->rank, .swizzle = (uint32_t)m->swizzle, .size = (uint32_t)size};
    for (int i = 0; i < m->rank; i++) {
        out.dim[i] = m->dim[i];
        out.box[i] = (uint16_t)m->box[i];
        if (i) out.stride[i - 1] = m->stride[i];
    }
    return out;
}

void cudanet_run(struct yir_arena *a, const struct cudanet *m, const struct cg_program *p, void *library, int batch)
{
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_kernel *k = &p->kernel[i];
        void *mem[KB_MAX_MEM], *parameter[KB_MAX_MEM + 1 + CG_MAX_MAPS];
        _Alignas(64) struct host_map map[CG_MAX_MAPS];
        double *unused;
        void (*run)(unsigned blocks, unsigned threads, void **parameter);
        void *symbol = dlsym(library, yir_format(a, "%s_run", k->symbol));
        long long total = k->units * batch;
        cr_assert(symbol, "%s", k->symbol);
        memcpy(&run, &symbol, sizeof run);
        for (int j = 0; j < k->prog->nmem; j++) {
            mem[j] = memory_of(a, m, &k->prog->mem[j], &unused);
            parameter[j] = &mem[j];
        }
        parameter[k->prog->nmem] = &total;
        for (int j = 0; j < k->nmap; j++) {
            map[j] = map_of(&k->map[j], mem, yir_dtype_size(k->prog->mem[k->map[j].mem].dtype));
            parameter[k->prog->nmem + 1 + j] = &map[j];
        }
        /* Where blocks are as many as multiprocessors let there be, on a large GPU first: images may leave some without work. */
        if (k->launch.most_blocks && batch > 1) run(count_blocks(&k->launch, total, 132), (unsigned)k->launch.threads, parameter);
        run(count_blocks(&k->launch, total, 1), (unsigned)k->launch.threads, parameter);
    }
}

/* What a kernel has written, as its memory would hold it. */
static void round_written(const struct kb_mem *mem, double *v)
{
    for (int64_t k = 0; mem->written && k < mem->elems; k++) {
        char element[sizeof(double)];
        if (isnan(v[k])) continue;
        yir_dtype_store(mem->dtype, element, 0, v[k]);
        v[k] = yir_dtype_load(mem->dtype, element, 0);
    }
}

void cudanet_evaluate(struct yir_arena *a, const struct cudanet *m, const struct cg_program *p, int batch)
{
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct kb *b = p->kernel[i].prog;
        double *mem[KB_MAX_MEM] = {NULL};
        int bad = 0;
        for (int j = 0; j < b->nmem; j++) memory_of(a, m, &b->mem[j], &mem[j]);
        cr_assert_eq(kb_ref_run(a, b, mem, 0, b->units * batch, &bad), 0, "%s leaves memory %d", p->kernel[i].label, bad);
        for (int j = 0; j < b->nmem; j++) round_written(&b->mem[j], mem[j]);
    }
}

double cudanet_difference(const struct cudanet *m, uint32_t output, int batch)
{
    const struct yir_tdesc *d = yir_desc(m->f, m->f->output[output].ref);
    const double *want = m->ref[m->f->ninput + output];
    const void *got = m->bytes[m->f->ninput + output];
    int64_t n = yir_numel(d) / d->dim[0] * batch;
    double sum = 0, worst = 0;
    for (int64_t k = 0; k < n; k++) sum += fabs(want[k]);
    for (int64_t k = 0; k < n; k++) {
        double off = fabs(yir_dtype_load(d->dtype, got, (size_t)k) - want[k]) / fmax(fabs(want[k]), sum / (double)n);
        if (!(off <= worst)) worst = isnan(off) ? 1e30 : off;
    }
    return worst;
}
