/* SSA tensor IR: types, ops, functions; building, walking, text form, verifier. Indexes, not pointers, inside. */
#ifndef YIR_IR_H
#define YIR_IR_H

#include "diag.h"
#include "dtype.h"

#define YIR_MAX_RANK 6
#define YIR_MAX_DIM INT64_C(0x7fffffff)

/* --- types (types.c) ---------------------------------------------------------------------------------------- */

/* Order of the elements in memory. dim[] is always logical (n,c,h,w). */
enum yir_layout {
    YIR_ROW,  /* row-major, any rank but 4 */
    YIR_NCHW, /* rank 4, row-major */
    YIR_NHWC, /* rank 4, channels innermost */
    YIR_OIHW, /* rank 4 weights, row-major */
    YIR_NLAYOUT
};

typedef struct {
    uint32_t id;
} yir_type; /* interned in a yir_types: equal ids, equal types; 0: none */

struct yir_tdesc {
    enum yir_dtype dtype;
    enum yir_layout layout;
    int rank;
    int64_t dim[YIR_MAX_RANK];
};

struct yir_types; /* shared by all functions of one compile */
struct yir_types *yir_types_new(struct yir_arena *a);
yir_type yir_type_of(struct yir_types *t, const struct yir_tdesc *d);
const struct yir_tdesc *yir_tdesc(const struct yir_types *t, yir_type ty);
bool yir_tdesc_same(const struct yir_tdesc *a, const struct yir_tdesc *b);
int64_t yir_numel(const struct yir_tdesc *d);
/* Dense strides in elements, by layout. */
void yir_dense_strides(const struct yir_tdesc *d, int64_t stride[YIR_MAX_RANK]);
/* Layout that a value of this rank has unless something else is said: NCHW for 4, else ROW. */
enum yir_layout yir_default_layout(int rank);
const char *yir_layout_name(enum yir_layout l); /* "" for YIR_ROW */
bool yir_layout_by_name(const char *s, size_t n, enum yir_layout *out);
/* Strides of an NHWC value whose pixels lie ld elements apart (a run of channels in wider pixels); false on overflow. */
bool yir_pixel_strides(const struct yir_tdesc *d, int64_t ld, int64_t stride[YIR_MAX_RANK]);

/* --- references --------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t bits;
} yir_ref; /* kind:3 | index:29 */

enum yir_refkind { YIR_NIL, YIR_VAL, YIR_WGT, YIR_INP };
#define YIR_NONE ((yir_ref){0})
static inline yir_ref yir_mkref(enum yir_refkind k, uint32_t i)
{
    return (yir_ref){(uint32_t)k << 29 | i};
}
static inline enum yir_refkind yir_kind(yir_ref r)
{
    return (enum yir_refkind)(r.bits >> 29);
}
static inline uint32_t yir_index(yir_ref r)
{
    return r.bits & 0x1fffffffu;
}
static inline bool yir_same(yir_ref a, yir_ref b)
{
    return a.bits == b.bits;
}

/* --- op table (ops.c) --------------------------------------------------------------------------------------- */

enum yir_code {
    YIR_NOP,
#define OP(name, lo, hi, cls, shape, attrs, traits, text) YIR_##name,
#include "ops.def"
#undef OP
    YIR_NCODE
};

enum yir_opclass { YIR_EW, YIR_MOVE, YIR_WINDOW, YIR_CONTRACT, YIR_HEAD, YIR_EDGE };
enum { YIR_T_VIEW = 1, YIR_T_LANES = 2, YIR_T_COMM = 4, YIR_T_FREE = 8 };

/* Attribute structs; every field is an int32_t or float, so a schema can lay them out as words. Pads are top, left, bottom,
 * right; pairs are (vertical, horizontal). Attributes never hold the network's N, H or W. */
struct yir_a_none { int32_t unused; };
struct yir_a_conv { int32_t stride[2], pad[4], dil[2], groups; };
struct yir_a_eps { float eps; };
struct yir_a_slope { float slope; };
struct yir_a_axis { int32_t axis; };
struct yir_a_slice { int32_t axis, start, count; };
struct yir_a_factor { int32_t factor; };
struct yir_a_pad { int32_t pad[4]; float value; };
struct yir_a_pool { int32_t kernel[2], stride[2], pad[4]; };
struct yir_a_cast { int32_t dtype, layout; };         /* enum yir_dtype, enum yir_layout */
struct yir_a_box { int32_t bins; float stride; int32_t corners; };
struct yir_a_anchor { int32_t na; float stride; int32_t plain; }; /* plain: last columns that no sigmoid is applied to */
struct yir_a_stride { float stride; };
struct yir_a_affine { float mul, add; };
struct yir_a_deconv { int32_t stride[2], pad[2], grow[2], groups; }; /* grow: more rows and columns at the far ends */
struct yir_a_attn { int32_t heads, dim, qat, kat, areas; float scale; };
struct yir_a_attention { struct yir_a_attn score; int32_t values, vat; };
struct yir_a_mix { int32_t dim, at, areas; };
struct yir_a_resize { int32_t factor, corners; };
struct yir_a_count { int32_t count; };
struct yir_a_points { int32_t dims; float scale, shift, stride; };
struct yir_a_side { float side; };
struct yir_a_deform { int32_t heads, levels, level, points; };
struct yir_a_image { float div; int32_t bgr, dtype; };

struct yir_attr { /* one field of a schema */
    const char *name;
    uint16_t at, n;   /* word offset and count */
    char kind;        /* 'i' int, 'f' float, 'd' dtype by name, 'l' layout by name */
    int32_t dflt[4];  /* bits; not printed when equal */
};

struct yir_opinfo {
    const char *name, *text;
    uint8_t lo, hi;
    enum yir_opclass cls;
    unsigned traits;
    const struct yir_attr *attr;
    int nattr, nwords;
};
const struct yir_opinfo *yir_opinfo(enum yir_code c); /* c in 1 .. YIR_NCODE-1 */
bool yir_op_by_name(const char *s, size_t n, enum yir_code *out);
/* Fills the struct of the op's schema with its defaults. */
void yir_attr_defaults(enum yir_code c, void *attr);

/* --- functions (func.c) ------------------------------------------------------------------------------------- */

struct yir_op {
    uint16_t code;   /* enum yir_code */
    uint8_t nsrc;
    uint8_t flags;   /* YIR_F_* */
    yir_type type;
    uint32_t src;    /* first operand in func.ref[] */
    uint32_t attr;   /* first word in func.word[] */
    uint32_t kernel; /* 1 + index in func.kernel[]; 0: none (before fuse; views after it) */
    uint32_t loc;    /* index in func.loc[] */
};
_Static_assert(sizeof(struct yir_op) == 24, "op record grew");

/* Set by fuse. STORED: the value is written to memory by its kernel. VIEW: an alias of memory that others write: no code
 * and no kernel (concat, either: its operands live in it; slice: it lives in its operand). Neither, after fuse: computed
 * where it is read, inside its kernel. */
enum { YIR_F_STORED = 1, YIR_F_VIEW = 2 };

struct yir_place_of { /* source of an op: yaml position, and the module path "model.2.cv1" (or "") */
    struct yir_loc loc;
    const char *name;
};

struct yir_weight {
    const char *name;
    yir_type type;
    const void *data; /* dense row-major in the type's dtype; borrowed; NULL in functions parsed from text */
    /* Where a pass made it so: data is that of the front end's weight `origin`, times a factor for each index of dimension 0, in
     * double. */
    const char *origin;
    const double *factor;
};

struct yir_input {
    const char *name;
    yir_type type;
};

struct yir_output {
    const char *name;
    yir_ref ref;
    bool layer; /* extra output of --layers */
};

struct yir_kernel {
    const char *family; /* "" until code generation chose one */
    const char *knobs;  /* "tile=4 lanes=16", or "" */
};

enum yir_bufkind { YIR_BUF_ARENA, YIR_BUF_IN, YIR_BUF_OUT };
enum { YIR_BUF_ALIGN = 64 }; /* of buffers in the arena, bytes: a cache line, and the widest vector */

struct yir_buf {         /* after views */
    enum yir_bufkind kind;
    uint32_t io;         /* IN, OUT: index of the input or output */
    uint64_t bytes;      /* at the largest batch */
    uint64_t offset;     /* ARENA: in the arena, after memplan */
    uint32_t first, last; /* ops between which it is live, after memplan */
};

struct yir_place {       /* where a value lives; buf 0: nowhere */
    uint32_t buf;        /* 1 + index in func.buf[] */
    uint64_t offset;     /* bytes from the buffer's start, of element 0 */
    int64_t stride[YIR_MAX_RANK]; /* elements */
};

struct yir_func {
    struct yir_arena *arena;
    struct yir_types *types;
    struct yir_diags *diags;
    const char *name;
    float image_div; /* `images` = picture / image_div, channels reversed when image_bgr; 255 and false by default */
    bool image_bgr;

    struct yir_op *op; /* [1 .. nop-1]; 0 is YIR_NOP */
    uint32_t nop;
    yir_ref *ref;
    uint32_t nref;
    int32_t *word;
    uint32_t nword;
    struct yir_weight *weight;
    uint32_t nweight;
    struct yir_input *input;
    uint32_t ninput;
    struct yir_output *output;
    uint32_t noutput;
    struct yir_place_of *loc; /* [0]: unknown */
    uint32_t nloc, cur_loc;    /* cur_loc: of the ops emitted now */
    struct yir_kernel *kernel; /* after fuse */
    uint32_t nkernel;
    struct yir_buf *buf;       /* after views */
    uint32_t nbuf;
    struct yir_place *place;   /* [nop], after views; NULL before */
    uint64_t arena_size;       /* after memplan */

    size_t cap_op, cap_ref, cap_word, cap_weight, cap_input, cap_output, cap_loc, cap_kernel, cap_buf;
    struct yir_names *names;   /* weight and input names -> index */
};

struct yir_func *yir_func_new(struct yir_arena *a, struct yir_types *t, struct yir_diags *d, const char *name);

/* Adds; the name must be new (asserted). data is borrowed. */
yir_ref yir_add_input(struct yir_func *f, const char *name, yir_type ty);
yir_ref yir_add_weight(struct yir_func *f, const char *name, yir_type ty, const void *data);
yir_ref yir_keep_weight(struct yir_func *f, const struct yir_weight *w); /* of another function; with all that is known of it */
void yir_add_output(struct yir_func *f, const char *name, yir_ref r, bool layer);
yir_ref yir_find_weight(const struct yir_func *f, const char *name); /* NIL when absent */

/* The place ops emitted from here on come from; returns its number for yir_op.loc. */
uint32_t yir_set_loc(struct yir_func *f, struct yir_loc loc, const char *name);

/* Appends an op: checks arity, infers the type, keeps attr (the schema's struct; NULL: defaults). When the shapes do not fit,
 * reports E_SHAPE at the current place and returns NIL. A NIL operand gives NIL silently (already reported). */
yir_ref yir_emit(struct yir_func *f, enum yir_code c, const yir_ref *src, int nsrc, const void *attr);

yir_type yir_typeof(const struct yir_func *f, yir_ref r);
const struct yir_tdesc *yir_desc(const struct yir_func *f, yir_ref r);
static inline struct yir_op *yir_opof(const struct yir_func *f, yir_ref r)
{
    return &f->op[yir_index(r)];
}
static inline yir_ref yir_src(const struct yir_func *f, uint32_t op, int k)
{
    return f->ref[f->op[op].src + (uint32_t)k];
}
/* The op's attribute struct, to read as `const struct yir_a_conv *`. */
static inline const void *yir_attrs(const struct yir_func *f, uint32_t op)
{
    return &f->word[f->op[op].attr];
}

/* Type of an op from its operands, without appending; 0 after reporting when report is set. Used by emit and verify. */
yir_type yir_infer(struct yir_func *f, enum yir_code c, const yir_ref *src, int nsrc, const void *attr, bool report);

/* Rebuilding: a new function with the same inputs, weights and locs (indexes kept) and no ops and outputs. `map` has
 * old->nop entries: old value -> new reference; pass it to yir_map. yir_copy_op emits the old op with mapped operands. */
struct yir_func *yir_func_like(const struct yir_func *old);
struct yir_func *yir_func_bare(const struct yir_func *old); /* the same without the weights */
yir_ref yir_map(const yir_ref *map, yir_ref old);
yir_ref yir_copy_op(struct yir_func *f, const struct yir_func *old, uint32_t op, const yir_ref *map);
void yir_copy_outputs(struct yir_func *f, const struct yir_func *old, const yir_ref *map);

/* Number of readers of each value (outputs count), nop entries in the arena. */
uint32_t *yir_uses(const struct yir_func *f, struct yir_arena *a);

/* The same network with other input types (same rank and channels): every op is emitted again. NULL after reporting. */
struct yir_func *yir_retype(const struct yir_func *f, const yir_type *input_types);

/* --- text (print.c, parse.c) -------------------------------------------------------------------------------- */

/* Letters, digits, '.', '_' and '-': what names of inputs, weights and outputs are made of. */
bool yir_is_name_char(char c);

enum { YIR_PRINT_LOCS = 1 }; /* positions and module names as `@line:col name` at the end of lines */
void yir_print(struct yir_str *out, const struct yir_func *f, unsigned flags);
void yir_print_type(struct yir_str *out, const struct yir_tdesc *d);
/* One op as in a listing, operand names included, without a newline. */
void yir_print_op(struct yir_str *out, const struct yir_func *f, uint32_t op, unsigned flags);

/* NULL after reporting. The text is untrusted. Weights have no data. */
struct yir_func *yir_parse(struct yir_arena *a, struct yir_types *t, struct yir_diags *d, const char *file,
                           const char *text, size_t len);

/* --- verifier (verify.c) ------------------------------------------------------------------------------------ */

/* Stages a function has reached; each adds rules: KERNELS every op is in a kernel or a view, each kernel's ops form a
 * connected group and stored values are exactly those read outside; PLACES every stored or viewed value has a place
 * inside its buffer and live buffers do not overlap. */
enum { YIR_S_LAYOUT = 1, YIR_S_KERNELS = 2, YIR_S_PLACES = 4, YIR_S_NOBN = 8 };
/* 0, or -1 with E_IR_VERIFY reported for each broken rule. */
int yir_verify(const struct yir_func *f, unsigned stages);

#endif
