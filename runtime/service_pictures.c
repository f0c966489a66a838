/* Pictures to a device, and there into the network's input. */
#include "served.h"

#include "crop.h"

_Static_assert(sizeof(struct ym_letterbox) <= 4096 && sizeof(struct ym_crop) <= 4096, "larger than the parameters of a kernel may be");

/* Distance of rows on the device. What lies between rows is copied with them where it is not more than they are: one copy is much
 * faster than one by rows, above all from memory that is not pinned. */
static size_t pitch_of(size_t row, size_t given)
{
    return given <= 2 * row ? given : row;
}

static size_t bytes_of(size_t row, size_t given, size_t rows)
{
    return rows ? (rows - 1) * pitch_of(row, given) + row : 0;
}

static size_t luma_bytes(const yolort_picture *p)
{
    return bytes_of(rt_picture_row(p), p->row_bytes, (size_t)p->height);
}

static size_t picture_bytes(const yolort_picture *p)
{
    return rt_apart(luma_bytes(p)) + bytes_of(rt_picture_chroma_row(p), p->chroma_row_bytes, rt_picture_chroma_rows(p));
}

static yolort_status find_memory(const yolort_context *c, struct rt_group *g, int i, int number, const struct rt_error *e)
{
    const yolort_picture *p = &g->picture[i];
    const struct rt_own_memory *own = c->m->dev->own;
    int data, chroma;
    RT_TRY(own->locate(c->session, p->data, &data, e));
    chroma = data;
    if (rt_picture_is_nv12(p)) RT_TRY(own->locate(c->session, p->chroma, &chroma, e));
    RT_CHECK(e, ARG, DET_DEVICE, data >= 0 && chroma == data, "detect: image %d: memory of another device", number);
    g->on_device[i] = data;
    return YOLORT_OK;
}

static yolort_status load_group(const yolort_context *c, const struct rt_request *r, int first, struct rt_group *g, size_t *bytes,
                                const struct rt_error *e)
{
    g->first = first;
    g->n = r->n - first < YM_PICTURES ? r->n - first : YM_PICTURES;
    *bytes = 0;
    for (int i = 0; i < g->n; i++) {
        RT_TRY(rt_request_picture(c, r, first + i, &g->picture[i], &g->place[i], e));
        RT_TRY(find_memory(c, g, i, first + i, e));
        if (!g->on_device[i]) *bytes += rt_apart(picture_bytes(&g->picture[i]));
    }
    return YOLORT_OK;
}

/* The axis' tables for m samples, the next of memory as rt_carve has it. */
static void carve_axis(struct ym_axis *a, int m, uint8_t *base, size_t *used)
{
    size_t n = (size_t)m;
    a->from = rt_carve(base, used, n * sizeof *a->from);
    a->count = rt_carve(base, used, n * sizeof *a->count);
    a->weight = rt_carve(base, used, n * (size_t)a->most * sizeof *a->weight);
}

static void carve_axes(const yolort_context *c, const yolort_picture *p, struct ym_cropped *to, uint8_t *base, size_t *used)
{
    const yolort_info *m = &c->m->info;
    rt_crop_axes(p->width, p->height, m->width, m->height, &to->columns, &to->rows);
    carve_axis(&to->columns, m->width, base, used);
    carve_axis(&to->rows, m->height, base, used);
}

/* Everything of the caller's is looked at before anything is done. */
yolort_status rt_pictures_ensure(yolort_context *c, const struct rt_request *r, struct rt_group *g, const struct rt_error *e)
{
    size_t most = 0, most_axes = 0, bytes;
    struct ym_cropped cropped;
    for (int first = 0; first < r->n; first += YM_PICTURES) {
        size_t axes = 0;
        RT_TRY(load_group(c, r, first, g, &bytes, e));
        for (int i = 0; i < g->n && r->answer == YOLORT_CLASSES; i++) carve_axes(c, &g->picture[i], &cropped, NULL, &axes);
        most = bytes > most ? bytes : most;
        most_axes = axes > most_axes ? axes : most_axes;
    }
    RT_TRY(rt_ensure(c, &c->detect.lists, 0, most_axes, e));
    return rt_ensure(c, &c->detect.pictures, 0, most, e);
}

static yolort_status put_rows(yolort_context *c, uint8_t *to, const uint8_t *from, size_t row, size_t *pitch, size_t rows,
                              const struct rt_error *e)
{
    size_t given = *pitch;
    *pitch = pitch_of(row, given);
    if (*pitch == given) return c->m->dev->own->put(c->session, to, from, bytes_of(row, given, rows), e);
    return rt_service_of(c)->put_rows(c->session, to, from, row, given, rows, e);
}

/* The picture is then on the device. */
static yolort_status put_picture(yolort_context *c, yolort_picture *p, uint8_t *to, const struct rt_error *e)
{
    size_t chroma_row = rt_picture_chroma_row(p);
    uint8_t *chroma = to + rt_apart(luma_bytes(p));
    RT_TRY(put_rows(c, to, p->data, rt_picture_row(p), &p->row_bytes, (size_t)p->height, e));
    if (chroma_row) RT_TRY(put_rows(c, chroma, p->chroma, chroma_row, &p->chroma_row_bytes, rt_picture_chroma_rows(p), e));
    p->data = to;
    p->chroma = chroma;
    return YOLORT_OK;
}

static yolort_status put_group(yolort_context *c, struct rt_group *g, const struct rt_error *e)
{
    size_t at = 0;
    for (int i = 0; i < g->n; i++) {
        if (g->on_device[i]) continue;
        size_t bytes = rt_apart(picture_bytes(&g->picture[i]));
        RT_TRY(put_picture(c, &g->picture[i], c->detect.pictures.data + at, e));
        at += bytes;
    }
    return YOLORT_OK;
}

static struct ym_picture describe(const yolort_picture *s, uint8_t *out)
{
    return (struct ym_picture){
        .pixels = s->data,
        .chroma = s->chroma,
        .row_bytes = (long long)s->row_bytes,
        .chroma_row_bytes = (long long)s->chroma_row_bytes,
        .out = out,
        .width = s->width,
        .height = s->height,
        .format = (int)s->format,
    };
}

static void place(struct ym_picture *s, const yolort_placement *p)
{
    int same = s->width == p->resized_width && s->height == p->resized_height;
    int half = s->width == 2 * p->resized_width && s->height == 2 * p->resized_height;
    s->scale_x = 1.0 / ((double)p->resized_width / s->width);
    s->scale_y = 1.0 / ((double)p->resized_height / s->height);
    s->left = p->left;
    s->top = p->top;
    s->resized_width = p->resized_width;
    s->resized_height = p->resized_height;
    s->resize = same ? YM_AS_IT_IS : half ? YM_HALF : YM_BILINEAR;
}

static uint8_t *input_of(const yolort_context *c, const struct rt_request *r, int i)
{
    return c->memory.io[r->input] + (size_t)i * c->m->io[r->input].bytes_per_image;
}

static yolort_status letterbox(yolort_context *c, const struct rt_request *r, const struct rt_group *g, const struct rt_error *e)
{
    const yolort_info *m = &c->m->info;
    int quads = (m->width + YM_QUAD - 1) / YM_QUAD;
    struct ym_letterbox call = {.count = g->n, .out_width = m->width, .out_height = m->height};
    call.blocks = (quads * m->height - 1) / YM_LETTERBOX_THREADS + 1;
    for (int i = 0; i < g->n; i++) {
        call.picture[i] = describe(&g->picture[i], input_of(c, r, g->first + i));
        place(&call.picture[i], &g->place[i]);
    }
    return rt_service_of(c)->serve(c->session, YM_LETTERBOX, (int64_t)g->n * call.blocks, &call, e);
}

static yolort_status crop(yolort_context *c, const struct rt_request *r, const struct rt_group *g, const struct rt_error *e)
{
    const yolort_info *m = &c->m->info;
    struct ym_crop call = {.count = g->n, .out_width = m->width, .out_height = m->height};
    size_t used = 0;
    call.axis_blocks = (m->width + m->height - 1) / YM_CROP_THREADS + 1;
    call.blocks = (m->width * m->height - 1) / YM_CROP_THREADS + 1;
    for (int i = 0; i < g->n; i++) {
        call.picture[i].from = describe(&g->picture[i], input_of(c, r, g->first + i));
        carve_axes(c, &g->picture[i], &call.picture[i], c->detect.lists.data, &used);
    }
    RT_TRY(rt_service_of(c)->serve(c->session, YM_AXES, (int64_t)g->n * call.axis_blocks, &call, e));
    return rt_service_of(c)->serve(c->session, YM_CROP, (int64_t)g->n * call.blocks, &call, e);
}

yolort_status rt_pictures_put(yolort_context *c, const struct rt_request *r, struct rt_group *g, const struct rt_error *e)
{
    size_t bytes;
    RT_TRY(rt_mark_part(c, 0, e));
    for (int first = 0; first < r->n; first += YM_PICTURES) {
        RT_TRY(load_group(c, r, first, g, &bytes, e));
        RT_TRY(put_group(c, g, e));
        if (!first) RT_TRY(rt_mark_part(c, 1, e));
        RT_TRY(r->answer == YOLORT_CLASSES ? crop(c, r, g, e) : letterbox(c, r, g, e));
    }
    return rt_mark_part(c, 2, e);
}
