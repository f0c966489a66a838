/*
 * Writes module files for tests of the loader and the executor: the tables are plain structs that a test edits
 * before modbuild_finish lays them out and signs the file, so that any field can be wrong under a right digest.
 */
#ifndef TEST_MODBUILD_H
#define TEST_MODBUILD_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/module.h"

/* Machine code that a kernel can have; a unit is one element. */
enum modbuild_code {
    MB_COPY,  /* f32 arg 0 to f32 arg 1 */
    MB_WIDEN, /* u8 arg 0 to f32 arg 1 */
    MB_FAIL,  /* returns 2: an access would have left argument 1 */
    MB_SPIN,  /* int32: writes 1 at arg0[1], returns when arg0[0] is no longer 0 */
    MB_STRAY, /* writes the byte of arg 0 that the int64 in arg 1 says */
    MB_TALLY, /* unit u: 4 * u to int32 arg 0, by way of the scratch */
    MB_NCODE
};

enum { MB_WEIGHT_FLOATS = 16, MB_MOST_KERNELS = 8 };

struct modbuild {
    struct ym_header header; /* file_size, digest and nsection are filled in */
    struct ym_meta meta;
    uint32_t name[128];
    uint32_t nname;
    struct ym_weight weight[2];
    uint32_t nweight;
    float weights[MB_WEIGHT_FLOATS];
    /* Of each program; the tables after it are the same for all. */
    struct ym_target target[2];
    uint32_t ntarget;
    struct ym_io io[130];
    uint32_t nio;
    struct ym_kernel kernel[MB_MOST_KERNELS];
    uint32_t nkernel;
    uint32_t code[MB_MOST_KERNELS]; /* enum modbuild_code of each, sealed with the tables as they are at the end */
    struct ym_kernel service[2]; /* rows of SERVICE, sealed like kernels, in the slots of CODE behind theirs */
    uint32_t nservice;           /* 0: no such section */
    struct ym_param param[16];
    uint32_t nparam;
    struct ym_map map[4];
    uint32_t nmap; /* no section when 0 */
    struct ym_engine engine[4];
    uint32_t nengine; /* no section when 0 */
    struct ym_step step[8];
    uint32_t nstep;
    struct ym_arg arg[80];
    uint32_t narg;
    struct ym_constant row[4]; /* 0 of them: no section CONSTANT */
    uint32_t nrow;
    float constant[128];
    uint32_t nconstant;
    char strings[4096];
    uint32_t nstrings;
    uint32_t without; /* bit k: no section of kind k */
    uint32_t cut;     /* bit k: one byte short */
    uint32_t empty;   /* bit k: no bytes */
};

/*
 * A detector of two classes for pictures of 8 x 8, at most two of them, for any CPU of this machine's kind:
 *   io 0 input_u8 U8 [2,8,8,3], 1 images F32 [2,3,8,8], 2 decoded F32 [2,6,2], 3 echo F32 [2,192] (a layer)
 *   step 0 input_u8 to arena, 1 images to arena, 2 arena to echo, 3 the constants to decoded, with a kernel each
 * so that echo is the input and decoded does not depend on it. Boxes (cx, cy, w, h, score): image 0 has class 0
 * (2, 2, 2, 2, 0.9) and class 1 (6, 6, 4, 4, 0.8), image 1 only class 1 (4, 4, 2, 4, 0.7).
 */
void modbuild_init(struct modbuild *b);
enum { MB_INPUT_U8, MB_IMAGES, MB_DECODED, MB_ECHO, MB_ELEMENTS = 192, MB_ROWS = 2, MB_ROW = 6 };

/* Constants that the loader makes, 448 bytes: the 96 of step 3 as they are; weight 0 in blocks of 8 with factors, at 128; weight 1, of half
 * precision, at 256; weight 0 by taps, at 320. */
void modbuild_constants(struct modbuild *b);
extern const double modbuild_factor[4];

uint32_t modbuild_string(struct modbuild *b, const char *text);

/* Makes the first program one for a GPU ("sm_90a"), of blocks of 128 threads, a unit each. */
void modbuild_cuda(struct modbuild *b, const char *arch);

/* Adds a row of SERVICE. */
void modbuild_service(struct modbuild *b);

/* Adds a kernel with its parameters; its number. */
uint32_t modbuild_kernel(struct modbuild *b, enum modbuild_code code, int64_t units, const struct ym_param *p, uint32_t n);

/* The file, 64-byte aligned; free(). */
uint8_t *modbuild_finish(struct modbuild *b, size_t *size);

/* Makes the digest right again after bytes were changed. */
void modbuild_sign(uint8_t *bytes, size_t size);

#endif
