/* The steps of a run: as one graph, one after another, or one after another with their times. */
#include "object.h"
#include "order.h"

#include <string.h>
#include <time.h>

enum { REPEATS = 16 };      /* of a step that is timed by itself */
enum { HELD_STEPS = 128 }; /* launched before the first of them starts: fewer than a stream takes without waiting itself */

double rt_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static yolort_status run_step(yolort_context *c, const struct ym_step *p, int batch, const struct rt_error *e)
{
    const struct rt_tables *t = &c->m->t;
    struct rt_launch l = {
        .code = &c->m->code,
        .session = c->session,
        .step = (uint32_t)(p - t->step),
        .kernel = p->kernel,
        .narg = p->narg,
        .name = t->strings + t->kernel[p->kernel].name,
        .entry = t->kernel[p->kernel].offset,
        .arg = c->arg + p->first_arg,
        .total = t->kernel[p->kernel].units * batch,
        .grain = p->grain,
        .pool = c->pool,
        .scratch = c->scratch.data,
        .scratch_stride = c->scratch_stride,
    };
    int32_t r = 0;
    RT_TRY(c->m->dev->launch(&l, &r, e));
    RT_CHECK(e, FORMAT, RUN_STRAY, !r, "step %d (%s, %s): an access would have left argument %d",
             (int)(p - t->step), t->strings + p->label, t->strings + t->kernel[p->kernel].name, r - 1);
    return YOLORT_OK;
}

/* A mark of the device before each step and behind the last; *n: steps that ran. */
static yolort_status launch_marked(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], int *n, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    const struct rt_tables *t = &c->m->t;
    for (uint32_t i = 0; i < t->nstep; i++) {
        if (!rt_step_wanted(&t->step[i], in, out)) continue;
        RT_TRY(own->mark(c->session, RT_MARKS + (*n)++, e));
        RT_TRY(run_step(c, &t->step[i], batch, e));
        if (*n == HELD_STEPS) RT_TRY(own->hold(c->session, 0, e));
    }
    return own->mark(c->session, RT_MARKS + *n, e);
}

static yolort_status read_marks(yolort_context *c, const uint64_t in[2], const uint64_t out[2], const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    const struct rt_tables *t = &c->m->t;
    int n = RT_MARKS;
    RT_TRY(own->settle(c->session, e));
    for (uint32_t i = 0; i < t->nstep; i++)
        if (rt_step_wanted(&t->step[i], in, out)) RT_TRY(own->between(c->session, n++, &c->ms[i], e));
    return YOLORT_OK;
}

/* The device is held until launches are ahead of it, so that it never waits for one. */
static yolort_status profile_on_device(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    int n = 0;
    RT_TRY(own->hold(c->session, 1, e));
    yolort_status s = launch_marked(c, batch, in, out, &n, e), go = own->hold(c->session, 0, s ? NULL : e);
    if (s || go) return s ? s : go;
    return read_marks(c, in, out, e);
}

/* A step as often as needed for what goes on around kernels not to count; the device is held while they are launched. */
static yolort_status repeat_step(yolort_context *c, const struct ym_step *p, int batch, double *ms, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    yolort_status s = own->mark(c->session, RT_MARKS, e);
    for (int i = 0; i < REPEATS && !s; i++) s = run_step(c, p, batch, e);
    if (!s) s = own->mark(c->session, RT_MARKS + 1, e);
    yolort_status go = own->hold(c->session, 0, s ? NULL : e);
    if (s || go) return s ? s : go;
    RT_TRY(own->settle(c->session, e));
    RT_TRY(own->between(c->session, RT_MARKS, ms, e));
    *ms /= REPEATS;
    return YOLORT_OK;
}

static yolort_status repeat_on_device(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], const struct rt_error *e)
{
    const struct rt_tables *t = &c->m->t;
    for (uint32_t i = 0; i < t->nstep; i++) {
        if (!rt_step_wanted(&t->step[i], in, out)) continue;
        RT_TRY(c->m->dev->own->hold(c->session, 1, e));
        RT_TRY(repeat_step(c, &t->step[i], batch, &c->ms[i], e));
    }
    return YOLORT_OK;
}

static yolort_status run_all(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], const struct rt_error *e)
{
    const struct rt_tables *t = &c->m->t;
    for (uint32_t i = 0; i < t->nstep; i++) {
        if (!rt_step_wanted(&t->step[i], in, out)) continue;
        double start = c->profile ? rt_now_ms() : 0;
        RT_TRY(run_step(c, &t->step[i], batch, e));
        if (c->profile) c->ms[i] = rt_now_ms() - start;
    }
    return YOLORT_OK;
}

yolort_status rt_steps_run(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], const struct rt_error *e)
{
    const struct rt_play p = {batch, {in[0], in[1]}, {out[0], out[1]}, c->arg};
    int played = 0;
    if (c->profile) memset(c->ms, 0, c->m->t.nstep * sizeof *c->ms);
    if (c->session && c->profile & YOLORT_STEPS_ALONE) return repeat_on_device(c, batch, in, out, e);
    if (c->session && c->profile) return profile_on_device(c, batch, in, out, e);
    if (c->session) RT_TRY(c->m->dev->own->play(c->session, &p, &played, e));
    return played ? YOLORT_OK : run_all(c, batch, in, out, e);
}
