#include "pixels.h"

#include <stdio.h>
#include <stdlib.h>

static int is_nv12(const yolort_picture *p)
{
    return p->format >= YOLORT_NV12;
}

size_t pixels_luma_bytes(const yolort_picture *p)
{
    return p->row_bytes * (size_t)p->height;
}

size_t pixels_chroma_bytes(const yolort_picture *p)
{
    return is_nv12(p) ? p->chroma_row_bytes * (size_t)((p->height + 1) / 2) : 0;
}

static uint8_t *read_ppm(const char *path, int *width, int *height)
{
    FILE *f = fopen(path, "rb");
    if (!f || fscanf(f, "P6 %d %d 255", width, height) != 2 || fgetc(f) == EOF || *width < 1 || *height < 1) return NULL;
    size_t bytes = (size_t)*width * (size_t)*height * 3;
    uint8_t *rgb = malloc(bytes);
    if (rgb && fread(rgb, 1, bytes, f) != bytes) rgb = NULL;
    fclose(f);
    return rgb;
}

/* Green as luma, the others as chroma: a picture, if not the same. Rows are not dense. */
static void make_nv12(yolort_picture *to, const uint8_t *rgb, int width, int height, yolort_pixels format)
{
    *to = (yolort_picture){.width = width, .height = height, .format = format};
    to->row_bytes = (size_t)width + 7;
    to->chroma_row_bytes = (size_t)(width + 1) / 2 * 2 + 2;
    uint8_t *luma = calloc(1, pixels_luma_bytes(to)), *chroma = calloc(1, pixels_chroma_bytes(to));
    for (int y = 0; y < height && luma && chroma; y++)
        for (int x = 0; x < width; x++) {
            const uint8_t *p = rgb + 3 * ((size_t)y * (size_t)width + (size_t)x);
            luma[(size_t)y * to->row_bytes + (size_t)x] = p[1];
            uint8_t *uv = chroma + (size_t)(y / 2) * to->chroma_row_bytes + x / 2 * 2;
            uv[0] = (uint8_t)(128 + (p[2] - p[1]) / 4);
            uv[1] = (uint8_t)(128 + (p[0] - p[1]) / 4);
        }
    to->data = luma;
    to->chroma = chroma;
}

int pixels_load(yolort_picture to[PIXELS_KINDS], const char *path)
{
    int width, height;
    uint8_t *rgb = read_ppm(path, &width, &height);
    if (!rgb) {
        fprintf(stderr, "%s: no picture\n", path);
        return -1;
    }
    size_t bytes = (size_t)width * (size_t)height * 3;
    uint8_t *bgr = malloc(bytes);
    for (size_t i = 0; bgr && i < bytes; i += 3) bgr[i] = rgb[i + 2], bgr[i + 1] = rgb[i + 1], bgr[i + 2] = rgb[i];
    to[YOLORT_RGB] = (yolort_picture){rgb, NULL, width, height, (size_t)width * 3, 0, YOLORT_RGB};
    to[YOLORT_BGR] = (yolort_picture){bgr, NULL, width, height, (size_t)width * 3, 0, YOLORT_BGR};
    make_nv12(&to[YOLORT_NV12], rgb, width, height, YOLORT_NV12);
    make_nv12(&to[YOLORT_NV12_709], rgb, width, height, YOLORT_NV12_709);
    return !bgr || !to[YOLORT_NV12].data ? -1 : 0;
}

uint8_t *pixels_rgb(const yolort_picture *p)
{
    static const long hd[] = {1220945, 1879825, 223607, 558796, 2215014}, sd[] = {1220542, 1673527, 409993, 852492, 2116026};
    const long *k = p->format == YOLORT_NV12_709 ? hd : sd;
    uint8_t *rgb = malloc((size_t)p->width * (size_t)p->height * 3), *to = rgb;
    for (int y = 0; rgb && y < p->height; y++)
        for (int x = 0; x < p->width; x++, to += 3) {
            const uint8_t *at = p->data + (size_t)y * p->row_bytes + (is_nv12(p) ? 1 : 3) * x;
            for (int c = 0; c < 3 && !is_nv12(p); c++) to[c] = at[p->format == YOLORT_BGR ? 2 - c : c];
            if (!is_nv12(p)) continue;
            const uint8_t *uv = p->chroma + (size_t)(y / 2) * p->chroma_row_bytes + x / 2 * 2;
            long u = uv[0] - 128, v = uv[1] - 128, luma = (at[0] > 16 ? at[0] - 16 : 0) * k[0] + (1 << 19);
            const long all[] = {luma + k[1] * v, luma - k[3] * v - k[2] * u, luma + k[4] * u};
            for (int c = 0; c < 3; c++) to[c] = (uint8_t)(all[c] < 0 ? 0 : all[c] >> 20 > 255 ? 255 : all[c] >> 20);
        }
    return rgb;
}
