/* Rows of ENGINE: what cuDNN is told has to be a convolution of memory that the step's kernel touches too. */
#include "tables.h"

#include <string.h>

enum { SPACE_ALIGN = 256 };
#define MAX_STRIDE (1ull << 40) /* elements */

static int is_half(uint32_t dtype)
{
    return dtype == YOLORT_F16 || dtype == YOLORT_BF16;
}

static int within(uint32_t v, uint32_t lo, uint32_t hi)
{
    return v >= lo && v <= hi;
}

static int are_sizes(const uint32_t size[3])
{
    return within(size[0], 1, YM_MAX_SIDE) && within(size[1], 1, YM_MAX_SIDE) && within(size[2], 1, YM_MAX_SIDE);
}

/* Elements that an image has from its first to its last; strides are under 2^40 and sizes under 2^16. */
static uint64_t reach(const uint32_t size[3], const uint64_t stride[3])
{
    return (size[1] - 1) * stride[1] + (size[2] - 1) * stride[2] + size[0];
}

/* Pixels, rows and images do not overlap. */
static int are_strides(const uint32_t size[3], const uint64_t stride[3])
{
    for (int i = 0; i < 3; i++)
        if (stride[i] >= MAX_STRIDE) return 0;
    return stride[2] >= size[0] && stride[1] >= (size[2] - 1) * stride[2] + size[0] && stride[0] >= reach(size, stride);
}

/* i: 0 vertical, 1 horizontal. */
static int is_window(const struct ym_conv *c, int i)
{
    uint32_t most = YM_MAX_WINDOW;
    if (!within(c->kernel[i], 1, most) || !within(c->stride[i], 1, most) || !within(c->dilation[i], 1, most)) return 0;
    if (c->before[i] > most || c->after[i] > most) return 0;
    uint32_t covers = c->dilation[i] * (c->kernel[i] - 1) + 1, room = c->x[1 + i] + c->before[i] + c->after[i];
    return room >= covers && (room - covers) / c->stride[i] + 1 == c->out[1 + i];
}

int rt_is_conv(const struct ym_conv *c, uint32_t images)
{
    static const uint64_t none[3];
    if (!is_half(c->dtype) || (c->out_dtype != c->dtype && c->out_dtype != YOLORT_F32) || c->activation >= YM_NACT) return 0;
    if (c->biased > 1 || c->added > 1 || c->pad[0] || c->pad[1] || c->pad[2] || c->pad2) return 0;
    if (!within(c->images, 1, YM_MAX_BATCH) || c->images != images || !are_sizes(c->x) || !are_sizes(c->out)) return 0;
    if (!are_strides(c->x, c->x_stride) || !are_strides(c->out, c->out_stride)) return 0;
    if (c->added ? !are_strides(c->out, c->added_stride) : memcmp(c->added_stride, none, sizeof none) != 0) return 0;
    return is_window(c, 0) && is_window(c, 1);
}

static int are_knobs(const struct ym_engine *g)
{
    static const struct ym_knob none;
    if (g->nknob > YM_MAX_KNOBS || g->number > INT32_MAX) return 0;
    for (uint32_t i = 0; i < YM_MAX_KNOBS; i++) {
        if (i >= g->nknob && memcmp(&g->knob[i], &none, sizeof none)) return 0;
        if (g->knob[i].type > INT32_MAX) return 0;
        for (uint32_t k = 0; k < i && i < g->nknob; k++)
            if (g->knob[k].type == g->knob[i].type) return 0;
    }
    return 1;
}

/* An argument of the step: the arena's, of that type, and written or not. */
static int is_arg(const struct rt_tables *t, const struct ym_engine *g, uint32_t i, uint32_t dtype, int written)
{
    const struct ym_step *s = &t->step[g->step];
    if (i >= s->narg || t->arg[s->first_arg + i].slot != YM_SLOT_ARENA) return 0;
    const struct ym_param *p = &t->param[t->kernel[s->kernel].first_param + i];
    return p->dtype == dtype && p->written == written;
}

static int are_args(const struct rt_tables *t, const struct ym_engine *g)
{
    const struct ym_conv *c = &g->conv;
    if (!is_arg(t, g, g->x, c->dtype, 0) || !is_arg(t, g, g->out, c->out_dtype, 1)) return 0;
    return c->added ? is_arg(t, g, g->added, c->dtype, 0) : g->added == YM_ANY;
}

/* Of a checked argument: no more than the kernel touches of it. */
static int is_inside(const struct rt_tables *t, const struct ym_engine *g, uint32_t i, const uint32_t size[3], const uint64_t stride[3])
{
    const struct ym_param *p = &t->param[t->kernel[t->step[g->step].kernel].first_param + i];
    uint64_t element = rt_dtype_size(p->dtype);
    return reach(size, stride) * element <= p->first && stride[0] * element == p->each;
}

static int are_inside(const struct rt_tables *t, const struct ym_engine *g)
{
    const struct ym_conv *c = &g->conv;
    return is_inside(t, g, g->x, c->x, c->x_stride) && is_inside(t, g, g->out, c->out, c->out_stride) &&
           (!c->added || is_inside(t, g, g->added, c->out, c->added_stride));
}

static int is_part(uint64_t at, uint64_t bytes, uint64_t align, uint64_t room)
{
    return at % align == 0 && at <= room && bytes <= room - at;
}

static int are_weights(const struct rt_tables *t, const struct ym_engine *g)
{
    const struct ym_conv *c = &g->conv;
    uint64_t row = (uint64_t)c->kernel[0] * c->kernel[1] * c->x[0] * rt_dtype_size(c->dtype);
    if (!is_part(g->weights, row * c->out[0], YM_ALIGN, t->constants.size)) return 0;
    return c->biased ? is_part(g->bias, c->out[0] * sizeof(float), YM_ALIGN, t->constants.size) : g->bias == 0;
}

static yolort_status check_row(const struct rt_tables *t, uint32_t i, const struct rt_error *e)
{
    const struct ym_engine *g = &t->engine[i];
    RT_CHECK(e, FORMAT, ENGINE_STEP, g->step < t->nstep && (!i || g->step > g[-1].step), "ENGINE %u: of step %u", i, g->step);
    RT_CHECK(e, FORMAT, ENGINE_KNOBS, are_knobs(g), "ENGINE %u: engine %u with %u knobs", i, g->number, g->nknob);
    RT_CHECK(e, FORMAT, ENGINE_CONV, rt_is_conv(&g->conv, (uint32_t)t->target->max_batch), "ENGINE %u: is no convolution", i);
    RT_CHECK(e, FORMAT, ENGINE_ARGS, are_args(t, g), "ENGINE %u: arguments that its step does not have", i);
    RT_CHECK(e, FORMAT, ENGINE_INSIDE, are_inside(t, g), "ENGINE %u: would touch more than its step's kernel", i);
    RT_CHECK(e, FORMAT, ENGINE_WEIGHTS, are_weights(t, g), "ENGINE %u: weights outside the constants", i);
    RT_CHECK(e, FORMAT, ENGINE_SPACE, is_part(g->space, g->space_bytes, SPACE_ALIGN, t->target->arena_size),
             "ENGINE %u: working memory outside the arena", i);
    return YOLORT_OK;
}

yolort_status rt_engines_check(const struct rt_tables *t, const struct rt_error *e)
{
    RT_CHECK(e, FORMAT, ENGINE_DEVICE, t->target->kind == YM_CUDA, "ENGINE: of a program for another device");
    for (uint32_t i = 0; i < t->nengine; i++) RT_TRY(check_row(t, i, e));
    return YOLORT_OK;
}

const struct ym_engine *rt_engine_of(const struct rt_tables *t, uint32_t step)
{
    uint32_t lo = 0, hi = t->nengine;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->engine[mid].step < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->nengine && t->engine[lo].step == step ? &t->engine[lo] : NULL;
}
