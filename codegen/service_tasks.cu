/*
 * Kernels for what tasks have beside boxes, or in their place: masks, maps, and the crop that classifiers take. They stand behind
 * service.cu. Results are those of runtime/mask.c, maps.c and classify.c, bit by bit: each number is made by the same operations in
 * the same order, and no two threads add to the same one.
 */

/* --- crops -------------------------------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(YM_CROP_THREADS) yoloc_axes(const __grid_constant__ ym_crop a)
{
    const ym_cropped &p = a.picture[blockIdx.x / a.axis_blocks];
    int i = (int)(blockIdx.x % a.axis_blocks) * YM_CROP_THREADS + (int)threadIdx.x;
    if (i < a.out_width)
        ym_fill_sample(&p.columns, i);
    else if (i < a.out_width + a.out_height)
        ym_fill_sample(&p.rows, i - a.out_width);
}

/* Row y of the source at column i of the output. */
static __device__ void squeeze_row(const ym_cropped &p, int y, int i, unsigned char *to)
{
    const int *w = p.columns.weight + (long long)i * p.columns.most;
    int sum[3] = {0, 0, 0}, first = p.columns.from[i], n = p.columns.count[i];
    for (int k = 0; k < n; k++) {
        unsigned char rgb[3];
        fetch(p.from, first + k, y, rgb);
        for (int c = 0; c < 3; c++) sum[c] += rgb[c] * w[k];
    }
    for (int c = 0; c < 3; c++) to[c] = ym_weighted(sum[c]);
}

/* Columns first, rounded, then rows. */
extern "C" __global__ void __launch_bounds__(YM_CROP_THREADS) yoloc_crop(const __grid_constant__ ym_crop a)
{
    const ym_cropped &p = a.picture[blockIdx.x / a.blocks];
    int unit = (int)(blockIdx.x % a.blocks) * YM_CROP_THREADS + (int)threadIdx.x, x = unit % a.out_width, y = unit / a.out_width;
    if (y >= a.out_height) return;
    const int *w = p.rows.weight + (long long)y * p.rows.most;
    int sum[3] = {0, 0, 0}, first = p.rows.from[y], n = p.rows.count[y];
    for (int k = 0; k < n; k++) {
        unsigned char rgb[3];
        squeeze_row(p, first + k, x, rgb);
        for (int c = 0; c < 3; c++) sum[c] += rgb[c] * w[k];
    }
    unsigned char *to = p.from.out + 3LL * unit;
    for (int c = 0; c < 3; c++) to[c] = ym_weighted(sum[c]);
}

/* --- masks -------------------------------------------------------------------------------------------------- */

/* The box that block b belongs to: the last one with no more than b blocks before it. */
static __device__ int box_of_block(const ym_masks &a, int b, int values)
{
    int low = 0, high = a.boxes - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2, before = values ? a.box[middle].value_block : a.box[middle].word_block;
        if (before <= b)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(256) yoloc_mask_values(const __grid_constant__ ym_masks a)
{
    int at = box_of_block(a, (int)blockIdx.x, 1);
    const ym_masked &box = a.box[at];
    long long i = (long long)((int)blockIdx.x - box.value_block) * 256 + threadIdx.x, n = (long long)a.plan.width * a.plan.height;
    if (i >= (long long)box.across * box.down) return;
    const float *from = a.proto + (box.from_y + i / box.across) * a.plan.width + box.from_x + i % box.across;
    const float *coefficient = a.coefficient + (long long)at * a.count;
    float sum = 0;
    for (int k = 0; k < a.count; k++) sum += coefficient[k] * from[k * n];
    a.value[box.value + i] = sum;
}

/* Of the enlarged values, column x of the rows that va and vb stand for, and what lies t between them. */
static __device__ float on_line(const ym_masks &a, const ym_masked &box, const ym_sample &va, const ym_sample &vb, float t, int x)
{
    const ym_mask_plan &p = a.plan;
    const float *value = a.value + box.value - (long long)box.from_y * box.across - box.from_x;
    ym_sample h = ym_sample_at(x, p.width, p.factor * p.width);
    float of[2];
    for (int i = 0; i < 2; i++) {
        const ym_sample &v = i ? vb : va;
        const float *above = value + (long long)v.a * box.across, *below = value + (long long)v.b * box.across;
        of[i] = ym_mix(ym_mix(above[h.a], above[h.b], h.t), ym_mix(below[h.a], below[h.b], h.t), v.t);
    }
    return ym_mix(of[0], of[1], t);
}

/* Neighbouring pixels mostly lie between the same two columns. */
static __device__ unsigned mask_word(const ym_masks &a, const ym_masked &box, int x, int y, int n)
{
    const ym_mask_plan &p = a.plan;
    ym_sample v = ym_sample_at(y, p.y_size, p.src_height);
    ym_sample va = ym_sample_at(v.a + p.y_from, p.height, p.factor * p.height);
    ym_sample vb = ym_sample_at(v.b + p.y_from, p.height, p.factor * p.height);
    int column[2] = {-1, -1};
    float value[2] = {0, 0};
    unsigned bits = 0;
    for (int i = 0; i < n; i++) {
        ym_sample h = ym_sample_at(x + i, p.x_size, p.src_width);
        if (h.a != column[0]) value[0] = h.a == column[1] ? value[1] : on_line(a, box, va, vb, v.t, p.x_from + h.a);
        if (h.b != column[1]) value[1] = h.b == h.a ? value[0] : on_line(a, box, va, vb, v.t, p.x_from + h.b);
        column[0] = h.a;
        column[1] = h.b;
        if (ym_mix(value[0], value[1], h.t) > 0) bits |= 1u << i;
    }
    return bits;
}

extern "C" __global__ void __launch_bounds__(256) yoloc_masks(const __grid_constant__ ym_masks a)
{
    const ym_masked &box = a.box[box_of_block(a, (int)blockIdx.x, 0)];
    int words = (box.width + 31) / 32, left;
    long long i = (long long)((int)blockIdx.x - box.word_block) * 256 + threadIdx.x;
    if (i >= (long long)words * box.height) return;
    int x = (int)(i % words) * 32, y = (int)(i / words);
    left = box.width - x;
    a.bits[box.word + i] = mask_word(a, box, box.x + x, box.y + y, left < 32 ? left : 32);
}

/* --- maps --------------------------------------------------------------------------------------------------- */

/* The pixel of the source that a thread makes; false: none. */
static __device__ bool pixel_of(const ym_source_map &a, int *x, int *y, long long *i)
{
    *i = (long long)blockIdx.x * 256 + threadIdx.x;
    *x = (int)(*i % a.src_width);
    *y = (int)(*i / a.src_width);
    return *i < (long long)a.src_width * a.src_height;
}

/* Where a thread's pixel lies in the map: between two rows, t of the way, at column u. */
struct map_place {
    const float *above, *below;
    float t;
    double u;
    int last;
};

static __device__ map_place place_of(const ym_source_map &a, int x, int y)
{
    double v = ym_place(y, a.src_height, a.top, a.resized_height);
    int last_y = a.top + a.resized_height - 1, y0 = (int)v, y1 = y0 < last_y ? y0 + 1 : y0;
    map_place p;
    p.above = a.value + (long long)y0 * a.width;
    p.below = a.value + (long long)y1 * a.width;
    p.t = (float)(v - y0);
    p.u = ym_place(x, a.src_width, a.left, a.resized_width);
    p.last = a.left + a.resized_width - 1;
    return p;
}

extern "C" __global__ void __launch_bounds__(256) yoloc_labels(const __grid_constant__ ym_source_map a)
{
    int x, y;
    long long i;
    if (!pixel_of(a, &x, &y, &i)) return;
    map_place p = place_of(a, x, y);
    ((unsigned short *)a.out)[i] = ym_best_class(p.above, p.below, p.t, p.u, p.last, a.classes, (long long)a.width * a.height);
}

extern "C" __global__ void __launch_bounds__(256) yoloc_depths(const __grid_constant__ ym_source_map a)
{
    int x, y;
    long long i;
    if (!pixel_of(a, &x, &y, &i)) return;
    map_place p = place_of(a, x, y);
    ((float *)a.out)[i] = ym_depth(p.above, p.below, p.t, p.u, p.last);
}
