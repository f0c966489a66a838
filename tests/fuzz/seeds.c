/* Writes the first inputs and the dictionaries of the fuzz targets: seeds FOLDER makes FOLDER/<target>/<number> and
 * FOLDER/<target>.dict. The same tree gives the same bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>
#include <png.h>

#include "cachebox.h"
#include "codegen/modwrite.h"
#include "datafile.h"
#include "elfbuild.h"
#include "frontend/model.h"
#include "modbuild.h"
#include "msan.h"
#include "passes/pass.h"
#include "picwrite.h"
#include "ptwrite.h"
#include "randnet.h"
#include "sign/yolosign.h"
#include "signkey.h"

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "seeds: %s %s\n", what, name);
    exit(1);
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) && errno != EEXIST) fail("no folder", path);
}

struct seeds {
    struct yir_arena *a;
    const char *folder, *target;
    const char *from; /* another folder, for those who need one */
    unsigned n;
};

static void start(struct seeds *s, const char *target)
{
    s->target = target;
    s->n = 0;
    make_folder(yir_format(s->a, "%s/%s", s->folder, target));
}

static void save(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f)) fail("not written:", path);
}

static void add(struct seeds *s, const void *bytes, size_t size)
{
    save(yir_format(s->a, "%s/%s/%02u", s->folder, s->target, s->n++), bytes, size);
}

/* --- checkpoints --------------------------------------------------------------------------------------------- */

static void zip(struct seeds *s)
{
    static const struct ptwrite_record r[] = {{"x/data.pkl", "hello", 5}, {"x/empty", "", 0}, {"x/data/0", "0123456789abcdef!", 17}};
    for (int form = 0; form < 8; form++) {
        struct ptwrite w;
        size_t len;
        ptwrite_init(&w, s->a);
        w.align = form & 1 ? 64 : 0;
        w.zip64 = form & 2;
        w.plain = form & 4;
        const uint8_t *bytes = ptwrite_archive(&w, r, YIR_COUNT(r), &len);
        add(s, bytes, len);
    }
}

#define ID(type, key, numel) "(U\7storagectorch\n" type "\nU\1" key "U\3cpu" numel "tQ"
#define VIEW(storage, offset, dims, strides) "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset dims strides "\x89}tR"

/* Behind the protocol, without STOP. */
static const struct {
    const char *ops;
    size_t n;
} codes[] = {
#define CODE(ops) {ops, sizeof(ops) - 1}
    CODE("}U\1a" VIEW(ID("FloatStorage", "0", "K\4"), "K\0", "K\2K\2\x86", "K\2K\1\x86") "s"),
    CODE("}U\1a" VIEW(ID("HalfStorage", "7", "K\4"), "K\1", "K\3\x85", "K\0\x85") "s"),
    CODE("}(U\1a" ID("LongStorage", "0", "K\1") "U\1b" VIEW(ID("BoolStorage", "1", "K\1"), "K\0", ")", ")") "u"),
    CODE("}U\1xcnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\2f8K\0K\1\x87R(K\3U\1<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tbC\10\0\0\0\0\0\0\xf0?\x86Rs"),
    CODE("ccollections\nOrderedDict\n]]U\1aaK\1aa\x85R"),
    CODE("}U\1sc__builtin__\nset\n](K\1NU\1xe\x85Rs"),
    CODE("}U\1bc_codecs\nencode\nX\3\0\0\0a\xc3\xbfU\6latin1\x86Rs"),
    CODE("}U\1oc__builtin__\ngetattr\ncm\nC\nU\7forward\x86Rs"),
    CODE("}U\1occopy_reg\n_reconstructor\ncm\nC\nc__builtin__\nobject\nN\x87R}U\1xK\1sbs"),
    CODE("}q\0(U\1lJ\xfe\xff\xff\xffU\1m\x8a\x09\0\0\0\0\0\0\0\0\1U\1n\x8a\1\xffU\1fG?\xf0\0\0\0\0\0\0U\1gh\0u"),
    CODE("}U\1p(]K\1aN20(1t\x8f(K\1\x90(K\2\x91\x86s"),
    CODE("\x95\x16\0\0\0\0\0\0\0}\x8c\1a\x94\x8c\4math\x94\x8c\3sin\x94\x93\x94K\5\x85\x94R\x94s"),
    CODE("}U\1tctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\ncm\nT\n(" ID("FloatStorage", "0", "K\1") "K\0)))}t}tRs"),
    CODE("}(X\1\0\0\0dctorch\nfloat16\nX\1\0\0\0zctorch\nSize\n(K\1K\2t\x85RX\1\0\0\0vctorch\ndevice\nU\3cpu\x85Ru"),
#undef CODE
};

static void pickle(struct seeds *s)
{
    struct ptwrite w;
    for (size_t i = 0; i < YIR_COUNT(codes); i++) {
        ptwrite_init(&w, s->a);
        ptwrite_raw(&w, codes[i].ops, codes[i].n);
        ptwrite_op(&w, '.');
        add(s, w.code.text, w.code.len);
    }
    ptwrite_init(&w, s->a);
    ptwrite_checkpoint(&w);
    ptwrite_op(&w, '.');
    add(s, w.code.text, w.code.len);
    ptwrite_init(&w, s->a);
    ptwrite_conv(&w, 1);
    ptwrite_op(&w, '.');
    add(s, w.code.text, w.code.len);
}

static void pt(struct seeds *s)
{
    for (int form = 0; form < 8; form++) {
        struct ptwrite w;
        size_t len;
        ptwrite_init(&w, s->a);
        w.align = form & 1 ? 64 : 0;
        w.zip64 = form & 2;
        w.legacy = form & 4;
        if (form & 3) ptwrite_conv(&w, 1);
        else ptwrite_floats(&w, 1, 4);
        const uint8_t *bytes = w.legacy ? ptwrite_legacy(&w, &len) : ptwrite_zip(&w, &len);
        add(s, bytes, len);
    }
    struct ptwrite w;
    size_t len;
    ptwrite_init(&w, s->a);
    ptwrite_checkpoint(&w);
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    add(s, bytes, len);
}

#define TENSOR(name, dtype, shape, range) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" range "}"

static void safetensors(struct seeds *s)
{
    static const struct {
        const char *text;
        size_t n;
    } rows[] = {
#define ROW(text) {text, sizeof(text) - 1}
        ROW("{}"),
        ROW("{" TENSOR("a", "F32", "[2]", "[0,8]") "}\0" "01234567"),
        ROW("{" TENSOR("module.a", "F16", "[]", "[0,2]") "," TENSOR("b", "U8", "[2,3]", "[2,8]") "}\0" "01234567"),
        ROW("{" TENSOR("b", "I64", "[1,1,1,1]", "[0,8]") "," TENSOR("none", "BF16", "[0,7]", "[8,8]") "}\0" "01234567"),
        ROW("{\"__metadata__\":{\"names\":\"cat,dog\",\"nc\":\"2\"}," TENSOR("\\u0061", "BOOL", "[8]", "[0,8]") "}\0" "01234567"),
        ROW("{\"__metadata__\":{\"names\":\"{0: 'cat', 1: 'dog'}\"}}"),
        ROW("{" TENSOR("a", "F8_E4M3", "[2]", "[0,2]") "}\0" "01"),
        ROW("\x08\0\0\0\0\0\0\0{}      "),
#undef ROW
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) add(s, rows[i].text, rows[i].n);
}

/* --- IR, modules, objects ------------------------------------------------------------------------------------ */

static void ir(struct seeds *s)
{
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct yir_str text = {.arena = s->a};
        yir_print(&text, randnet(s->a, yir_diags_new(s->a, NULL, NULL), seed), seed % 2 ? YIR_PRINT_LOCS : 0);
        add(s, text.text, text.len);
    }
}

static void module(struct seeds *s)
{
    for (int form = 0; form < 5; form++) {
        struct modbuild b;
        size_t n;
        modbuild_init(&b);
        if (form & 1) b.ntarget = 2;
        if (form & 2) b.nconstant = 0;
        if (form & 4) modbuild_constants(&b);
        uint8_t *bytes = modbuild_finish(&b, &n);
        add(s, bytes, n);
        free(bytes);
    }
}

/* A module with IR text and weights; its kernels have no code to speak of. */
static void add_written(struct seeds *s, const char *text, bool strip)
{
    static const char *const classes[] = {"cat", "dog"};
    enum { EACH = 2 * YM_ALIGN }; /* of code: the seal's place and as much behind it */
    _Static_assert(sizeof(struct ym_seal) <= YM_ALIGN, "a seal fits before the code");
    struct yir_diags *d = yir_diags_new(s->a, NULL, NULL);
    struct cg_module m = {.meta = {.model = "m", .task = "detect", .weights_from = "", .options = "", .height = 8, .width = 8,
                                   .nc = 2, .names = classes, .max_batch = 1, .stride = 1, .max_det = 1, .conf = 0.25f, .iou = 0.5f},
                          .strip = strip};
    struct cg_target target;
    struct pass_opts po;
    pass_opts_init(&po);
    struct yir_func *f = yir_parse(s->a, yir_types_new(s->a), d, "seed", text, strlen(text));
    for (uint32_t i = 0; f && i < f->nweight; i++)
        f->weight[i].data = yir_alloc_n(s->a, (size_t)yir_numel(yir_tdesc(f->types, f->weight[i].type)), sizeof(float));
    const struct yir_func *fused = f ? pass_run_all(f, d, &po) : NULL;
    if (!fused || cg_target_find(s->a, d, "cpu:x86-64-v2", &target)) fail("no module of", text);
    struct cg_program *p = cg_kernels(s->a, fused, &target, &(struct cg_opts){.max_batch = 1});
    struct cg_code code = {.size = (size_t)p->nkernel * EACH, .compiler = "none"};
    code.blob = yir_alloc(s->a, code.size);
    code.entry = yir_alloc_n(s->a, p->nkernel, sizeof *code.entry);
    for (uint32_t i = 0; i < p->nkernel; i++) code.entry[i] = i * EACH + YM_ALIGN;
    m.front = f;
    m.variant = &(struct cg_variant){&target, p, &code};
    m.nvariant = 1;
    void *bytes;
    size_t size;
    if (cg_module_write(s->a, d, &m, &bytes, &size)) fail("not written:", text);
    add(s, bytes, size);
    free(bytes);
}

static void written_modules(struct seeds *s)
{
    static const char *const texts[] = {
        "in  %images : f32[1,3,8,8] nchw\n%1 = relu %images : f32[1,3,8,8] nchw\nout y = %1\n",
        "in  %images : f32[1,3,8,8] nchw\nw   $a.weight : f32[4,3,1,1] oihw\n"
        "%1 = conv2d %images, $a.weight : f32[1,4,8,8] nchw\n%2 = silu %1 : f32[1,4,8,8] nchw\nout y = %2\n",
    };
    for (size_t i = 0; i < 2 * YIR_COUNT(texts); i++) add_written(s, texts[i / 2], i % 2);
}

static void flat(struct seeds *s)
{
    static const unsigned types[] = {R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_PC64, R_AARCH64_CALL26, R_AARCH64_ADR_PREL_PG_HI21};
    for (size_t i = 0; i < YIR_COUNT(types); i++) {
        struct elfbuild m;
        uint8_t bytes[1 + sizeof m];
        elfbuild_init(&m, i < 3 ? EM_X86_64 : EM_AARCH64);
        elfbuild_relocation(&m, 0, 20, types[i], EB_SYM_R, i < 3 ? -4 : 0);
        elfbuild_relocation(&m, 1, 32, types[i], EB_SYM_RODATA, i < 3 ? 4 : 0);
        bytes[0] = (uint8_t)i;
        memcpy(bytes + 1, &m, sizeof m);
        add(s, bytes, sizeof bytes);
    }
}

/* --- pictures, descriptions ---------------------------------------------------------------------------------- */

static void add_picture(struct seeds *s, struct picwrite p)
{
    add(s, p.p, p.n);
    free(p.p);
}

static void image(struct seeds *s)
{
    static const int spaces[] = {JCS_GRAYSCALE, JCS_RGB, JCS_CMYK}, components[] = {1, 3, 4};
    static const int colours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_PALETTE, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    for (int i = 0; i < 6; i++) add_picture(s, picwrite_jpeg(components[i / 2], spaces[i / 2], i, i % 2));
    for (int i = 0; i < 8; i++) add_picture(s, picwrite_png(colours[i / 2], colours[i / 2] == PNG_COLOR_TYPE_PALETTE ? 4 : i % 2 ? 16 : 8, i % 2, i));
}

static void yaml(struct seeds *s)
{
    static const char *const texts[] = {
        "nc: 2\nscales: {n: [0.33, 0.25, 1024]}\nbackbone:\n  - [-1, 1, Conv, [16, 3, 2]]\n  - [-1, 2, C2f, [32, True]]\nhead:\n"
        "  - [[-1, 0], 1, Concat, [1]]\n  - [[1, 2], 1, Detect, [nc]]\n",
        "nc: 80 # comment\ndepth_multiple: .33\nwidth_multiple: 0.5\nanchors:\n  - [10,13, 16,30, 33,23]\nbackbone:\n"
        "  [[-1, 1, Focus, [64, 3]],\n   [-1, 3, C3, [64]],\n   [-1, 1, nn.Upsample, [None, 2, 'nearest']]]\n"
        "head: [[[2], 1, Detect, [nc, anchors]]]\n",
        "a: ~\nb: [1e3, 0x1F, 1_000, .inf, -.NaN, 'q''q', \"\\x41\\u00e9\", true, off]\nc: {d: |\n  text\n  , e: >-\n  folded\n}\n",
        "? complex\n: value\n--- \n...\n",
        "nc: 2\nx: &x {activation: nn.ReLU(), nc: 3}\n<<: [*x, {ch: 3}]\nbackbone:\n  - &r [-1, 1, Conv, &a [16, 3, 2]]\n  - *r\n"
        "  - [-1, 1, DWConv, *a]\nhead:\n  - [-1, 1, Detect, [nc]]\n",
    };
    for (size_t i = 0; i < YIR_COUNT(texts); i++) add(s, texts[i], strlen(texts[i]));
}

/* --- signatures ---------------------------------------------------------------------------------------------- */

static void sign(struct seeds *s)
{
    static const char *const messages[] = {"", "a", "what is signed\n"};
    for (size_t i = 0; i < YIR_COUNT(messages); i++) {
        char signature[YOLOSIGN_TEXT];
        if (yolosign_make(sign_key_secret, strlen(sign_key_secret), messages[i], strlen(messages[i]), signature))
            fail("not signed:", messages[i]);
        const char *text = yir_format(s->a, "%s%s%s", sign_key_public, signature, messages[i]);
        add(s, text, strlen(text));
    }
    add(s, sign_key_secret, strlen(sign_key_secret));
}

/* --- dictionaries -------------------------------------------------------------------------------------------- */

static void put_word(struct yir_str *to, const void *bytes, size_t n)
{
    yir_str_fmt(to, "\"");
    for (size_t i = 0; i < n; i++) yir_str_fmt(to, "\\x%02x", ((const unsigned char *)bytes)[i]);
    yir_str_fmt(to, "\"\n");
}

static const char *const words_pickle[] = {
#define OP(byte, name, run, arg) (const char[]){(char)byte, 0},
#include "frontend/pickle.def"
#undef OP
#define NAME(module, name) "c" module "\n" name "\n",
#include "globals.def"
#undef NAME
    "X\7\0\0\0", "storage", "U\7storage", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "ema", "model",
    "state_dict", "module.", "_orig_mod.", "yaml", "names", "little_endian", NULL};

static const char *const words_ir[] = {
#define OP(name, lo, hi, cls, shape, attrs, traits, text) #name,
#include "ir/ops.def"
#undef OP
#define DTYPE(id, name, bits, acc, is_float) name,
#include "ir/dtypes.def"
#undef DTYPE
    "in  %", "out %", "w   $", "kernel ", " nchw", " nhwc", " oihw", "stride=", "pad=", "groups=", "dil=", "%1 = ", " -> b", " ld=",
    "{", "}\n", " @1:1", "1,1,1,1", "2147483648", "-1", NULL};

static const char *const words_safetensors[] = {
    "{\"", "\"dtype\":\"", "\"shape\":[", "\"data_offsets\":[", "\"__metadata__\":{", "\"names\":\"", "\"F32\"", "\"F16\"", "\"BF16\"",
    "\"F64\"", "\"I64\"", "\"I32\"", "\"U8\"", "\"BOOL\"", "9223372036854775807", "18446744073709551616", "4294967296", "-1", "1e3",
    "\\u0000", "\\ud800", "},", "]}", NULL};

static const char *const words_zip[] = {"PK\1\2", "PK\3\4", "PK\5\6", "PK\6\6", "PK\6\7", "PK\7\10", "data.pkl", "../", NULL};

static const char *const words_yaml[] = {
    "nc: ", "scales: ", "scale: ", "backbone:\n", "head:\n", "anchors: ", "depth_multiple: ", "width_multiple: ", "kpt_shape: ", "ch: ",
    "activation: ", "end2end: ", "reg_max: ", "names: ", "strides: ", "\n  - [-1, 1, ", "[[-1, 0], 1, ", "None", "True", "nc]", "anchors]",
    "'nearest'", "&a ", "*a", "!!str ", "<<: ", "? ", "|\n", ">-\n", "%YAML 1.1\n", "---\n", "\"\\u", ".inf", ".nan", "0x", "1e308",
    "2147483648", "nn.SiLU()", NULL};

static const char *const words_sign[] = {
    "yolosign-public-1 ", "yolosign-secret-1 ", "yolosign-signature-1 ", SIGN_KEY_POINT, SIGN_KEY_SEED, NULL};

static void save_dict(struct seeds *s, const char *target, const char *const *word, const char *more)
{
    struct yir_str text = {.arena = s->a};
    for (; *word; word++) put_word(&text, *word, strlen(*word));
    for (size_t n = 0; more && *more; more += n + (more[n] == '\n')) { /* the first word of each line */
        size_t first = strcspn(more, " (\n");
        n = strcspn(more, "\n");
        if (first) put_word(&text, more, first);
    }
    save(yir_format(s->a, "%s/%s.dict", s->folder, target), text.text, text.len);
}

static void dictionaries(struct seeds *s)
{
    struct yir_str modules = {.arena = s->a};
    fe_modules_list(&modules);
    save_dict(s, "zip", words_zip, NULL);
    save_dict(s, "pickle", words_pickle, NULL);
    save_dict(s, "ir", words_ir, NULL);
    save_dict(s, "safetensors", words_safetensors, NULL);
    save_dict(s, "sign", words_sign, NULL);
    save_dict(s, "yaml", words_yaml, modules.text);
}

/* --- caches -------------------------------------------------------------------------------------------------- */

static void add_database(struct seeds *s, const char *path, const char *change)
{
    size_t size;
    if (!cachebox_sql(path, change)) fail("refused:", change);
    char *bytes = test_file_read(yir_format(s->a, "%s/tuning.sqlite", path), &size);
    if (!bytes) fail("not read:", path);
    add(s, bytes, size);
    free(bytes);
}

/* In pages that are as small as they get. */
static void cachedb(struct seeds *s)
{
    static const char *const changes[] = {
        "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM",
        "PRAGMA user_version = 1",
        "UPDATE record SET config = hex(zeroblob(400)) WHERE threads = '2' AND made = 1600000001",
        "UPDATE record SET op = x'ff00', spread = NULL, sum = 5 WHERE made = 1600000002",
        "INSERT INTO claim VALUES(x'01', 1, 2, 3, 4, 'boot')",
        "CREATE VIEW v AS SELECT * FROM record",
        "PRAGMA user_version = 2",
    };
    char path[192];
    struct cachebox b;
    cachebox_path(path, true);
    cachebox_open(&b, path, 0);
    for (unsigned i = 0; i < 5; i++) {
        struct cachebox_key k;
        struct cg_tune_record r = cachebox_record(i);
        cachebox_key(&k, i);
        if (!cg_tunedb_store(b.db, &k.key, &r)) fail("no record", path);
    }
    cachebox_close(&b);
    for (size_t i = 0; i < YIR_COUNT(changes); i++) add_database(s, path, changes[i]);
    cachebox_remove(path);
}

static bool add_entry(void *user, const struct cg_artifact_info *i)
{
    struct seeds *s = user;
    size_t size;
    char *bytes = test_file_read(yir_format(s->a, "%s/objects/%.2s/%s", s->from, i->name, i->name), &size);
    if (!bytes) fail("not read:", i->name);
    add(s, bytes, size);
    free(bytes);
    return true;
}

static void artifact(struct seeds *s)
{
    static const struct cg_artifact_key keys[] = {{"kernel", "key", 3}, {"module", "key", 3}, {"kernel", "another key", 11}};
    static const char payload[500] = "bytes of a kernel";
    char path[192];
    struct cachebox b;
    cachebox_path(path, true);
    cachebox_open(&b, path, 0);
    for (size_t i = 0; i < YIR_COUNT(keys); i++)
        if (!cg_artifact_put(b.art, &keys[i], payload, i ? 17 * i : sizeof payload)) fail("no artifact", path);
    s->from = path;
    cg_artifacts_each(b.art, add_entry, s);
    cachebox_close(&b);
    cachebox_remove(path);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *target;
        void (*make)(struct seeds *s);
    } rows[] = {{"zip", zip},       {"pickle", pickle},           {"pt", pt},     {"safetensors", safetensors}, {"ir", ir}, {"module", module},
                {"modread", written_modules}, {"flat", flat}, {"image", image}, {"yaml", yaml}, {"sign", sign},
                {"cachedb", cachedb}, {"artifact", artifact}};
    if (argc != 2) fail("usage:", "seeds FOLDER");
    struct seeds s = {.a = yir_arena_new(NULL, NULL), .folder = argv[1]};
    make_folder(s.folder);
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        start(&s, rows[i].target);
        if (TEST_MSAN && (rows[i].make == cachedb || rows[i].make == artifact)) continue; /* SQLite is not made for it */
        rows[i].make(&s);
    }
    dictionaries(&s);
    yir_arena_free(s.a);
    return 0;
}
