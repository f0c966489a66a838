#include "picture.h"

#include "check.h"
#include "service.h"

_Static_assert((int)YM_RGB == YOLORT_RGB && (int)YM_BGR == YOLORT_BGR && (int)YM_NV12 == YOLORT_NV12 &&
                   (int)YM_NV12_709 == YOLORT_NV12_709, "kernels get the public number");

enum { MAX_SIDE = 65535 };

int rt_picture_is_nv12(const yolort_picture *p)
{
    return p->format == YOLORT_NV12 || p->format == YOLORT_NV12_709;
}

size_t rt_picture_row(const yolort_picture *p)
{
    return (size_t)p->width * (rt_picture_is_nv12(p) ? 1 : 3);
}

size_t rt_picture_chroma_row(const yolort_picture *p)
{
    return rt_picture_is_nv12(p) ? ((size_t)p->width + 1) / 2 * 2 : 0;
}

size_t rt_picture_chroma_rows(const yolort_picture *p)
{
    return rt_picture_is_nv12(p) ? ((size_t)p->height + 1) / 2 : 0;
}

static int is_distance(size_t bytes, size_t row)
{
    return bytes >= row && bytes <= SIZE_MAX / MAX_SIDE;
}

yolort_status rt_picture_settle(yolort_picture *p)
{
    if (!RT_HOLDS(PIC_FORMAT, p->format >= YOLORT_RGB && p->format <= YOLORT_NV12_709)) return YOLORT_ARG;
    if (!RT_HOLDS(PIC_NULL, p->data && (p->chroma || !rt_picture_is_nv12(p)))) return YOLORT_ARG;
    if (!p->row_bytes) p->row_bytes = rt_picture_row(p);
    if (!p->chroma_row_bytes) p->chroma_row_bytes = rt_picture_chroma_row(p);
    if (!RT_HOLDS(PIC_ROW, is_distance(p->row_bytes, rt_picture_row(p)))) return YOLORT_ARG;
    if (!rt_picture_is_nv12(p)) return YOLORT_OK;
    return RT_HOLDS(PIC_CHROMA_ROW, is_distance(p->chroma_row_bytes, rt_picture_chroma_row(p))) ? YOLORT_OK : YOLORT_ARG;
}

static void nv12_row(const yolort_picture *p, int y, uint8_t *out)
{
    const uint8_t *luma = p->data + (size_t)y * p->row_bytes, *pair = p->chroma + (size_t)(y / 2) * p->chroma_row_bytes;
    for (int x = 0; x < p->width; x++)
        ym_rgb_of_yuv((int)p->format, luma[x], pair[x & ~1], pair[x | 1], out + 3 * (size_t)x);
}

static void row_of_three(const yolort_picture *p, int y, uint8_t *out)
{
    const uint8_t *from = p->data + (size_t)y * p->row_bytes;
    int red = p->format == YOLORT_BGR ? 2 : 0;
    for (int x = 0; x < p->width; x++, from += 3, out += 3) {
        out[0] = from[red];
        out[1] = from[1];
        out[2] = from[2 - red];
    }
}

void rt_picture_to_rgb(const yolort_picture *p, uint8_t *out)
{
    for (int y = 0; y < p->height; y++, out += 3 * (size_t)p->width) {
        if (rt_picture_is_nv12(p))
            nv12_row(p, y, out);
        else
            row_of_three(p, y, out);
    }
}
