/* Pictures of all kinds that a detection takes. */
#ifndef RT_PICTURE_H
#define RT_PICTURE_H

#include "yolort.h"

/* Fills in distances of rows that are 0. ARG when it can't be a picture. */
yolort_status rt_picture_settle(yolort_picture *p);

int rt_picture_is_nv12(const yolort_picture *p);

/* Bytes of a dense row and of a dense row of chroma, and rows of chroma; 0 where there is none. */
size_t rt_picture_row(const yolort_picture *p);
size_t rt_picture_chroma_row(const yolort_picture *p);
size_t rt_picture_chroma_rows(const yolort_picture *p);

/* A settled picture as dense RGB. */
void rt_picture_to_rgb(const yolort_picture *p, uint8_t *out);

#endif
