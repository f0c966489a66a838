/* Damaged modules as the compiler writes them: every bit of a small one, and much of a whole YOLO. Nothing of a damaged
 * file may be loaded. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "longer.h"
#include "modbuild.h"
#include "network.h"
#include "runtime/block.h"

/* The module at 64-byte aligned memory, as yolort_load reads it without a copy. */
struct image {
    uint8_t *bytes;
    size_t size;
};

static void compile(struct image *im, const char *model, const char *scale, int side)
{
    yoloc_opts o;
    yoloc_result r = {0};
    yoloc_opts_init(&o, sizeof o);
    o.scale = scale;
    o.height = o.width = side;
    o.batch = 2;
    yoloc *c = test_compiler(&o);
    cr_assert(c);
    yoloc_status s = yoloc_compile(c, model, "rule", &r);
    yoloc_close(c);
    if (s == YOLOC_RESOURCE) cr_skip("nothing here compiles for this CPU");
    cr_assert_eq(s, YOLOC_OK);
    im->size = r.size;
    im->bytes = aligned_alloc(64, (r.size + 2 * 64 - 1) / 64 * 64);
    cr_assert(im->bytes);
    memcpy(im->bytes, r.bytes, r.size);
    yoloc_free_result(&r);
}

static void compile_tiny(struct image *im)
{
    compile(im, "tests/tiny.yaml", NULL, 32);
    cr_assert_leq(im->size, 64 << 10);
}

static yolort_status load(const struct image *im, size_t size)
{
    yolort_module *m = NULL;
    yolort_status s = yolort_load(&m, im->bytes, size, NULL, 0);
    cr_assert_eq(m != NULL, s == YOLORT_OK);
    yolort_module_free(m);
    return s;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Before the digest only the magic, the versions and the size are looked at. */
static void expect_refused(const struct image *im, size_t bit)
{
    yolort_status s = load(im, im->size);
    cr_assert_neq(s, YOLORT_OK, "bit %zu", bit);
    cr_assert(bit < offsetof(struct ym_header, digest) * 8 || s == YOLORT_INTEGRITY, "bit %zu: %s", bit,
              yolort_status_name(s));
}

Test(damage, every_bit)
{
    struct image im;
    compile_tiny(&im);
    /* A sanitizer is slow: there, every 13th, so that each place in a byte is met. */
    size_t step = TEST_SANITIZED && test_count(1, 0) ? 13 : 1, done = 0;
    for (size_t bit = 0; bit < im.size * 8; bit += step, done++) {
        im.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect_refused(&im, bit);
        im.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    cr_assert_geq(done, 8 * im.size / 13);
    cr_expect_eq(load(&im, im.size), YOLORT_OK);
    free(im.bytes);
}

/* The compiler's own reader of modules, which inspecting and compiling again use. */
Test(damage, every_bit_to_the_compiler)
{
    struct image im;
    yoloc_opts o;
    yoloc *c = NULL;
    compile_tiny(&im);
    yoloc_opts_init(&o, sizeof o);
    cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
    for (size_t bit = 0; bit < im.size * 8; bit += (size_t)test_count(61, 1)) {
        yoloc_result r = {0};
        im.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert_eq(yoloc_inspect_text(c, im.bytes, im.size, "summary", &r), YOLOC_INPUT, "bit %zu", bit);
        im.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    yoloc_close(c);
    free(im.bytes);
}

/* --- random damage of a whole network ----------------------------------------------------------------------------- */

enum { BLOCK = 4096 };

/* `kind` of damage at a random place; what was there is kept for undo. */
struct wound {
    size_t at[2], size;
    uint8_t old[2][BLOCK];
};

static void flip_bit(const struct image *im, struct wound *w, uint64_t r)
{
    w->size = 1;
    im->bytes[w->at[0]] ^= (uint8_t)(1 << r % 8);
}

static void burst(const struct image *im, struct wound *w, uint64_t r)
{
    w->size = 1 + r % 8;
    for (size_t i = 0; i < w->size; i++) im->bytes[w->at[0] + i] ^= (uint8_t)(1 + (r >> (8 * i) & 0xff) % 255);
}

static void swap_blocks(const struct image *im, struct wound *w, uint64_t r)
{
    (void)r;
    w->size = BLOCK;
    memcpy(im->bytes + w->at[0], w->old[1], BLOCK);
    memcpy(im->bytes + w->at[1], w->old[0], BLOCK);
}

static void zero_block(const struct image *im, struct wound *w, uint64_t r)
{
    (void)r;
    w->size = BLOCK;
    memset(im->bytes + w->at[0], 0, BLOCK);
}

static const struct {
    const char *name;
    int normal, longer; /* how many */
    int blocks;         /* at multiples of BLOCK */
    void (*apply)(const struct image *im, struct wound *w, uint64_t r);
} kinds[] = {
    {"bit", 100, 20000, 0, flip_bit},
    {"burst", 100, 20000, 0, burst},
    {"swap", 25, 5000, 1, swap_blocks},
    {"zeroes", 15, 2000, 1, zero_block},
};

static void choose_places(const struct image *im, struct wound *w, int blocks, uint64_t *seed)
{
    for (int i = 0; i < 2; i++) {
        w->at[i] = (size_t)(next_random(seed) % (im->size - BLOCK));
        if (blocks) w->at[i] = w->at[i] / BLOCK * BLOCK;
        memcpy(w->old[i], im->bytes + w->at[i], BLOCK);
    }
}

/* Overlapping places are restored in the order that undoes them. */
static void heal(const struct image *im, const struct wound *w)
{
    memcpy(im->bytes + w->at[1], w->old[1], BLOCK);
    memcpy(im->bytes + w->at[0], w->old[0], BLOCK);
}

Test(damage, random_damage)
{
    struct image im;
    static struct wound w;
    uint64_t seed = 88172645463325252u;
    compile(&im, "models/yolov8.yaml", "n", 64);
    cr_assert_gt(im.size, 10 << 20);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int i = 0; i < test_count(kinds[k].normal, kinds[k].longer);) {
            choose_places(&im, &w, kinds[k].blocks, &seed);
            kinds[k].apply(&im, &w, next_random(&seed));
            int same = !memcmp(im.bytes + w.at[0], w.old[0], BLOCK) && !memcmp(im.bytes + w.at[1], w.old[1], BLOCK);
            if (!same) cr_assert_neq(load(&im, im.size), YOLORT_OK, "%s %d at %zu, %zu", kinds[k].name, i, w.at[0], w.at[1]);
            i += !same;
            heal(&im, &w);
        }
    }
    cr_expect_eq(load(&im, im.size), YOLORT_OK);
    free(im.bytes);
}

/* --- cut and extended ---------------------------------------------------------------------------------------------- */

static const struct ym_section *section_at(const struct image *im, uint32_t i)
{
    return (const struct ym_section *)(const void *)(im->bytes + sizeof(struct ym_header)) + i;
}

static uint32_t section_count(const struct image *im)
{
    return ((const struct ym_header *)(const void *)im->bytes)->nsection;
}

static void expect_cut(const struct image *im, uint64_t size)
{
    if (size < im->size) cr_assert_eq(load(im, (size_t)size), YOLORT_FORMAT, "%llu bytes", (unsigned long long)size);
}

Test(damage, lengths)
{
    struct image im;
    uint64_t seed = 7;
    compile(&im, "models/yolov8.yaml", "n", 64);
    for (uint32_t i = 0; i < section_count(&im); i++) {
        const struct ym_section *s = section_at(&im, i);
        for (int d = -1; d <= 1; d++) {
            expect_cut(&im, s->offset + (uint64_t)d);
            expect_cut(&im, s->offset + s->size + (uint64_t)d);
        }
    }
    for (int i = 0; i < 1000; i++) expect_cut(&im, next_random(&seed) % im.size);
    memset(im.bytes + im.size, 0, 64);
    for (size_t more = 1; more <= 64; more++) cr_assert_eq(load(&im, im.size + more), YOLORT_FORMAT);
    /* The same under a header that agrees and a digest that is right. */
    struct ym_header *h = (struct ym_header *)(void *)im.bytes;
    for (size_t size = im.size - 64; size <= im.size + 64; size += 128) {
        h->file_size = size;
        modbuild_sign(im.bytes, size);
        cr_assert_eq(load(&im, size), YOLORT_FORMAT, "%zu bytes", size);
    }
    free(im.bytes);
}

/* --- a file that changes while it is read -------------------------------------------------------------------------- */

struct race {
    char folder[64], path[96];
    struct image a, b; /* two good modules of one size */
    pid_t writer;
};

/* Never ends: writes one or the other from a random place on, in pieces, and cuts the file now and then. */
static void write_forever(const struct race *r)
{
    uint64_t seed = 99;
    int fd = open(r->path, O_WRONLY);
    alarm(600); /* should the test be killed */
    for (;;) {
        uint64_t v = next_random(&seed);
        const struct image *im = v & 1 ? &r->a : &r->b;
        size_t from = v & 6 ? 0 : (size_t)(v >> 8) % im->size, piece = 1 + (size_t)(v >> 40) % im->size;
        if ((v & 0x38) == 0 && ftruncate(fd, (off_t)from)) _exit(1);
        for (size_t at = from; at < im->size; at += piece) {
            size_t n = im->size - at < piece ? im->size - at : piece;
            if (pwrite(fd, im->bytes + at, n, (off_t)at) != (ssize_t)n) _exit(1);
        }
    }
}

static void start_race(struct race *r)
{
    const char *scratch = getenv("YOLOC_TEST_SCRATCH");
    compile_tiny(&r->a);
    r->b = r->a;
    r->b.bytes = aligned_alloc(64, (r->a.size + 127) / 64 * 64);
    memcpy(r->b.bytes, r->a.bytes, r->a.size);
    ((struct ym_header *)(void *)r->b.bytes)->producer ^= 0x10101; /* another name for who made it */
    modbuild_sign(r->b.bytes, r->b.size);
    snprintf(r->folder, sizeof r->folder, "%.40s/raceXXXXXX", scratch ? scratch : "/tmp");
    cr_assert(mkdtemp(r->folder));
    snprintf(r->path, sizeof r->path, "%s/m.yoloc", r->folder);
    FILE *f = fopen(r->path, "wb");
    cr_assert(f && fwrite(r->a.bytes, 1, r->a.size, f) == r->a.size && !fclose(f));
    r->writer = fork();
    if (!r->writer) write_forever(r);
    cr_assert_gt(r->writer, 0);
}

static void end_race(struct race *r)
{
    int status;
    kill(r->writer, SIGKILL);
    waitpid(r->writer, &status, 0);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the writer had to write all the time");
    unlink(r->path);
    rmdir(r->folder);
    free(r->a.bytes);
    free(r->b.bytes);
}

/* What loads is one of the two, whole. */
Test(damage, changes_while_it_loads)
{
    static struct race r;
    int seen[YOLORT_ARG + 1] = {0};
    start_race(&r);
    for (int i = 0; i < test_count(500, 5000); i++) {
        yolort_module *m = NULL;
        char text[256] = "";
        yolort_status s = yolort_load_file(&m, r.path, text, sizeof text);
        cr_assert(s == YOLORT_OK || s == YOLORT_INTEGRITY || s == YOLORT_IO || s == YOLORT_FORMAT, "%s", text);
        seen[s]++;
        if (m) cr_assert_str_eq(yolort_module_info(m)->model, "tiny");
        yolort_module_free(m);
    }
    end_race(&r);
    cr_expect_gt(seen[YOLORT_OK], 0);
    cr_expect_gt(seen[YOLORT_INTEGRITY] + seen[YOLORT_IO] + seen[YOLORT_FORMAT], 0, "nothing was met half written");
}

/* --- a right digest over wrong tables ------------------------------------------------------------------------------ */

/* Every field of every table: whatever the value, the file is refused, or runs inside its memory. */
struct field {
    uint32_t kind;
    size_t row, at, width;
    const char *name;
};

#define FIELD(kind, type, f) {kind, sizeof(struct type), offsetof(struct type, f), sizeof((struct type *)0)->f, #f}
#define ELEMENT(kind, type, f, i) {kind, sizeof(struct type), offsetof(struct type, f[i]), sizeof((struct type *)0)->f[i], #f}

static const struct field fields[] = {
    {0, sizeof(struct ym_section), offsetof(struct ym_section, kind), 4, "kind"},
    {0, sizeof(struct ym_section), offsetof(struct ym_section, index), 4, "index"},
    {0, sizeof(struct ym_section), offsetof(struct ym_section, offset), 8, "offset"},
    {0, sizeof(struct ym_section), offsetof(struct ym_section, size), 8, "size"},
    FIELD(YM_META, ym_meta, model), FIELD(YM_META, ym_meta, task), FIELD(YM_META, ym_meta, head),
    FIELD(YM_META, ym_meta, letterbox), FIELD(YM_META, ym_meta, nc), FIELD(YM_META, ym_meta, height),
    FIELD(YM_META, ym_meta, width), FIELD(YM_META, ym_meta, max_batch), FIELD(YM_META, ym_meta, stride),
    FIELD(YM_META, ym_meta, max_det), FIELD(YM_META, ym_meta, conf), FIELD(YM_META, ym_meta, iou),
    FIELD(YM_META, ym_meta, weights_from), FIELD(YM_META, ym_meta, options),
    ELEMENT(YM_META, ym_meta, weights_digest, 1),
    {YM_NAMES, 4, 0, 4, "name"},
    {YM_STRINGS, 1, 0, 1, "byte"},
    FIELD(YM_WEIGHT, ym_weight, name), FIELD(YM_WEIGHT, ym_weight, dtype), FIELD(YM_WEIGHT, ym_weight, rank),
    ELEMENT(YM_WEIGHT, ym_weight, pad, 0), ELEMENT(YM_WEIGHT, ym_weight, dim, 0),
    ELEMENT(YM_WEIGHT, ym_weight, dim, 5), FIELD(YM_WEIGHT, ym_weight, offset), FIELD(YM_WEIGHT, ym_weight, size),
    FIELD(YM_TARGET, ym_target, kind), FIELD(YM_TARGET, ym_target, name), FIELD(YM_TARGET, ym_target, arch),
    FIELD(YM_TARGET, ym_target, features), FIELD(YM_TARGET, ym_target, precision),
    FIELD(YM_TARGET, ym_target, compiler), FIELD(YM_TARGET, ym_target, arena_size),
    FIELD(YM_TARGET, ym_target, scratch_size), FIELD(YM_TARGET, ym_target, max_batch),
    FIELD(YM_TARGET, ym_target, height), FIELD(YM_TARGET, ym_target, width), FIELD(YM_TARGET, ym_target, checked),
    FIELD(YM_IO, ym_io, name), FIELD(YM_IO, ym_io, dtype), FIELD(YM_IO, ym_io, rank), FIELD(YM_IO, ym_io, flags),
    FIELD(YM_IO, ym_io, pad), ELEMENT(YM_IO, ym_io, dim, 0), ELEMENT(YM_IO, ym_io, dim, 1),
    ELEMENT(YM_IO, ym_io, dim, 2), ELEMENT(YM_IO, ym_io, dim, 5),
    FIELD(YM_KERNEL, ym_kernel, name), FIELD(YM_KERNEL, ym_kernel, family), FIELD(YM_KERNEL, ym_kernel, offset),
    FIELD(YM_KERNEL, ym_kernel, first_param), FIELD(YM_KERNEL, ym_kernel, nparam), FIELD(YM_KERNEL, ym_kernel, units),
    FIELD(YM_KERNEL, ym_kernel, scratch), FIELD(YM_KERNEL, ym_kernel, threads), FIELD(YM_KERNEL, ym_kernel, per_block),
    FIELD(YM_KERNEL, ym_kernel, shared), FIELD(YM_KERNEL, ym_kernel, most_blocks),
    FIELD(YM_KERNEL, ym_kernel, waits), FIELD(YM_KERNEL, ym_kernel, least_blocks),
    FIELD(YM_KERNEL, ym_kernel, first_map), FIELD(YM_KERNEL, ym_kernel, nmap),
    FIELD(YM_PARAM, ym_param, first), FIELD(YM_PARAM, ym_param, each), FIELD(YM_PARAM, ym_param, dtype),
    FIELD(YM_PARAM, ym_param, written), ELEMENT(YM_PARAM, ym_param, pad, 5),
    ELEMENT(YM_STEP, ym_step, need, 0), ELEMENT(YM_STEP, ym_step, need, 1), ELEMENT(YM_STEP, ym_step, want, 0),
    ELEMENT(YM_STEP, ym_step, want, 1), FIELD(YM_STEP, ym_step, kernel), FIELD(YM_STEP, ym_step, first_arg),
    FIELD(YM_STEP, ym_step, narg), FIELD(YM_STEP, ym_step, label), FIELD(YM_STEP, ym_step, line),
    FIELD(YM_STEP, ym_step, grain),
    FIELD(YM_STEP, ym_step, flops), FIELD(YM_STEP, ym_step, bytes),
    FIELD(YM_ARG, ym_arg, slot), FIELD(YM_ARG, ym_arg, io), FIELD(YM_ARG, ym_arg, offset),
};

/* 0, all ones and powers of two with their neighbours; the value there with its neighbours, half and double of it. */
static size_t list_values(uint64_t old, uint64_t *v)
{
    size_t n = 0;
    for (int bit = 0; bit < 64; bit += bit < 8 ? 1 : bit % 8 == 7 ? 1 : 7)
        for (int d = -1; d <= 1; d++) v[n++] = (1ull << bit) + (uint64_t)d;
    const uint64_t near[] = {0, UINT64_MAX, old - 1, old + 1, old / 2, old * 2, old ^ 0x80, old + 64, old - 64,
                             0x7fc00000, 0x7f800000, 0x7ff8000000000000, 0x7ff0000000000000, 0xbff0000000000000};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) v[n++] = near[i];
    return n;
}

enum { MOST_BYTES = 64 << 20 }; /* of memory that a run is tried with */

/* Runs once with everything bound, between guard pages. Any status will do, but not a crash. */
static void run_module(yolort_module *m)
{
    yolort_context *c = NULL;
    yolort_context_opts o;
    struct rt_block memory[YM_MAX_IO] = {{0}};
    size_t n = yolort_io_count(m), batch = (size_t)yolort_module_info(m)->max_batch;
    yolort_context_opts_init(&o, sizeof o);
    o.threads = 1;
    o.guard = 1;
    if (batch > 3) batch = 3;
    if (yolort_module_info(m)->arena_bytes > MOST_BYTES || yolort_context_new(&c, m, &o)) return;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = yolort_io_at(m, i)->bytes_per_image * batch;
        if (bytes <= MOST_BYTES && !rt_block_new(&memory[i], bytes, 1)) yolort_bind(c, i, memory[i].data, bytes);
    }
    yolort_run(c, (int)batch, NULL);
    yolort_context_free(c);
    for (size_t i = 0; i < n; i++) rt_block_free(&memory[i]);
}

struct tally {
    long refused, run;
};

/* The digest is right again. */
static void try_module(const struct image *im, const char *what, struct tally *t)
{
    yolort_module *m = NULL;
    char text[256];
    modbuild_sign(im->bytes, im->size);
    yolort_status s = yolort_load(&m, im->bytes, im->size, text, sizeof text);
    cr_assert(s == YOLORT_OK || s == YOLORT_FORMAT || s == YOLORT_LIMIT || s == YOLORT_INCOMPATIBLE || s == YOLORT_NO_DEVICE,
              "%s: %s", what, yolort_status_name(s));
    if (m) run_module(m);
    t->refused += s != YOLORT_OK;
    t->run += m != NULL;
    yolort_module_free(m);
}

/* One value in one field. */
static void try_value(const struct image *im, const struct field *f, uint8_t *at, uint64_t value, struct tally *t)
{
    uint64_t old = 0;
    memcpy(&old, at, f->width);
    memcpy(at, &value, f->width);
    try_module(im, f->name, t);
    memcpy(at, &old, f->width);
}

static void try_row(const struct image *im, const struct field *f, uint8_t *at, struct tally *t)
{
    uint64_t value[128], old = 0;
    memcpy(&old, at, f->width);
    size_t n = list_values(old, value);
    for (size_t i = 0; i < n; i++) {
        if (f->width < 8) value[i] &= (1ull << 8 * f->width) - 1;
        if (value[i] != old) try_value(im, f, at, value[i], t);
    }
}

/* Where the rows of the field begin, and how many there are. */
static uint8_t *rows_of(const struct image *im, const struct field *f, size_t *rows)
{
    uint8_t *table = im->bytes + sizeof(struct ym_header);
    size_t size = section_count(im) * sizeof(struct ym_section);
    for (uint32_t i = 0; f->kind && i < section_count(im); i++) {
        if (section_at(im, i)->kind != f->kind) continue;
        table = im->bytes + section_at(im, i)->offset;
        size = section_at(im, i)->size;
    }
    *rows = size / f->row;
    cr_assert_gt(*rows, 0, "%s", f->name);
    return table;
}

static void try_field(const struct image *im, const struct field *f, struct tally *t)
{
    size_t rows, most = (size_t)test_count(TEST_SANITIZED ? 3 : 8, 1 << 20);
    uint8_t *table = rows_of(im, f, &rows);
    size_t step = rows > most ? rows / most : 1;
    for (size_t r = 0; r < rows; r += step) try_row(im, f, table + r * f->row + f->at, t);
}

Test(damage, hostile_fields)
{
    struct image im;
    struct tally t = {0};
    compile_tiny(&im);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) try_field(&im, &fields[i], &t);
    modbuild_sign(im.bytes, im.size);
    cr_expect_eq(load(&im, im.size), YOLORT_OK);
    cr_expect(t.refused > 1000 && t.run > 1000, "%ld refused, %ld run", t.refused, t.run);
    printf("%ld refused, %ld run\n", t.refused, t.run);
    free(im.bytes);
}

/* Some fields at once, most with values that stand elsewhere in their table, as a hostile writer would choose them. */
Test(damage, hostile_tables)
{
    struct image im, copy;
    struct tally t = {0};
    uint64_t seed = 5, value[128];
    compile_tiny(&im);
    copy = im;
    copy.bytes = aligned_alloc(64, (im.size + 2 * 64 - 1) / 64 * 64);
    cr_assert(copy.bytes);
    for (long i = test_count(TEST_SANITIZED ? 1000 : 8000, 2000000); i > 0; i--) {
        memcpy(copy.bytes, im.bytes, im.size);
        for (uint64_t k = 1 + next_random(&seed) % 4; k > 0; k--) {
            const struct field *f = &fields[4 + next_random(&seed) % (sizeof fields / sizeof *fields - 4)];
            size_t rows;
            uint8_t *table = rows_of(&im, f, &rows) - im.bytes + copy.bytes;
            uint8_t *to = table + next_random(&seed) % rows * f->row + f->at;
            uint64_t new = 0;
            memcpy(&new, table + next_random(&seed) % rows * f->row + f->at, f->width);
            if (next_random(&seed) % 4 == 0) new = value[next_random(&seed) % list_values(new, value)];
            memcpy(to, &new, f->width);
        }
        try_module(&copy, "tables", &t);
    }
    cr_expect(t.refused > 100 && t.run > 100, "%ld refused, %ld run", t.refused, t.run);
    printf("%ld refused, %ld run\n", t.refused, t.run);
    free(copy.bytes);
    free(im.bytes);
}

/* --- the same for the compiler's reader ---------------------------------------------------------------------------- */

struct refusal {
    uint32_t kind;    /* of the section; 0: the header; SECTION_ROW + kind: its row in the table of sections */
    size_t at, width; /* of the field */
    uint64_t value;
    const char *part; /* of the text */
};

enum { SECTION_ROW = 100, GONE = 99 /* a kind of section that nobody asks for */ };

#define HEADER(f) 0, offsetof(struct ym_header, f), sizeof((struct ym_header *)0)->f
#define ROW(kind, f) SECTION_ROW + kind, offsetof(struct ym_section, f), sizeof((struct ym_section *)0)->f
#define META(f) YM_META, offsetof(struct ym_meta, f), sizeof((struct ym_meta *)0)->f
#define TARGET(f) YM_TARGET, offsetof(struct ym_target, f), sizeof((struct ym_target *)0)->f
#define WEIGHT(f) YM_WEIGHT, offsetof(struct ym_weight, f), sizeof((struct ym_weight *)0)->f

/* clang-format off */
static const struct refusal refusals[] = {
    {HEADER(magic), 0, "not a module of yoloc"},
    {HEADER(byte_order), 0x04030201, "byte order 0x04030201; this yoloc reads 0x01020304"},
    {HEADER(format), 1, "format 1; this yoloc reads format 4"},
    {HEADER(file_size), 64, "cut or has bytes too many"},
    {HEADER(features), 4, "needs reader features 0x4; this yoloc has none"},
    {HEADER(nsection), 65537, "more sections than are allowed"},
    {HEADER(nsection), 65535, "more sections than the file holds"},
    {ROW(YM_META, offset), 1ull << 40, "a section is not inside the file"},
    {ROW(YM_META, size), UINT64_MAX, "a section is not inside the file"},
    {ROW(YM_META, offset), 1, "a section is not aligned"},
    {ROW(YM_STRINGS, kind), GONE, "the strings do not end"},
    {ROW(YM_STRINGS, size), 0, "the strings do not end"},
    {ROW(YM_META, kind), GONE, "no description of the model"},
    {ROW(YM_META, size), 8, "no description of the model"},
    {META(nc), 0xffffffff, "not as many names"},
    {META(nc), 1 << 30, "not as many names"},
    {META(height), 0, "makes no sense"},
    {META(max_batch), 65537, "makes no sense"},
    {ROW(YM_IR, kind), GONE, "the module holds no IR"},
    {TARGET(precision), 1, "the precision of the module makes no sense"},
    {ROW(YM_WEIGHT, kind), GONE, "stripped of its canonical weights"},
    {ROW(YM_WEIGHTS, kind), GONE, "stripped of its canonical weights"},
    {WEIGHT(dtype), 200, "a weight has an unknown type"},
    {WEIGHT(rank), 1, "a weight has not the dims"},
    {WEIGHT(dim[0]), 1 << 20, "a weight has not the dims"},
    {WEIGHT(size), 4, "a weight has not the size of its type"},
    {WEIGHT(offset), 1ull << 40, "a weight lies outside the file"},
    {WEIGHT(name), 0, "a weight of the network is missing"},
};
/* clang-format on */

static void keep_text(void *user, const yoloc_diag *d)
{
    if (d->severity == 2) snprintf(user, 512, "%s", d->text);
}

/* `text` has 512 bytes. */
static yoloc_status recompile(const struct image *im, char *text)
{
    yoloc_opts o;
    yoloc_result r = {0};
    yoloc *c = NULL;
    text[0] = 0;
    yoloc_opts_init(&o, sizeof o);
    o.diag = keep_text;
    o.user = text;
    cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
    yoloc_status s = yoloc_recompile(c, im->bytes, im->size, &r);
    yoloc_free_result(&r);
    yoloc_close(c);
    return s;
}

static uint8_t *place_of(const struct image *im, const struct refusal *f)
{
    uint32_t kind = f->kind > SECTION_ROW ? f->kind - SECTION_ROW : f->kind, i = 0;
    if (!kind) return im->bytes + f->at;
    while (i < section_count(im) && section_at(im, i)->kind != kind) i++;
    cr_assert_lt(i, section_count(im));
    if (kind == f->kind) return im->bytes + section_at(im, i)->offset + f->at;
    return im->bytes + sizeof(struct ym_header) + i * sizeof(struct ym_section) + f->at;
}

Test(damage, compiler_refuses)
{
    struct image im;
    char text[512];
    compile_tiny(&im);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *f = &refusals[i];
        uint64_t old = 0;
        uint8_t *at = place_of(&im, f);
        memcpy(&old, at, f->width);
        memcpy(at, &f->value, f->width);
        modbuild_sign(im.bytes, im.size);
        cr_expect_eq(recompile(&im, text), YOLOC_INPUT, "%s", f->part);
        cr_expect(strstr(text, f->part), "\"%s\" is not in \"%s\"", f->part, text);
        memcpy(at, &old, f->width);
    }
    struct refusal model = {META(model), 0, ""};
    memset(place_of(&im, &model), 0xff, 4); /* a string outside is the empty one */
    modbuild_sign(im.bytes, im.size);
    cr_expect_eq(recompile(&im, text), YOLOC_OK, "%s", text);
    free(im.bytes);
}
