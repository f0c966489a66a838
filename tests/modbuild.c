#define XXH_INLINE_ALL
#include <xxhash.h>

#include "modbuild.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/*
 * Machine code of the kernels, of leaf functions without relocations, made by a C compiler from (with
 * struct ym_cpu_call *c, uint8_t *b = c->arg[0], float *o = c->arg[1], int64_t u from c->begin to c->end):
 *   copy   o[u] = ((float *)b)[u]                   widen  o[u] = b[u]
 *   fail   return 2                                 spin   ((int32_t *)b)[1] = 1; while (!*(volatile int32_t *)b);
 *   stray  b[*(int64_t *)o] = 1                     tally  ((int32_t *)b)[u] = 4 * u; scratch[0] = u, [1] = 3 * u
 */
struct blob {
    uint8_t size, byte[72];
};

/* clang-format off */
static const struct blob code[MB_NCODE] = {
#if defined(__x86_64__)
    [MB_COPY] = {44,
    {0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x4f, 0x18, 0x48, 0x39, 0xc8, 0x7d, 0x1c, 0x48, 0x8b, 0x37,
     0x48, 0x8b, 0x16, 0x48, 0x8b, 0x76, 0x08, 0xf3, 0x0f, 0x10, 0x04, 0x82, 0xf3, 0x0f, 0x11, 0x04,
     0x86, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xc1, 0x75, 0xee, 0x31, 0xc0, 0xc3}},
    [MB_WIDEN] = {50,
    {0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x4f, 0x18, 0x48, 0x39, 0xc8, 0x7d, 0x22, 0x48, 0x8b, 0x37,
     0x48, 0x8b, 0x16, 0x48, 0x8b, 0x76, 0x08, 0x0f, 0xb6, 0x3c, 0x02, 0x0f, 0x57, 0xc0, 0xf3, 0x0f,
     0x2a, 0xc7, 0xf3, 0x0f, 0x11, 0x04, 0x86, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xc1, 0x75, 0xe8, 0x31,
     0xc0, 0xc3}},
    [MB_FAIL] = {6,
    {0xb8, 0x02, 0x00, 0x00, 0x00, 0xc3}},
    [MB_SPIN] = {21,
    {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x00, 0xc7, 0x40, 0x04, 0x01, 0x00, 0x00, 0x00, 0x83, 0x38, 0x00,
     0x74, 0xfb, 0x31, 0xc0, 0xc3}},
    [MB_STRAY] = {20,
    {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x08, 0x48, 0x8b, 0x40, 0x08, 0x48, 0x8b, 0x00, 0xc6, 0x04, 0x01,
     0x01, 0x31, 0xc0, 0xc3}},
    [MB_TALLY] = {61,
    {0x48, 0x8b, 0x47, 0x10, 0x48, 0x3b, 0x47, 0x18, 0x7d, 0x30, 0x48, 0x8b, 0x17, 0x48, 0x8b, 0x4f,
     0x08, 0x4c, 0x8b, 0x02, 0x48, 0x8d, 0x34, 0x40, 0x8d, 0x14, 0x85, 0x00, 0x00, 0x00, 0x00, 0x48,
     0x89, 0x01, 0x48, 0x89, 0x71, 0x08, 0x41, 0x89, 0x14, 0x80, 0x48, 0xff, 0xc0, 0x48, 0x83, 0xc6,
     0x03, 0x83, 0xc2, 0x04, 0x48, 0x3b, 0x47, 0x18, 0x7c, 0xe5, 0x31, 0xc0, 0xc3}},
#elif defined(__aarch64__)
    [MB_COPY] = {56,
    {0x0a, 0x20, 0x41, 0xa9, 0x5f, 0x01, 0x08, 0xeb, 0x4a, 0x01, 0x00, 0x54, 0x09, 0x00, 0x40, 0xf9,
     0x08, 0x01, 0x0a, 0xcb, 0x2b, 0x25, 0x40, 0xa9, 0x29, 0x09, 0x0a, 0x8b, 0x6a, 0x09, 0x0a, 0x8b,
     0x40, 0x45, 0x40, 0xbc, 0x08, 0x05, 0x00, 0xf1, 0x20, 0x45, 0x00, 0xbc, 0xa1, 0xff, 0xff, 0x54,
     0xe0, 0x03, 0x1f, 0x2a, 0xc0, 0x03, 0x5f, 0xd6}},
    [MB_WIDEN] = {60,
    {0x0a, 0x20, 0x41, 0xa9, 0x5f, 0x01, 0x08, 0xeb, 0x6a, 0x01, 0x00, 0x54, 0x09, 0x00, 0x40, 0xf9,
     0x08, 0x01, 0x0a, 0xcb, 0x2b, 0x25, 0x40, 0xa9, 0x29, 0x09, 0x0a, 0x8b, 0x6a, 0x01, 0x0a, 0x8b,
     0x4b, 0x15, 0x40, 0x38, 0x08, 0x05, 0x00, 0xf1, 0x60, 0x01, 0x23, 0x1e, 0x20, 0x45, 0x00, 0xbc,
     0x81, 0xff, 0xff, 0x54, 0xe0, 0x03, 0x1f, 0x2a, 0xc0, 0x03, 0x5f, 0xd6}},
    [MB_FAIL] = {8,
    {0x40, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6}},
    [MB_SPIN] = {32,
    {0x08, 0x00, 0x40, 0xf9, 0x29, 0x00, 0x80, 0x52, 0x08, 0x01, 0x40, 0xf9, 0x09, 0x05, 0x00, 0xb9,
     0x09, 0x01, 0x40, 0xb9, 0xe9, 0xff, 0xff, 0x34, 0xe0, 0x03, 0x1f, 0x2a, 0xc0, 0x03, 0x5f, 0xd6}},
    [MB_STRAY] = {32,
    {0xe8, 0x03, 0x00, 0xaa, 0xe0, 0x03, 0x1f, 0x2a, 0x29, 0x00, 0x80, 0x52, 0x08, 0x01, 0x40, 0xf9,
     0x08, 0x29, 0x40, 0xa9, 0x4a, 0x01, 0x40, 0xf9, 0x09, 0x69, 0x2a, 0x38, 0xc0, 0x03, 0x5f, 0xd6}},
    [MB_TALLY] = {68,
    {0x08, 0x24, 0x41, 0xa9, 0x1f, 0x01, 0x09, 0xeb, 0xaa, 0x01, 0x00, 0x54, 0x0a, 0x24, 0x40, 0xa9,
     0x0b, 0x05, 0x08, 0x8b, 0x0c, 0x75, 0x1e, 0x53, 0x4a, 0x01, 0x40, 0xf9, 0x28, 0x2d, 0x00, 0xa9,
     0x6b, 0x0d, 0x00, 0x91, 0x0d, 0x0c, 0x40, 0xf9, 0x4c, 0x79, 0x28, 0xb8, 0x08, 0x05, 0x00, 0x91,
     0x8c, 0x11, 0x00, 0x11, 0x1f, 0x01, 0x0d, 0xeb, 0x2b, 0xff, 0xff, 0x54, 0xe0, 0x03, 0x1f, 0x2a,
     0xc0, 0x03, 0x5f, 0xd6}},
#else
#error "no machine code for tests on this CPU"
#endif
};
/* clang-format on */

#if defined(__x86_64__)
#define ARCH "x86_64"
#else
#define ARCH "aarch64"
#endif

enum { SPACING = 192, ENTRY = 64 /* in each slot: the seal lies before it */, BATCH = 2, SIDE = 8 };

/* slot: of a kernel, or behind them of a row of SERVICE. */
static void seal(const struct modbuild *b, uint32_t k, uint8_t *to)
{
    uint8_t bytes[YM_CONTRACT_BYTES];
    struct ym_kernel row = k < b->nkernel ? b->kernel[k] : b->service[k - b->nkernel];
    struct ym_seal s = {.magic = YM_SEAL_MAGIC, .offset = k * SPACING + ENTRY};
    XXH128_canonical_t digest;
    uint32_t maps = 0; /* of the kernels before, whatever first_map says */
    for (uint32_t i = 0; i < k && i < b->nkernel; i++) maps += b->kernel[i].nmap;
    if (row.nmap > YM_MAX_MAPS || maps + row.nmap > sizeof b->map / sizeof *b->map) row.nmap = maps = 0;
    if (row.nparam > YM_MAX_ARGS || row.first_param + row.nparam > sizeof b->param / sizeof *b->param) row.nparam = 0;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, ym_contract(&row, b->param + row.first_param, b->map + maps, bytes)));
    memcpy(s.contract, digest.digest, sizeof s.contract);
    memcpy(to, &s, sizeof s);
}

/* A cubin without anything in it; the mock driver takes it. */
static const Elf64_Ehdr cubin = {
    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
    .e_type = ET_EXEC,
    .e_machine = EM_CUDA,
    .e_ehsize = sizeof cubin,
    .e_phentsize = sizeof(Elf64_Phdr),
    .e_shentsize = sizeof(Elf64_Shdr),
};

static void put_code(const struct modbuild *b, uint8_t *to)
{
    for (uint32_t k = 0; k < b->nkernel + b->nservice && k < MB_MOST_KERNELS; k++) {
        seal(b, k, to + k * SPACING + ENTRY - sizeof(struct ym_seal));
        if (b->target[0].kind == YM_CUDA)
            memcpy(to + k * SPACING + ENTRY, &cubin, sizeof cubin);
        else
            memcpy(to + k * SPACING + ENTRY, code[b->code[k]].byte, code[b->code[k]].size);
    }
}

void modbuild_cuda(struct modbuild *b, const char *arch)
{
    b->target[0].kind = YM_CUDA;
    b->target[0].arch = modbuild_string(b, arch);
    b->target[0].features = 0;
    for (uint32_t i = 0; i < b->nkernel; i++) b->kernel[i].threads = b->kernel[i].per_block = 128;
}

void modbuild_service(struct modbuild *b)
{
    uint32_t slot = b->nkernel + b->nservice;
    if (slot >= MB_MOST_KERNELS || b->nservice >= sizeof b->service / sizeof *b->service) abort();
    b->service[b->nservice++] = (struct ym_kernel){.name = modbuild_string(b, "service"), .offset = slot * SPACING + ENTRY, .units = YM_SERVICE_VERSION};
}

uint32_t modbuild_kernel(struct modbuild *b, enum modbuild_code what, int64_t units, const struct ym_param *p, uint32_t n)
{
    uint32_t k = b->nkernel++;
    if (k >= MB_MOST_KERNELS || b->nparam + n > sizeof b->param / sizeof *b->param) abort();
    b->code[k] = what;
    b->kernel[k] = (struct ym_kernel){.name = modbuild_string(b, "kernel"),
                                      .family = modbuild_string(b, "hand"),
                                      .first_param = b->nparam,
                                      .nparam = n,
                                      .offset = k * SPACING + ENTRY,
                                      .units = units};
    memcpy(b->param + b->nparam, p, n * sizeof *p);
    b->nparam += n;
    return k;
}

uint32_t modbuild_string(struct modbuild *b, const char *text)
{
    size_t n = strlen(text) + 1;
    uint32_t at = b->nstrings;
    if (b->nstrings + n > sizeof b->strings) abort();
    memcpy(b->strings + at, text, n);
    b->nstrings += (uint32_t)n;
    return at;
}

static void init_io(struct modbuild *b, const char *name, int dtype, int flags, const int64_t *dim, int rank)
{
    struct ym_io *io = &b->io[b->nio++];
    io->name = modbuild_string(b, name);
    io->dtype = (uint8_t)dtype;
    io->rank = (uint8_t)rank;
    io->flags = (uint8_t)flags;
    memcpy(io->dim, dim, (size_t)rank * sizeof *dim);
}

/* from, to: an input or output, -1 for the arena, -2 for the constants. */
static void init_step(struct modbuild *b, enum modbuild_code what, int from, int to, uint64_t want, int64_t units)
{
    struct ym_step *s = &b->step[b->nstep++];
    const int slots[] = {from, to};
    uint64_t wide = (uint64_t)units * sizeof(float);
    struct ym_param p[] = {{.first = wide, .each = wide}, {.first = wide, .each = wide, .written = 1}};
    if (what == MB_WIDEN) p[0] = (struct ym_param){.first = wide / 4, .each = wide / 4, .dtype = 4};
    s->kernel = modbuild_kernel(b, what, units, p, 2);
    s->first_arg = b->narg;
    s->narg = 2;
    for (int i = 0; i < 2; i++)
        b->arg[b->narg++] = (struct ym_arg){
            .slot = slots[i] == -1 ? YM_SLOT_ARENA : slots[i] == -2 ? YM_SLOT_CONSTANT : YM_SLOT_IO,
            .io = slots[i] < 0 ? 0 : (uint32_t)slots[i],
        };
    if (from >= 0) s->need[0] = 1ull << from;
    s->want[0] = 1ull << want;
    s->label = modbuild_string(b, "model.0 step");
    s->line = (int32_t)b->nstep;
    s->grain = 16;
    s->flops = 2 * (double)units;
    s->bytes = 8 * (double)units;
}

static void init_shared(struct modbuild *b)
{
    b->header = (struct ym_header){.format = YM_FORMAT, .byte_order = YM_BYTE_ORDER, .producer = 0x00010203};
    memcpy(b->header.magic, YM_MAGIC, sizeof b->header.magic);
    b->nstrings = 1;
    b->meta = (struct ym_meta){
        .model = modbuild_string(b, "tiny"),
        .task = modbuild_string(b, "detect"),
        .head = 1,
        .nc = 2,
        .height = SIDE,
        .width = SIDE,
        .max_batch = BATCH,
        .stride = 4,
        .max_det = 300,
        .conf = 0.25f,
        .iou = 0.5f,
    };
    b->name[b->nname++] = modbuild_string(b, "cat");
    b->name[b->nname++] = modbuild_string(b, "dog");
    b->weight[0] = (struct ym_weight){.name = modbuild_string(b, "model.0.conv.weight"), .rank = 2, .dim = {4, 4}};
    b->weight[0].size = sizeof b->weights;
    b->nweight = 1;
    for (int i = 0; i < MB_WEIGHT_FLOATS; i++) b->weights[i] = (float)i;
}

static void init_target(struct modbuild *b)
{
    b->target[0] = (struct ym_target){
        .kind = 1,
        .name = modbuild_string(b, "cpu:test"),
        .arch = modbuild_string(b, ARCH),
        .precision = modbuild_string(b, "f32"),
        .compiler = modbuild_string(b, "by hand"),
        .arena_size = MB_ELEMENTS * BATCH * sizeof(float),
        .scratch_size = 64,
        .max_batch = BATCH,
        .height = SIDE,
        .width = SIDE,
        .checked = 1,
    };
    b->ntarget = 1;
}

void modbuild_init(struct modbuild *b)
{
    /* Two images of element-major rows: cx of both rows, cy of both, ... class scores. */
    static const float boxes[] = {2, 6, 2, 6, 2, 4, 2, 4, 0.9f, 0, 0, 0.8f, 4, 0, 4, 0, 2, 1, 4, 1, 0, 0, 0.7f, 0};
    memset(b, 0, sizeof *b);
    init_shared(b);
    init_target(b);
    memcpy(b->constant, boxes, sizeof boxes);
    b->nconstant = sizeof boxes / sizeof *boxes;
    init_io(b, "input_u8", 4, 0, (const int64_t[]){BATCH, SIDE, SIDE, 3}, 4);
    init_io(b, "images", 0, 0, (const int64_t[]){BATCH, 3, SIDE, SIDE}, 4);
    init_io(b, "decoded", 0, YM_IO_OUTPUT, (const int64_t[]){BATCH, MB_ROW, MB_ROWS}, 3);
    init_io(b, "echo", 0, YM_IO_OUTPUT | YM_IO_LAYER, (const int64_t[]){BATCH, MB_ELEMENTS}, 2);
    init_step(b, MB_WIDEN, MB_INPUT_U8, -1, MB_ECHO, MB_ELEMENTS);
    init_step(b, MB_COPY, MB_IMAGES, -1, MB_ECHO, MB_ELEMENTS);
    init_step(b, MB_COPY, -1, MB_ECHO, MB_ECHO, MB_ELEMENTS);
    init_step(b, MB_COPY, -2, MB_DECODED, MB_DECODED, MB_ROW * MB_ROWS);
}

const double modbuild_factor[4] = {0.5, 2, -1, 1e-3};

void modbuild_constants(struct modbuild *b)
{
    enum { FACTORS = 128 };
    memcpy((char *)b->constant + FACTORS, modbuild_factor, sizeof modbuild_factor);
    b->nconstant = (FACTORS + sizeof modbuild_factor) / sizeof *b->constant;
    b->weight[1] = (struct ym_weight){.name = b->weight[0].name, .dtype = 1, .rank = 2, .dim = {2, 3}, .size = 12};
    b->nweight = 2;
    b->row[b->nrow++] = (struct ym_constant){.size = 96, .weight = YM_ANY};
    b->row[b->nrow++] =
        (struct ym_constant){.offset = 128, .size = 128, .from = FACTORS, .arg = 8, .packing = YM_PACK_OBLOCK, .scaled = 1};
    b->row[b->nrow++] = (struct ym_constant){.offset = 256, .size = 24, .weight = 1};
    b->row[b->nrow++] = (struct ym_constant){.offset = 320, .size = 128, .arg = 8, .packing = YM_PACK_DW};
}

/* --- the file ------------------------------------------------------------------------------------------------- */

struct part {
    uint32_t kind, index;
    const void *bytes;
    size_t size;
};

static size_t align_up(size_t n)
{
    return (n + YM_ALIGN - 1) / YM_ALIGN * YM_ALIGN;
}

static uint32_t list_parts(struct modbuild *b, const uint8_t *blob, struct part *part)
{
    struct part all[] = {
        {YM_STRINGS, 0, b->strings, b->nstrings},
        {YM_META, 0, &b->meta, sizeof b->meta},
        {YM_NAMES, 0, b->name, b->nname * sizeof *b->name},
        {YM_IR, 0, "in %images", 10},
        {YM_WEIGHT, 0, b->weight, b->nweight * sizeof *b->weight},
        {YM_WEIGHTS, 0, b->weights, sizeof b->weights},
        {YM_TARGET, 0, NULL, sizeof *b->target},
        {YM_IO, 0, b->io, b->nio * sizeof *b->io},
        {YM_KERNEL, 0, b->kernel, b->nkernel * sizeof *b->kernel},
        {YM_PARAM, 0, b->param, b->nparam * sizeof *b->param},
        {YM_MAP, 0, b->map, b->nmap * sizeof *b->map},
        {YM_STEP, 0, b->step, b->nstep * sizeof *b->step},
        {YM_ENGINE, 0, b->engine, b->nengine * sizeof *b->engine},
        {YM_ARG, 0, b->arg, b->narg * sizeof *b->arg},
        {YM_CODE, 0, blob, (b->nkernel + b->nservice) * SPACING},
        {YM_SERVICE, 0, b->service, b->nservice * sizeof *b->service},
        {YM_CONSTANTS, 0, b->constant, b->nconstant * sizeof *b->constant},
        {YM_CONSTANT, 0, b->row, b->nrow * sizeof *b->row},
    };
    uint32_t n = 0;
    for (uint32_t t = 0; t < b->ntarget; t++) {
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            struct part p = all[i];
            int none = (p.kind == YM_SERVICE && !b->nservice) || (p.kind == YM_CONSTANT && !b->nrow) || (p.kind == YM_MAP && !b->nmap) ||
                       (p.kind == YM_ENGINE && !b->nengine);
            if ((b->without >> p.kind & 1) || (t && p.kind < YM_TARGET) || none) continue;
            p.index = t;
            if (p.kind == YM_TARGET) p.bytes = &b->target[t];
            p.size -= b->cut >> p.kind & 1;
            if (b->empty >> p.kind & 1) p.size = 0;
            part[n++] = p;
        }
    }
    return n;
}

uint8_t *modbuild_finish(struct modbuild *b, size_t *size)
{
    uint8_t blob[MB_MOST_KERNELS * SPACING] = {0};
    struct part part[32];
    put_code(b, blob);
    uint32_t n = list_parts(b, blob, part);
    size_t end = sizeof b->header + n * sizeof(struct ym_section);
    for (uint32_t i = 0; i < n; i++) end = align_up(end) + part[i].size;
    *size = align_up(end);
    uint8_t *bytes = aligned_alloc(YM_ALIGN, *size);
    if (!bytes) abort();
    memset(bytes, 0, *size);
    if (!b->header.ntarget) b->header.ntarget = b->ntarget;
    b->header.nsection = n;
    b->header.file_size = *size;
    memcpy(bytes, &b->header, sizeof b->header);
    end = sizeof b->header + n * sizeof(struct ym_section);
    for (uint32_t i = 0; i < n; i++) {
        struct ym_section s = {part[i].kind, part[i].index, align_up(end), part[i].size};
        memcpy(bytes + sizeof b->header + i * sizeof s, &s, sizeof s);
        memcpy(bytes + s.offset, part[i].bytes, part[i].size);
        end = (size_t)s.offset + part[i].size;
    }
    modbuild_sign(bytes, *size);
    return bytes;
}

void modbuild_sign(uint8_t *bytes, size_t size)
{
    struct ym_header *h = (struct ym_header *)(void *)bytes;
    XXH128_canonical_t digest;
    memset(h->digest, 0, sizeof h->digest);
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, size));
    memcpy(h->digest, digest.digest, sizeof h->digest);
}
