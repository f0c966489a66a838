/*
 * Kernels around the network, for every GPU: pictures to its input, rows of `decoded` to boxes. runtime/service.h stands in front
 * of this text. Results are those of runtime/letterbox.c and runtime/nms.c, bit by bit: products and sums are not fused, and
 * what blocks add in any order is sorted by keys that occur once. Only turned boxes depend on functions (exp, log, sin, cos)
 * whose last bit differs between machines.
 *
 * Threads of a block work together in steps: EACH(t) is done by all of them before SYNC returns, and what a step leaves for a later
 * one lies in shared memory. So a host can run a step's threads one after the other (YOLOC_HOST: tests/cuda/host.h).
 */
#ifdef YOLOC_HOST
#define EACH(t, threads) for (int t = 0; t < (threads); t++)
#define SYNC
#define ONCE if (threadIdx.x) return
#else
#define EACH(t, threads) for (int t = (int)threadIdx.x, first_ = 1; first_; first_ = 0)
#define SYNC __syncthreads()
#define ONCE
#endif

typedef unsigned long long u64;

/* --- pictures ----------------------------------------------------------------------------------------------- */

enum { FILL = 114, ONE = 2048 /* weight 1 of a sample */ };

/* Output sample i lies between source samples a and b. */
struct between {
    int a, b, wa, wb;
};

static __device__ between row_at(int i, int n, double scale)
{
    float f = (float)((i + 0.5) * scale - 0.5), s = floorf(f);
    int first = (int)s;
    f -= s;
    between r = {first, first + 1, (int)rintf((1 - f) * ONE), (int)rintf(f * ONE)};
    r.a = r.a < 0 ? 0 : r.a > n - 1 ? n - 1 : r.a;
    r.b = r.b < 0 ? 0 : r.b > n - 1 ? n - 1 : r.b;
    return r;
}

/* Outside the outer middles a column is the outer sample alone. */
static __device__ between column_at(int i, int n, double scale)
{
    float f = (float)((i + 0.5) * scale - 0.5);
    if (floorf(f) < 0) return between{0, 0, ONE, 0};
    if (floorf(f) >= n - 1) return between{n - 1, n - 1, ONE, 0};
    return row_at(i, n, scale);
}

static __device__ void fetch(const ym_picture &p, int x, int y, unsigned char *rgb)
{
    const unsigned char *row = p.pixels + y * p.row_bytes;
    if (p.format == YM_NV12 || p.format == YM_NV12_709) {
        const unsigned char *uv = p.chroma + (y >> 1) * p.chroma_row_bytes + (x & ~1);
        ym_rgb_of_yuv(p.format, row[x], uv[0], uv[1], rgb);
        return;
    }
    for (int c = 0; c < 3; c++) rgb[c] = row[3 * x + (p.format == YM_BGR ? 2 - c : c)];
}

static __device__ void halve(const ym_picture &p, int x, int y, unsigned char *to)
{
    unsigned char s[4][3];
    for (int i = 0; i < 4; i++) fetch(p, 2 * x + (i & 1), 2 * y + (i >> 1), s[i]);
    for (int c = 0; c < 3; c++) to[c] = (unsigned char)((s[0][c] + s[1][c] + s[2][c] + s[3][c] + 2) >> 2);
}

static __device__ void blend(const ym_picture &p, const between &u, const between &v, unsigned char *to)
{
    unsigned char aa[3], ab[3], ba[3], bb[3];
    fetch(p, u.a, v.a, aa);
    fetch(p, u.b, v.a, ab);
    fetch(p, u.a, v.b, ba);
    fetch(p, u.b, v.b, bb);
    for (int c = 0; c < 3; c++) {
        int above = (aa[c] * u.wa + ab[c] * u.wb) >> 4, below = (ba[c] * u.wa + bb[c] * u.wb) >> 4;
        to[c] = (unsigned char)(((above * v.wa >> 16) + (below * v.wb >> 16) + 2) >> 2);
    }
}

/* x, y: of the resized picture; outside it lies the border. */
static __device__ void make_pixel(const ym_picture &p, const between &v, int x, int y, unsigned char *to)
{
    if (x < 0 || x >= p.resized_width || y < 0 || y >= p.resized_height)
        to[0] = to[1] = to[2] = FILL;
    else if (p.resize == YM_AS_IT_IS)
        fetch(p, x, y, to);
    else if (p.resize == YM_HALF)
        halve(p, x, y, to);
    else
        blend(p, column_at(x, p.width, p.scale_x), v, to);
}

/* A thread makes YM_QUAD pixels side by side. */
extern "C" __global__ void __launch_bounds__(YM_LETTERBOX_THREADS) yoloc_letterbox(const __grid_constant__ ym_letterbox a)
{
    const ym_picture &p = a.picture[blockIdx.x / a.blocks];
    int quads = (a.out_width + YM_QUAD - 1) / YM_QUAD, unit = (int)(blockIdx.x % a.blocks) * YM_LETTERBOX_THREADS + (int)threadIdx.x;
    int y = unit / quads, x = unit % quads * YM_QUAD;
    if (y >= a.out_height) return;
    between v = row_at(y - p.top, p.height, p.scale_y);
    union {
        unsigned char byte[3 * YM_QUAD];
        unsigned word[3];
    } quad;
    for (int i = 0; i < YM_QUAD; i++) make_pixel(p, v, x + i - p.left, y - p.top, quad.byte + 3 * i);
    unsigned char *to = p.out + ((long long)y * a.out_width + x) * 3;
    if (a.out_width % YM_QUAD == 0) {
        for (int i = 0; i < 3; i++) ((unsigned *)to)[i] = quad.word[i];
        return;
    }
    for (int i = 0; i < 3 * YM_QUAD && i < 3 * (a.out_width - x); i++) to[i] = quad.byte[i];
}

/* --- rows of decoded ---------------------------------------------------------------------------------------- */

enum { FREE = 1, BEST = 4 }; /* of enum yolort_head */

static __device__ bool is_across(const ym_boxes &a)
{
    return a.head == FREE || a.head == BEST;
}

/* Number k of a row. */
static __device__ float number(const ym_boxes &a, int image, int row, long long k)
{
    const float *of = a.decoded + image * a.decoded_floats;
    return is_across(a) ? of[k * a.rows + row] : of[(long long)row * (5 + a.nc + a.extra) + k];
}

static __device__ u64 key_of(const ym_boxes &a, float score, int row, int cls)
{
    unsigned bits = __float_as_uint(score + 0.0f); /* -0 orders as 0 */
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (u64)~bits << 32 | ((unsigned)row * (unsigned)a.nc + (unsigned)cls);
}

static __device__ float score_of(u64 key)
{
    unsigned bits = ~(unsigned)(key >> 32);
    return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}

static __device__ int row_of(const ym_boxes &a, u64 key)
{
    return (int)((unsigned)key / (unsigned)a.nc);
}

static __device__ int class_of(const ym_boxes &a, u64 key)
{
    return (int)((unsigned)key % (unsigned)a.nc);
}

static __device__ void add(const ym_list &l, int image, u64 key)
{
    int at = atomicAdd(&l.count[image], 1);
    if (at < l.room) l.key[(long long)image * l.room + at] = key;
}

static __device__ int count_of(const ym_list &l, int image)
{
    int n = l.count[image];
    return n < l.room ? n : l.room;
}

/* The best class so far; cls NONE: there was none, BROKEN: a NaN spoils the row. */
enum { NONE = -1, BROKEN = -2 };
struct best {
    float score;
    int cls;
};

static __device__ bool is_wanted(const ym_boxes &a, float score, int cls)
{
    return score > a.conf && (!a.allowed || a.allowed[cls]);
}

/* Heads without suppression look at classes one by one, the others at a row's best. */
static __device__ void consider(const ym_boxes &a, best *b, float score, int cls)
{
    if (cls < 0) {
        if (cls == BROKEN) b->cls = BROKEN;
        return;
    }
    if (a.head == BEST && !is_wanted(a, score, cls)) return;
    if (score != score) b->cls = BROKEN;
    if (b->cls == BROKEN) return;
    if (b->cls == NONE || score > b->score || (score == b->score && cls < b->cls)) *b = best{score, cls};
}

enum { SLICES = 256 / YM_ROWS };

/* Of every SLICES-th class. */
static __device__ best best_class(const ym_boxes &a, int image, int row, int slice)
{
    best b = {0, NONE};
    float object = is_across(a) ? 1 : number(a, image, row, 4);
    if (!is_across(a) && !(object > a.conf)) return b;
    int first = is_across(a) ? 4 : 5;
    for (int k = slice; k < a.nc; k += SLICES) {
        float v = number(a, image, row, first + k);
        consider(a, &b, is_across(a) ? v : object * v, k);
    }
    return b;
}

/* Neighbouring threads read neighbouring numbers: of other rows, or of the same row. */
extern "C" __global__ void __launch_bounds__(256) yoloc_candidates(const __grid_constant__ ym_boxes a)
{
    __shared__ best part[SLICES][YM_ROWS];
    ONCE;
    int blocks = (a.rows + YM_ROWS - 1) / YM_ROWS, image = (int)blockIdx.x / blocks, first = (int)blockIdx.x % blocks * YM_ROWS;
    EACH(t, 256) {
        int r = is_across(a) ? t % YM_ROWS : t / SLICES, slice = is_across(a) ? t / YM_ROWS : t % SLICES;
        part[slice][r] = first + r < a.rows ? best_class(a, image, first + r, slice) : best{0, NONE};
    }
    SYNC;
    EACH(t, 256) {
        if (t >= YM_ROWS) continue;
        best b = {0, NONE};
        for (int i = 0; i < SLICES; i++) consider(a, &b, part[i][t].score, part[i][t].cls);
        if (b.cls >= 0 && is_wanted(a, b.score, b.cls)) add(a.list[0], image, key_of(a, b.score, first + t, b.cls));
    }
}

/* Heads without suppression: whatever is among the first `limit` scores lies in the first `limit` rows by their best class, since
 * each row before it holds a better one. */
extern "C" __global__ void __launch_bounds__(256) yoloc_expand(const __grid_constant__ ym_boxes a)
{
    int image = (int)blockIdx.x / a.limit, rank = (int)blockIdx.x % a.limit;
    if (rank >= count_of(a.list[0], image)) return;
    int row = row_of(a, a.list[0].sorted[(long long)image * a.list[0].room + rank]);
    for (int k = (int)threadIdx.x; k < a.nc; k += 256) {
        float v = number(a, image, row, 4 + k);
        if (is_wanted(a, v, k)) add(a.list[1], image, key_of(a, v, row, k));
    }
}

/* --- order -------------------------------------------------------------------------------------------------- */

static __device__ void put_corners(const ym_boxes &a, int image, int row, float *to)
{
    float x = number(a, image, row, 0), y = number(a, image, row, 1), w = number(a, image, row, 2), h = number(a, image, row, 3);
    bool corners = a.head == BEST && !a.rotated;
    to[0] = corners ? x : x - w / 2;
    to[1] = corners ? y : y - h / 2;
    to[2] = corners ? w : x + w / 2;
    to[3] = corners ? h : y + h / 2;
}

/* runtime/rotate.c. */
static __device__ void put_normal(const ym_boxes &a, int image, int row, double *to)
{
    double w = number(a, image, row, 2), h = number(a, image, row, 3);
    double angle = number(a, image, row, (is_across(a) ? 3 : 4) + a.nc + a.extra);
    double u = w * w / 12, v = h * h / 12, c = cos(angle), s = sin(angle);
    to[0] = number(a, image, row, 0);
    to[1] = number(a, image, row, 1);
    to[2] = u * c * c + v * s * s;
    to[3] = u * s * s + v * c * c;
    to[4] = (u - v) * c * s;
}

/* list[0] of heads without suppression needs its order alone; of list[1] the first are enough. */
static __device__ void put_ranked(const ym_boxes &a, int image, u64 key, int rank)
{
    const ym_list &l = a.list[a.list_at];
    long long at = (long long)image * a.list[0].room + rank;
    l.sorted[(long long)image * l.room + rank] = key;
    if ((a.head == BEST && !a.list_at) || rank >= a.list[0].room) return;
    put_corners(a, image, row_of(a, key), a.corner + 4 * at);
    if (a.normal) put_normal(a, image, row_of(a, key), a.normal + 5 * at);
}

/* A candidate's rank is the number of smaller keys: there are few in most pictures, and never two alike. */
extern "C" __global__ void __launch_bounds__(256) yoloc_order(const __grid_constant__ ym_boxes a)
{
    enum { TILE = 1024 };
    __shared__ u64 tile[TILE];
    __shared__ int before[SLICES][YM_ROWS];
    ONCE;
    const ym_list &l = a.list[a.list_at];
    int blocks = (l.room + YM_ROWS - 1) / YM_ROWS, image = (int)blockIdx.x / blocks, first = (int)blockIdx.x % blocks * YM_ROWS;
    int n = count_of(l, image);
    if (first >= n) return;
    const u64 *key = l.key + (long long)image * l.room;
    EACH(t, 256) before[t / YM_ROWS][t % YM_ROWS] = 0;
    for (int base = 0; base < n; base += TILE) {
        int m = n - base < TILE ? n - base : TILE;
        EACH(t, 256) for (int i = t; i < m; i += 256) tile[i] = key[base + i];
        SYNC;
        EACH(t, 256) {
            int c = first + t % YM_ROWS, smaller = 0;
            u64 own = c < n ? key[c] : 0;
            for (int i = t / YM_ROWS; i < m; i += SLICES) smaller += tile[i] < own;
            before[t / YM_ROWS][t % YM_ROWS] += smaller;
        }
        SYNC;
    }
    EACH(t, 256) {
        if (t >= YM_ROWS || first + t >= n) continue;
        int rank = 0;
        for (int i = 0; i < SLICES; i++) rank += before[i][t];
        put_ranked(a, image, key[first + t], rank);
    }
}

/* --- overlaps ----------------------------------------------------------------------------------------------- */

static __device__ float area(const float *d)
{
    return (d[2] - d[0]) * (d[3] - d[1]);
}

static __device__ float smaller(float a, float b)
{
    return a < b ? a : b;
}

static __device__ float larger(float a, float b)
{
    return a > b ? a : b;
}

/* a: the better one; with NaN the order matters. */
static __device__ bool overlaps(const float *a, const float *b, float most)
{
    float w = smaller(a[2], b[2]) - larger(a[0], b[0]);
    float h = smaller(a[3], b[3]) - larger(a[1], b[1]);
    if (!(w > 0) || !(h > 0)) return 0 > most;
    float inter = w * h;
    return inter / (area(a) + area(b) - inter) > most;
}

static __device__ double determinant(double xx, double yy, double xy)
{
    return xx * yy - xy * xy;
}

/* runtime/rotate.c. */
static __device__ double overlap_turned(const double *a, const double *b)
{
    const double tiny = 1e-7;
    double xx = a[2] + b[2], yy = a[3] + b[3], xy = a[4] + b[4], dx = a[0] - b[0], dy = a[1] - b[1];
    double det = determinant(xx, yy, xy), da = determinant(a[2], a[3], a[4]), db = determinant(b[2], b[3], b[4]);
    double far = (xx * dy * dy + yy * dx * dx - 2 * xy * dx * dy) / (det + tiny) / 4;
    double own = sqrt((da < 0 ? 0 : da) * (db < 0 ? 0 : db));
    double apart = far + log(det / (4 * own + tiny) + tiny) / 2;
    if (apart != apart) return apart;
    apart = apart < tiny ? tiny : apart > 100 ? 100 : apart;
    return 1 - sqrt(1 - exp(-apart) + tiny);
}

static __device__ int turned_count(const ym_boxes &a, int image)
{
    int n = count_of(a.list[0], image);
    return n < YM_MOST_ROTATED ? n : YM_MOST_ROTATED;
}

/* A turned box yields to every better one of its class, kept or not. */
extern "C" __global__ void __launch_bounds__(256) yoloc_compare(const __grid_constant__ ym_boxes a)
{
    __shared__ int worse[YM_ROWS];
    ONCE;
    int room = a.list[0].room < YM_MOST_ROTATED ? a.list[0].room : YM_MOST_ROTATED;
    int blocks = (room + YM_ROWS - 1) / YM_ROWS, image = (int)blockIdx.x / blocks, first = (int)blockIdx.x % blocks * YM_ROWS;
    int n = turned_count(a, image);
    if (first >= n) return;
    const u64 *key = a.list[0].sorted + (long long)image * a.list[0].room;
    const double *normal = a.normal + 5 * (long long)image * a.list[0].room;
    EACH(t, 256) if (t < YM_ROWS) worse[t] = 0;
    SYNC;
    EACH(t, 256) {
        int i = first + t % YM_ROWS, yields = 0;
        if (i >= n) continue;
        for (int k = t / YM_ROWS; k < i && !yields; k += SLICES) {
            if (!a.agnostic && class_of(a, key[k]) != class_of(a, key[i])) continue;
            yields = overlap_turned(normal + 5 * k, normal + 5 * i) >= (double)a.iou;
        }
        if (yields) atomicOr(&worse[t % YM_ROWS], 1);
    }
    SYNC;
    EACH(t, 256) if (t < YM_ROWS && first + t < n) a.worse[(long long)image * a.list[0].room + first + t] = (unsigned char)worse[t];
}

/* Candidates by columns; a thread makes a word of a row. */
extern "C" __global__ void __launch_bounds__(256) yoloc_overlap(const __grid_constant__ ym_boxes a)
{
    __shared__ float corner[YM_OVERLAP_COLUMNS][4];
    __shared__ int cls[YM_OVERLAP_COLUMNS];
    ONCE;
    int across = (a.compared - 1) / YM_OVERLAP_COLUMNS + 1, blocks = across * ((a.compared - 1) / YM_OVERLAP_ROWS + 1);
    int image = (int)blockIdx.x / blocks, block = (int)blockIdx.x % blocks;
    int n = count_of(a.list[0], image), row = block / across * YM_OVERLAP_ROWS, column = block % across * YM_OVERLAP_COLUMNS;
    n = n < a.compared ? n : a.compared;
    if (row >= n || column >= n || column + YM_OVERLAP_COLUMNS <= row) return;
    const u64 *key = a.list[0].sorted + (long long)image * a.list[0].room;
    const float *of = a.corner + 4 * (long long)image * a.list[0].room;
    EACH(t, 256) {
        if (t >= YM_OVERLAP_COLUMNS || column + t >= n) continue;
        for (int k = 0; k < 4; k++) corner[t][k] = of[4 * (column + t) + k];
        cls[t] = class_of(a, key[column + t]);
    }
    SYNC;
    EACH(t, 256) {
        int i = row + t % YM_OVERLAP_ROWS, w = column / 32 + t / YM_OVERLAP_ROWS;
        if (i >= n || 32 * w >= n || 32 * w + 32 <= i) continue;
        const float own[4] = {of[4 * i], of[4 * i + 1], of[4 * i + 2], of[4 * i + 3]};
        int own_class = class_of(a, key[i]), end = 32 * w + 32 < n ? 32 * w + 32 : n;
        unsigned bits = 0;
        for (int j = 32 * w; j < end; j++)
            if (j > i && (a.agnostic || own_class == cls[j - column]) && overlaps(own, corner[j - column], a.iou)) bits |= 1u << j % 32;
        a.mask[((long long)image * a.compared + i) * (a.compared / 32) + w] = bits;
    }
}

/* --- what is kept ------------------------------------------------------------------------------------------- */

enum { CHUNK = 512, WORDS = CHUNK / 32, TILE_KEPT = 1024 };

/* Candidates of which no box that was kept before makes another yield, at most CHUNK. */
struct chunk {
    union {
        struct { /* boxes that were kept before */
            float corner[TILE_KEPT][4];
            int cls[TILE_KEPT];
        } before;
        unsigned mask[CHUNK][WORDS]; /* bit j of mask[i]: j yields to i, where j is behind it */
    };
    float corner[CHUNK][4];
    int cls[CHUNK], rank[CHUNK]; /* rank: at first 1 for each candidate that is left, 0 for the others */
    unsigned alive[WORDS];       /* of the candidates looked at: those that are left */
    unsigned dead[WORDS], kept[WORDS];
    unsigned compared[YM_MOST_COMPARED / 32]; /* of the candidates that YM_OVERLAP compared: those that yield */
    int total;                   /* boxes kept so far, of all chunks */
};

static __device__ u64 key_at(const ym_boxes &a, int image, int rank)
{
    const ym_list &l = a.list[a.list_at];
    return l.sorted[(long long)image * l.room + rank];
}

static __device__ const float *corner_at(const ym_boxes &a, int image, int rank)
{
    return a.corner + 4 * ((long long)image * a.list[0].room + rank);
}

static __device__ void load_kept(chunk &c, const ym_box &box, int i)
{
    const float of[4] = {box.x1, box.y1, box.x2, box.y2};
    for (int k = 0; k < 4; k++) c.before.corner[i][k] = of[k];
    c.before.cls[i] = box.cls;
}

/* To one of the n kept boxes of the tile. */
static __device__ bool yields(const ym_boxes &a, const chunk &c, int image, int rank, int n)
{
    const float *at = corner_at(a, image, rank);
    const float own[4] = {at[0], at[1], at[2], at[3]};
    int cls = class_of(a, key_at(a, image, rank));
    for (int i = 0; i < n; i++)
        if ((a.agnostic || c.before.cls[i] == cls) && overlaps(c.before.corner[i], own, a.iou)) return true;
    return false;
}

static __device__ unsigned below(int bit)
{
    return (1u << bit) - 1;
}

/* How many bits are set before bit t. */
static __device__ int place(const unsigned *word, int t)
{
    int n = __popc(word[t / 32] & below(t % 32));
    for (int i = 0; i < t / 32; i++) n += __popc(word[i]);
    return n;
}

/* Candidate t of those looked at, which begin at `base`, as a member of the chunk. */
static __device__ void gather(const ym_boxes &a, chunk &c, int image, int base, int t)
{
    if (!(c.alive[t / 32] >> t % 32 & 1)) return;
    int to = place(c.alive, t);
    const float *at = corner_at(a, image, base + t);
    for (int i = 0; i < 4; i++) c.corner[to][i] = at[i];
    c.cls[to] = class_of(a, key_at(a, image, base + t));
    c.rank[to] = base + t;
}

/* Words that YM_OVERLAP made for rank i. */
static __device__ const unsigned *mask_of(const ym_boxes &a, int image, int i)
{
    return a.mask + ((long long)image * a.compared + i) * (a.compared / 32);
}

/* Thread t of the chunk, m candidates from `base` on: masks as they were made. */
static __device__ void load_masks(const ym_boxes &a, chunk &c, int image, int base, int m, int t)
{
    int words = (m + 31) / 32;
    for (int i = t; i < m * words; i += CHUNK)
        if (i % words >= i / words / 32) c.mask[i / words][i % words] = mask_of(a, image, base + i / words)[base / 32 + i % words];
}

/* What yields to the kept ones among the compared candidates behind the chunk, which are `behind` words. */
static __device__ void spread_behind(const ym_boxes &a, chunk &c, int image, int base, int m, int behind, int t)
{
    for (int i = t; i < m * behind; i += CHUNK) {
        int row = i / behind, w = base / 32 + WORDS + i % behind;
        if (!(c.kept[row / 32] >> row % 32 & 1)) continue;
        unsigned yields = mask_of(a, image, base + row)[w];
        if (yields) atomicOr(&c.compared[w], yields);
    }
}

/* Word w of mask[i], of m candidates. Neighbouring threads have the same w and neighbouring i. */
static __device__ void fill_mask(const ym_boxes &a, chunk &c, int i, int w, int m)
{
    const float own[4] = {c.corner[i][0], c.corner[i][1], c.corner[i][2], c.corner[i][3]};
    unsigned bits = 0;
    int cls = c.cls[i], end = 32 * w + 32 < m ? 32 * w + 32 : m;
    for (int j = 32 * w; j < end; j++)
        if (j > i && (a.agnostic || cls == c.cls[j]) && overlaps(own, c.corner[j], a.iou)) bits |= 1u << j % 32;
    c.mask[i][w] = bits;
}

/* One thread: what of word w is kept, the best first. */
static __device__ void resolve(const ym_boxes &a, chunk &c, int w, int m)
{
    unsigned left = (32 * w + 32 <= m ? ~0u : below(m % 32)) & ~c.dead[w], kept = 0;
    int total = c.total;
    while (left && total < a.limit) {
        int bit = __ffs((int)left) - 1;
        kept |= 1u << bit;
        total++;
        left &= ~(1u << bit);
        if (a.keep == YM_KEEP_APART) left &= ~c.mask[32 * w + bit][w];
    }
    c.kept[w] = kept;
    c.total = total;
}

/* Word t of `dead`, by what was kept of word w. */
static __device__ void spread(chunk &c, int w, int t)
{
    for (unsigned kept = c.kept[w]; kept; kept &= kept - 1) c.dead[t] |= c.mask[32 * w + __ffs((int)kept) - 1][t];
}

static __device__ void put_box(const ym_boxes &a, const chunk &c, int image, int t, ym_box *box, int have)
{
    if (!(c.kept[t / 32] >> t % 32 & 1)) return;
    const float *at = c.corner[t];
    u64 key = key_at(a, image, c.rank[t]);
    box[have + place(c.kept, t)] = ym_box{at[0], at[1], at[2], at[3], score_of(key), c.cls[t], row_of(a, key), 0};
}

/* The numbers of a kept row but its class scores: those before them that make the box, then those behind. */
static __device__ float kept_number(const ym_boxes &a, int image, int row, int k)
{
    return number(a, image, row, k < 4 ? k : (is_across(a) ? 0 : 1) + a.nc + k);
}

/* A block for each image goes through its candidates, the best first. */
extern "C" __global__ void __launch_bounds__(512) yoloc_keep(const __grid_constant__ ym_boxes a)
{
    __shared__ chunk c;
    ONCE;
    int image = (int)blockIdx.x, apart = a.keep == YM_KEEP_APART, n = a.keep == YM_KEEP_UNMARKED ? turned_count(a, image) : count_of(a.list[a.list_at], image);
    if (a.keep == YM_KEEP_ALL && n > a.limit) n = a.limit;
    unsigned char *out = a.out + image * a.out_bytes;
    ym_box *box = (ym_box *)(out + sizeof(ym_found));
    const unsigned char *worse = a.worse + (long long)image * a.list[0].room;
    EACH(t, CHUNK) {
        if (!t) c.total = 0;
        if (t < YM_MOST_COMPARED / 32) c.compared[t] = 0;
    }
    SYNC;
    for (int base = 0; base < n; base += CHUNK) {
        int seen = n - base < CHUNK ? n - base : CHUNK, have = c.total, m = 0, made = apart && base < a.compared;
        if (have >= a.limit) break;
        EACH(t, CHUNK) {
            if (t < WORDS) c.alive[t] = c.dead[t] = c.kept[t] = 0;
            c.rank[t] = t < seen && (a.keep != YM_KEEP_UNMARKED || !worse[base + t]);
        }
        SYNC;
        for (int first = 0; first < have && apart && !made; first += TILE_KEPT) {
            int tile = have - first < TILE_KEPT ? have - first : TILE_KEPT;
            EACH(t, CHUNK) for (int i = t; i < tile; i += CHUNK) load_kept(c, box[first + i], i);
            SYNC;
            EACH(t, CHUNK) if (c.rank[t] && yields(a, c, image, base + t, tile)) c.rank[t] = 0;
            SYNC;
        }
        EACH(t, CHUNK) if (c.rank[t]) atomicOr(&c.alive[t / 32], 1u << t % 32);
        SYNC;
        for (int i = 0; i < WORDS; i++) m += __popc(c.alive[i]);
        EACH(t, CHUNK) gather(a, c, image, base, t);
        SYNC;
        EACH(t, CHUNK) {
            if (made) {
                if (t < WORDS && 32 * t < m) c.dead[t] = c.compared[base / 32 + t];
                load_masks(a, c, image, base, m, t);
            }
            for (int i = t; i < m * ((m + 31) / 32) && apart && !made; i += CHUNK)
                if (i / m >= i % m / 32) fill_mask(a, c, i % m, i / m, m);
        }
        SYNC;
        for (int w = 0; 32 * w < m; w++) {
            EACH(t, CHUNK) if (!t) resolve(a, c, w, m);
            SYNC;
            EACH(t, CHUNK) if (apart && t > w && 32 * t < m) spread(c, w, t);
            SYNC;
        }
        int compared = n < a.compared ? n : a.compared, behind = made && c.total < a.limit ? (compared + 31) / 32 - base / 32 - WORDS : 0;
        EACH(t, CHUNK) {
            if (t < m) put_box(a, c, image, t, box, have);
            if (behind > 0) spread_behind(a, c, image, base, m, behind, t);
        }
        SYNC;
    }
    float *numbers = (float *)(box + a.limit);
    EACH(t, CHUNK) {
        if (!t) *(ym_found *)out = ym_found{c.total, {0, 0, 0}};
        for (int i = t; i < c.total * a.numbers; i += CHUNK)
            numbers[i] = kept_number(a, image, box[i / a.numbers].row, i % a.numbers);
    }
}
