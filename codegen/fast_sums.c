#include "fast_sums.h"

kv cg_early(struct kb *b, kv start, int64_t size, int64_t block)
{
    return kb_imin(b, start, kb_immi(b, size - block));
}

kv cg_vector(struct kb *b, const struct cg_sums *s, kv start, int v)
{
    b->valid = v == s->vectors - 1 ? s->last : b->lanes;
    kv at = kb_addi(b, start, (int64_t)v * b->lanes);
    return kb_lane(b, at);
}

int64_t cg_most_pixels(const struct kb_target *t, int vectors)
{
    int64_t most = (t->vregs - vectors - (t->mem_splat ? 0 : 1)) / vectors;
    return most > MAX_PIXELS ? MAX_PIXELS : most;
}

void cg_choose_block(const struct kb_target *t, int64_t channels, int64_t pixels, struct cg_sums *s)
{
    int64_t whole = channels / t->lanes, best = INT64_MAX;
    s->vectors = 1;
    s->last = (int)(whole ? t->lanes : channels);
    if (!whole) whole = 1;
    for (int v = 1; v <= MAX_VECTORS && v <= whole; v++) {
        int64_t most = cg_most_pixels(t, v), p = most < 1 ? 1 : cg_pixels(pixels, most);
        int64_t fma = v * p, load = v + p, step = fma > load ? fma : load; /* in half cycles */
        if (step < 8) step = 8; /* until a sum can be used again */
        int64_t blocks = (channels + v * t->lanes - 1) / (v * t->lanes) * ((pixels + p - 1) / p);
        if (blocks * (step + 2) >= best) continue;
        best = blocks * (step + 2);
        s->vectors = v;
        s->pixels = p;
    }
}

void cg_add_products(struct kb *b, const struct cg_sums *s, kv x, kv w, kv acc[][MAX_VECTORS])
{
    kv k = kb_loop(b, kb_immi(b, 0), kb_immi(b, s->steps), 1), wk[MAX_VECTORS];
    kv w_shift = kb_muli(b, k, s->w_step);
    kv at = kb_iadd(b, w, w_shift);
    kv x_shift = kb_muli(b, k, s->x_step);
    kv xk = kb_iadd(b, x, x_shift);
    for (int v = 0; v < s->vectors; v++) {
        kv lanes = cg_vector(b, s, at, v);
        wk[v] = kb_load(b, s->mem_w, lanes);
        kv later = kb_addi(b, at, (int64_t)v * b->lanes + CG_AHEAD * s->w_step);
        kb_ahead(b, s->mem_w, later);
    }
    b->valid = b->lanes;
    for (int64_t p = 0; p < s->pixels; p++) {
        kv xp = kb_addi(b, xk, p * s->x_pixel);
        kv one = kb_load(b, s->mem_x, xp);
        for (int v = 0; v < s->vectors; v++) {
            kv old = kb_get(b, acc[p][v]);
            kv sum = kb_fma(b, one, wk[v], old);
            kb_set(b, acc[p][v], sum);
        }
    }
    kb_end(b);
}

void cg_new_products(struct kb *b, const struct cg_sums *s, kv x, kv w, kv acc[][MAX_VECTORS])
{
    kv zero = kb_wide(b, kb_immf(b, 0.0));
    for (int64_t p = 0; p < s->pixels; p++)
        for (int v = 0; v < s->vectors; v++) acc[p][v] = kb_var(b, zero);
    cg_add_products(b, s, x, w, acc);
}
