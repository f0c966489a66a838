#include "ptwrite.h"

#include <string.h>

/* Byte code. */

void ptwrite_init(struct ptwrite *w, struct yir_arena *a)
{
    *w = (struct ptwrite){.a = a,
                          .code = {.arena = a},
                          .prefix = "archive",
                          .version = "3\n",
                          .byteorder = "little",
                          .align = 64,
                          .zip64 = true};
    ptwrite_raw(w, "\x80\2", 2);
}

void ptwrite_raw(struct ptwrite *w, const void *bytes, size_t n)
{
    yir_str_put(&w->code, bytes, n);
}

void ptwrite_op(struct ptwrite *w, unsigned char op)
{
    ptwrite_raw(w, &op, 1);
}

void ptwrite_ops(struct ptwrite *w, const char *ops)
{
    ptwrite_raw(w, ops, strlen(ops));
}

static void put_uint(struct yir_str *s, uint64_t v, unsigned bytes)
{
    for (; bytes > 0; bytes--, v /= 256)
        yir_str_put(s, &(char){(char)(v % 256)}, 1);
}

void ptwrite_uint(struct ptwrite *w, uint64_t v, unsigned bytes)
{
    put_uint(&w->code, v, bytes);
}

void ptwrite_str(struct ptwrite *w, const char *s)
{
    ptwrite_op(w, 'X');
    ptwrite_uint(w, strlen(s), 4);
    ptwrite_raw(w, s, strlen(s));
}

void ptwrite_int(struct ptwrite *w, int64_t v)
{
    bool small = v >= 0 && v < 65536, word = v >= INT32_MIN && v <= INT32_MAX;
    unsigned bytes = small ? (v < 256 ? 1 : 2) : word ? 4 : 8;
    ptwrite_op(w, (unsigned char)(bytes == 1 ? 'K' : bytes == 2 ? 'M' : bytes == 4 ? 'J' : 0x8a));
    if (bytes == 8) ptwrite_op(w, 8);
    ptwrite_uint(w, (uint64_t)v, bytes);
}

void ptwrite_float(struct ptwrite *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    ptwrite_op(w, 'G');
    for (int i = 7; i >= 0; i--)
        ptwrite_op(w, (unsigned char)(bits >> (8 * i)));
}

void ptwrite_global(struct ptwrite *w, const char *module, const char *name)
{
    yir_str_fmt(&w->code, "c%s\n%s\n", module, name);
}

void ptwrite_put(struct ptwrite *w, unsigned memo)
{
    ptwrite_op(w, 'r');
    ptwrite_uint(w, memo, 4);
}

void ptwrite_get(struct ptwrite *w, unsigned memo)
{
    ptwrite_op(w, 'j');
    ptwrite_uint(w, memo, 4);
}

void ptwrite_ints(struct ptwrite *w, const int64_t *v, int n)
{
    ptwrite_op(w, '(');
    for (int i = 0; i < n; i++)
        ptwrite_int(w, v[i]);
    ptwrite_op(w, 't');
}

/* Tensors and modules. */

void ptwrite_storage(struct ptwrite *w, const char *type, const void *bytes, size_t len, int64_t numel)
{
    char *name = yir_format(w->a, "data/%u", w->nstorage++);
    w->record = yir_grow(w->a, w->record, &w->cap, w->nrecord + 1, sizeof *w->record);
    w->record[w->nrecord++] = (struct ptwrite_record){name, bytes, len};
    ptwrite_op(w, '(');
    ptwrite_str(w, "storage");
    ptwrite_global(w, strcmp(type, "UntypedStorage") == 0 ? "torch.storage" : "torch", type);
    ptwrite_str(w, name + strlen("data/"));
    ptwrite_str(w, "cpu");
    ptwrite_int(w, numel);
    if (w->legacy) ptwrite_op(w, 'N');
    ptwrite_ops(w, "tQ");
}

void ptwrite_view(struct ptwrite *w, int64_t offset, const int64_t *dim, const int64_t *stride, int rank)
{
    /* The storage is there already: keep it aside while the function and the mark go below it. */
    enum { ASIDE = 60000 };
    ptwrite_put(w, ASIDE);
    ptwrite_op(w, '0');
    ptwrite_global(w, "torch._utils", "_rebuild_tensor_v2");
    ptwrite_op(w, '(');
    ptwrite_get(w, ASIDE);
    ptwrite_int(w, offset);
    ptwrite_ints(w, dim, rank);
    ptwrite_ints(w, stride, rank);
    ptwrite_op(w, 0x89);
    ptwrite_global(w, "collections", "OrderedDict");
    ptwrite_ops(w, ")RtR");
}

void ptwrite_tensor(struct ptwrite *w, const char *type, size_t itemsize, const void *data,
                    const int64_t *dim, int rank)
{
    int64_t stride[16] = {0}, numel = 1;
    for (int i = rank; i-- > 0; numel *= dim[i])
        stride[i] = numel;
    ptwrite_storage(w, type, data, (size_t)numel * itemsize, numel);
    ptwrite_view(w, 0, dim, stride, rank);
}

void ptwrite_floats(struct ptwrite *w, double first, int64_t n)
{
    float *v = yir_alloc_n(w->a, (size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(first + (double)i);
    ptwrite_tensor(w, "FloatStorage", 4, v, &n, 1);
}

void ptwrite_module(struct ptwrite *w, const char *module, const char *name)
{
    ptwrite_global(w, module, name);
    ptwrite_op(w, ')');
    ptwrite_op(w, 0x81);
    ptwrite_ops(w, "}(");
    ptwrite_key(w, "training");
    ptwrite_op(w, 0x89);
    ptwrite_key(w, "_forward_hooks");
    ptwrite_op(w, '}');
    ptwrite_key(w, "_parameters");
    ptwrite_ops(w, "}(");
}

static void next_part(struct ptwrite *w, const char *key)
{
    ptwrite_op(w, 'u');
    ptwrite_key(w, key);
    ptwrite_global(w, "collections", "OrderedDict");
    ptwrite_ops(w, ")R(");
}

void ptwrite_module_buffers(struct ptwrite *w)
{
    next_part(w, "_buffers");
}

void ptwrite_module_children(struct ptwrite *w)
{
    next_part(w, "_modules");
}

void ptwrite_module_attrs(struct ptwrite *w)
{
    ptwrite_op(w, 'u');
}

void ptwrite_module_end(struct ptwrite *w)
{
    ptwrite_ops(w, "ub");
}

/* Whole models. */

/* A convolution [2,1,1,1] with values first, first + 1, no bias. */
void ptwrite_conv(struct ptwrite *w, double first)
{
    static const int64_t dim[] = {2, 1, 1, 1};
    float *v = yir_alloc_n(w->a, 2, sizeof *v);
    v[0] = (float)first;
    v[1] = (float)first + 1;
    ptwrite_module(w, "torch.nn.modules.conv", "Conv2d");
    ptwrite_key(w, "weight");
    ptwrite_tensor(w, "FloatStorage", 4, v, dim, 4);
    ptwrite_key(w, "bias");
    ptwrite_op(w, 'N');
    ptwrite_module_buffers(w);
    ptwrite_module_children(w);
    ptwrite_module_attrs(w);
    ptwrite_key(w, "kernel_size");
    ptwrite_ints(w, (const int64_t[]){1, 3}, 2);
    ptwrite_key(w, "groups");
    ptwrite_int(w, 1);
    ptwrite_module_end(w);
}

static void put_bn(struct ptwrite *w)
{
    static const int64_t many = 7;
    ptwrite_module(w, "torch.nn.modules.batchnorm", "BatchNorm2d");
    ptwrite_key(w, "weight");
    ptwrite_floats(w, 10, 2);
    ptwrite_key(w, "bias");
    ptwrite_floats(w, 20, 2);
    ptwrite_module_buffers(w);
    ptwrite_key(w, "running_mean");
    ptwrite_floats(w, 30, 2);
    ptwrite_key(w, "scratch");
    ptwrite_floats(w, 40, 2);
    ptwrite_key(w, "num_batches_tracked");
    ptwrite_tensor(w, "LongStorage", 8, &many, NULL, 0);
    ptwrite_module_children(w);
    ptwrite_module_attrs(w);
    ptwrite_key(w, "_non_persistent_buffers_set");
    ptwrite_global(w, "__builtin__", "set");
    ptwrite_ops(w, "](");
    ptwrite_str(w, "scratch");
    ptwrite_ops(w, "e\x85R");
    ptwrite_key(w, "eps");
    ptwrite_float(w, 1e-3);
    ptwrite_module_end(w);
}

static void put_empty(struct ptwrite *w, const char *module, const char *name)
{
    ptwrite_module(w, module, name);
    ptwrite_module_buffers(w);
    ptwrite_module_children(w);
    ptwrite_module_attrs(w);
    ptwrite_module_end(w);
}

/* Sequential { 0: Conv { conv, bn, act }, 1: Identity }, as "model" of a model object with yaml, names and
 * stride. */
void ptwrite_model(struct ptwrite *w, double first)
{
    ptwrite_module(w, "ultralytics.nn.tasks", "DetectionModel");
    ptwrite_module_buffers(w);
    ptwrite_module_children(w);
    ptwrite_key(w, "model");
    ptwrite_module(w, "torch.nn.modules.container", "Sequential");
    ptwrite_module_buffers(w);
    ptwrite_module_children(w);
    ptwrite_key(w, "0");
    ptwrite_module(w, "ultralytics.nn.modules.conv", "Conv");
    ptwrite_module_buffers(w);
    ptwrite_module_children(w);
    ptwrite_key(w, "conv");
    ptwrite_conv(w, first);
    ptwrite_key(w, "bn");
    put_bn(w);
    ptwrite_key(w, "act");
    put_empty(w, "torch.nn.modules.activation", "SiLU");
    ptwrite_module_attrs(w);
    ptwrite_key(w, "f");
    ptwrite_int(w, -1);
    ptwrite_key(w, "loss");
    put_empty(w, "ultralytics.utils.loss", "v8DetectionLoss");
    ptwrite_module_end(w);
    ptwrite_key(w, "1");
    put_empty(w, "torch.nn.modules.linear", "Identity");
    ptwrite_key(w, "2");
    ptwrite_op(w, 'N');
    ptwrite_module_attrs(w);
    ptwrite_module_end(w);
    ptwrite_module_attrs(w);
    ptwrite_key(w, "yaml");
    ptwrite_ops(w, "}");
    ptwrite_key(w, "nc");
    ptwrite_ops(w, "K\3s");
    ptwrite_key(w, "names");
    ptwrite_ops(w, "}K");
    ptwrite_uint(w, 0, 1);
    ptwrite_str(w, "cat");
    ptwrite_ops(w, "s");
    ptwrite_key(w, "stride");
    ptwrite_floats(w, 8, 2);
    ptwrite_key(w, "big");
    ptwrite_floats(w, 0, 4097);
    ptwrite_module_end(w);
}

/* A checkpoint whose ema is None, with literal entries beside the model. */
void ptwrite_checkpoint(struct ptwrite *w)
{
    ptwrite_ops(w, "}(");
    ptwrite_key(w, "epoch");
    ptwrite_int(w, -1);
    ptwrite_key(w, "ema");
    ptwrite_op(w, 'N');
    ptwrite_key(w, "model");
    ptwrite_model(w, 1);
    ptwrite_key(w, "version");
    ptwrite_str(w, "8.4");
    ptwrite_key(w, "fitness");
    ptwrite_global(w, "numpy.core.multiarray", "scalar");
    ptwrite_ops(w, "(cnumpy\ndtype\n");
    ptwrite_str(w, "f8");
    ptwrite_ops(w, "\x89\x88\x87R(K\3U\1<NNNtb");
    ptwrite_global(w, "_codecs", "encode");
    ptwrite_op(w, '(');
    ptwrite_str(w, "\x01\x02\x03\x04\x05\x06\xc3\xb0?");
    ptwrite_str(w, "latin1");
    ptwrite_ops(w, "tRtR");
    ptwrite_key(w, "opt");
    ptwrite_ops(w, "cargparse\nNamespace\n)\x81}");
    ptwrite_str(w, "imgsz");
    ptwrite_ops(w, "K\x60sb");
    ptwrite_op(w, 'u');
}

/* Containers. */

uint32_t ptwrite_crc(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
    }
    return ~c;
}

static unsigned flags_of(const struct ptwrite *w)
{
    return w->plain ? 0x0800 : 0x0808;
}

/* Fields that both headers have: flags, method, time, date, CRC, two sizes. */
static void put_fields(struct yir_str *s, const struct ptwrite *w, const struct ptwrite_record *r, bool known)
{
    put_uint(s, 0, 2);
    put_uint(s, flags_of(w), 2);
    put_uint(s, 0, 6);
    put_uint(s, known ? ptwrite_crc(r->bytes, r->len) : 0, 4);
    put_uint(s, known ? r->len : 0, 4);
    put_uint(s, known ? r->len : 0, 4);
    put_uint(s, strlen(r->name), 2);
}

static void put_local(struct yir_str *s, const struct ptwrite *w, const struct ptwrite_record *r)
{
    size_t payload = s->len + 30 + strlen(r->name) + 4;
    size_t pad = w->align ? (w->align - payload % w->align) % w->align : 0;
    yir_str_put(s, "PK\3\4", 4);
    put_fields(s, w, r, w->plain);
    put_uint(s, w->align ? 4 + pad : 0, 2);
    yir_str_put(s, r->name, strlen(r->name));
    if (w->align) {
        yir_str_put(s, "FB", 2);
        put_uint(s, pad, 2);
        while (pad-- > 0)
            yir_str_put(s, "Z", 1);
    }
    yir_str_put(s, r->bytes, r->len);
    if (w->plain) return;
    yir_str_put(s, "PK\7\10", 4);
    put_uint(s, ptwrite_crc(r->bytes, r->len), 4);
    put_uint(s, r->len, 4);
    put_uint(s, r->len, 4);
}

static void put_central(struct yir_str *s, const struct ptwrite *w, const struct ptwrite_record *r,
                        size_t start)
{
    yir_str_put(s, "PK\1\2", 4);
    put_uint(s, 0, 2);
    put_fields(s, w, r, true);
    put_uint(s, 0, 12);
    put_uint(s, start, 4);
    yir_str_put(s, r->name, strlen(r->name));
}

static void put_end(struct yir_str *s, const struct ptwrite *w, size_t n, size_t central)
{
    size_t size = s->len - central, end64 = s->len;
    if (w->zip64) {
        yir_str_put(s, "PK\6\6", 4);
        put_uint(s, 44, 8);
        put_uint(s, 0, 12);
        put_uint(s, n, 8);
        put_uint(s, n, 8);
        put_uint(s, size, 8);
        put_uint(s, central, 8);
        yir_str_put(s, "PK\6\7", 4);
        put_uint(s, 0, 4);
        put_uint(s, end64, 8);
        put_uint(s, 1, 4);
    }
    yir_str_put(s, "PK\5\6", 4);
    put_uint(s, 0, 4);
    put_uint(s, n, 2);
    put_uint(s, n, 2);
    put_uint(s, size, 4);
    put_uint(s, central, 4);
    put_uint(s, 0, 2);
}

uint8_t *ptwrite_archive(struct ptwrite *w, const struct ptwrite_record *r, size_t n, size_t *len)
{
    struct yir_str s = {.arena = w->a};
    size_t *start = yir_alloc_n(w->a, n, sizeof *start);
    for (size_t i = 0; i < n; i++) {
        start[i] = s.len;
        put_local(&s, w, &r[i]);
    }
    size_t central = s.len;
    for (size_t i = 0; i < n; i++)
        put_central(&s, w, &r[i], start[i]);
    put_end(&s, w, n, central);
    *len = s.len;
    return (uint8_t *)s.text;
}

uint8_t *ptwrite_zip(struct ptwrite *w, size_t *len)
{
    ptwrite_op(w, '.');
    struct ptwrite_record *r = yir_alloc_n(w->a, w->nrecord + 3, sizeof *r);
    size_t n = 0;
    r[n++] = (struct ptwrite_record){"data.pkl", w->code.text, w->code.len};
    if (w->byteorder) r[n++] = (struct ptwrite_record){"byteorder", w->byteorder, strlen(w->byteorder)};
    for (size_t i = 0; i < w->nrecord; i++)
        r[n++] = w->record[i];
    if (w->version) r[n++] = (struct ptwrite_record){"version", w->version, strlen(w->version)};
    for (size_t i = 0; i < n; i++)
        r[i].name = yir_format(w->a, "%s/%s", w->prefix, r[i].name);
    return ptwrite_archive(w, r, n, len);
}

uint8_t *ptwrite_legacy(struct ptwrite *w, size_t *len)
{
    struct yir_str code = w->code;
    w->code = (struct yir_str){.arena = w->a};
    ptwrite_raw(w, "\x80\2\x8a\12l\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    ptwrite_raw(w, "\x80\2M\xe9\3.", 6);
    ptwrite_raw(w, "\x80\2}", 3);
    ptwrite_str(w, "little_endian");
    ptwrite_raw(w, "\x88s.", 3);
    ptwrite_raw(w, code.text, code.len);
    ptwrite_op(w, '.');
    ptwrite_raw(w, "\x80\2](", 4);
    for (size_t i = 0; i < w->nrecord; i++)
        ptwrite_str(w, w->record[i].name + strlen("data/"));
    ptwrite_ops(w, "e.");
    for (size_t i = 0; i < w->nrecord; i++) {
        /* Only float storages are written in this form. */
        ptwrite_uint(w, w->record[i].len / 4, 8);
        ptwrite_raw(w, w->record[i].bytes, w->record[i].len);
    }
    *len = w->code.len;
    return (uint8_t *)w->code.text;
}
