/* Modules whose tables are bad under a digest that is right: fields, what the code says of itself, sections; and formats of old. */
#include <criterion/criterion.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadbox.h"

/* --- bad fields -------------------------------------------------------------------------------------------------- */

struct fault {
    size_t at, width; /* of the field in struct modbuild */
    uint64_t value;
    yolort_status status;
    const char *part; /* of the text */
};

#define FIELD(f) offsetof(struct modbuild, f), sizeof ((struct modbuild *)0)->f
#define F32(bits) bits
#define NEG(v) ((uint64_t)(v))
#define BAD_STRING 0x10000
#define FORMAT YOLORT_FORMAT
#define LIMIT YOLORT_LIMIT
#define INCOMPATIBLE YOLORT_INCOMPATIBLE

/* clang-format off */
static const struct fault faults[] = {
    {FIELD(header.format), 5, INCOMPATIBLE, "has format version 5, this runtime reads version 4"},
    {FIELD(header.format), 3, INCOMPATIBLE, "has format version 3, this runtime reads version 4"},
    {FIELD(header.format), 2, INCOMPATIBLE, "has format version 2, this runtime reads version 4"},
    {FIELD(header.format), 1, INCOMPATIBLE, "has format version 1, this runtime reads version 4"},
    {FIELD(header.byte_order), 0x04030201, INCOMPATIBLE, "has byte order 0x04030201, this runtime reads 0x01020304"},
    {FIELD(header.features), 1, INCOMPATIBLE, "needs reader features 0x1, this runtime has none"},
    {FIELD(header.ntarget), 65, LIMIT, "65 programs"},
    {FIELD(header.ntarget), 2, FORMAT, "no section TARGET 1"},
    {FIELD(header.magic), 0, FORMAT, "not a yoloc module"},
    {FIELD(without), 1 << YM_STRINGS, FORMAT, "STRINGS"},
    {FIELD(without), 1 << YM_META, FORMAT, "no section META"},
    {FIELD(without), 1 << YM_NAMES, FORMAT, "no section NAMES"},
    {FIELD(without), 1 << YM_WEIGHT, FORMAT, "WEIGHTS without WEIGHT"},
    {FIELD(without), 1 << YM_WEIGHTS, FORMAT, "outside WEIGHTS"},
    {FIELD(without), 1 << YM_TARGET, FORMAT, "no section TARGET"},
    {FIELD(without), 1 << YM_IO, FORMAT, "no section IO"},
    {FIELD(without), 1 << YM_KERNEL, FORMAT, "no section KERNEL"},
    {FIELD(without), 1 << YM_STEP, FORMAT, "no section STEP"},
    {FIELD(without), 1 << YM_ARG, FORMAT, "no section ARG"},
    {FIELD(without), 1 << YM_CODE, FORMAT, "no section CODE"},
    {FIELD(without), 1 << YM_CONSTANTS, FORMAT, "STEP 3: argument 0: its kernel would leave the slot"},
    {FIELD(without), 1 << YM_PARAM, FORMAT, "no section PARAM"},
    {FIELD(cut), 1 << YM_STRINGS, FORMAT, "STRINGS"},
    {FIELD(cut), 1 << YM_META, FORMAT, "META 0: 87 bytes"},
    {FIELD(cut), 1 << YM_NAMES, FORMAT, "NAMES"},
    {FIELD(cut), 1 << YM_WEIGHT, FORMAT, "WEIGHT"},
    {FIELD(cut), 1 << YM_WEIGHTS, FORMAT, "outside WEIGHTS"},
    {FIELD(cut), 1 << YM_TARGET, FORMAT, "TARGET"},
    {FIELD(cut), 1 << YM_IO, FORMAT, "IO"},
    {FIELD(cut), 1 << YM_KERNEL, FORMAT, "KERNEL"},
    {FIELD(cut), 1 << YM_STEP, FORMAT, "STEP"},
    {FIELD(cut), 1 << YM_ARG, FORMAT, "ARG"},
    {FIELD(cut), 1 << YM_CONSTANTS, FORMAT, "STEP 3: argument 0: its kernel would leave the slot"},
    {FIELD(cut), 1 << YM_PARAM, FORMAT, "PARAM"},
    {FIELD(empty), 1 << YM_META, FORMAT, "META: 0 records"},
    {FIELD(empty), 1 << YM_TARGET, FORMAT, "TARGET 0: 0 records"},
    {FIELD(empty), 1 << YM_CODE, FORMAT, "KERNEL 0: entry 64 is outside CODE"},
    {FIELD(empty), 1 << YM_PARAM, FORMAT, "KERNEL 0: parameters 0 + 2 of 0"},
    {FIELD(strings[0]), 'x', FORMAT, "STRINGS"},
    {FIELD(nstrings), 0, FORMAT, "STRINGS"},
    {FIELD(meta.model), BAD_STRING, FORMAT, "META: model: string 65536 is outside"},
    {FIELD(meta.task), BAD_STRING, FORMAT, "META: task"},
    {FIELD(meta.weights_from), BAD_STRING, FORMAT, "META: weights_from"},
    {FIELD(meta.options), 0xffffffff, FORMAT, "META: options"},
    {FIELD(meta.head), 5, FORMAT, "META: head 5"},
    {FIELD(meta.coefficients), NEG(-1), FORMAT, "META: -1 coefficients"},
    {FIELD(meta.points), 1, FORMAT, "1 points of 0 numbers"},
    {FIELD(meta.point_dims), 2, FORMAT, "0 points of 2 numbers"},
    {FIELD(meta.angles), 2, FORMAT, "2 angles"},
    {FIELD(meta.angles), 1, FORMAT, "decoded does not hold rows of 7"},
    {FIELD(meta.letterbox), 3, FORMAT, "META: letterbox 3"},
    {FIELD(meta.nc), NEG(-1), FORMAT, "META: -1 classes"},
    {FIELD(meta.nc), 0, FORMAT, "META: 0 classes"},
    {FIELD(meta.nc), 65537, FORMAT, "META: 65537 classes"},
    {FIELD(meta.nc), 3, FORMAT, "NAMES: 2 names of 3"},
    {FIELD(meta.height), 0, FORMAT, "META: 8 x 0"},
    {FIELD(meta.width), 65536, FORMAT, "META: 65536 x 8"},
    {FIELD(meta.max_batch), 0, FORMAT, "META: batch 0"},
    {FIELD(meta.max_batch), 65537, FORMAT, "META: batch 65537"},
    {FIELD(meta.stride), 0, FORMAT, "META: stride 0"},
    {FIELD(meta.max_det), NEG(-1), FORMAT, "META: max_det -1"},
    {FIELD(meta.conf), F32(0x7fc00000), FORMAT, "META: conf nan"},
    {FIELD(meta.conf), F32(0xbf800000), FORMAT, "META: conf -1"},
    {FIELD(meta.iou), F32(0x7f800000), FORMAT, "iou inf"},
    {FIELD(name[1]), BAD_STRING, FORMAT, "NAMES"},
    {FIELD(weight[0].name), 0, FORMAT, "WEIGHT: name: empty"},
    {FIELD(weight[0].dtype), 9, FORMAT, "WEIGHT 0: bad type"},
    {FIELD(weight[0].rank), 7, FORMAT, "WEIGHT 0: bad type"},
    {FIELD(weight[0].rank), 1, FORMAT, "WEIGHT 0: bad type"},
    {FIELD(weight[0].dim[0]), 0, FORMAT, "WEIGHT 0: bad type"},
    {FIELD(weight[0].dim[0]), NEG(-4), FORMAT, "WEIGHT 0: bad type"},
    {FIELD(weight[0].dim[0]), 1ull << 61, FORMAT, "WEIGHT 0: bad type"},
    {FIELD(weight[0].pad[1]), 1, FORMAT, "WEIGHT 0: bad type"},
    {FIELD(weight[0].size), 60, FORMAT, "WEIGHT 0: 60 bytes instead of 64"},
    {FIELD(weight[0].offset), 64, FORMAT, "WEIGHT 0: at 64"},
    {FIELD(weight[0].offset), 1, FORMAT, "WEIGHT 0: at 1"},
    {FIELD(weight[0].offset), NEG(-64), FORMAT, "outside WEIGHTS"},
    {FIELD(target[0].kind), 3, INCOMPATIBLE, "cpu:test needs a device this runtime has not"},
    {FIELD(target[0].name), 0, FORMAT, "TARGET: name"},
    {FIELD(target[0].arch), 0, FORMAT, "TARGET: arch"},
    {FIELD(target[0].features), BAD_STRING, FORMAT, "TARGET: features"},
    {FIELD(target[0].precision), BAD_STRING, FORMAT, "TARGET: precision"},
    {FIELD(target[0].compiler), BAD_STRING, FORMAT, "TARGET: compiler"},
    {FIELD(target[0].arena_size), 1ull << 43, LIMIT, "TARGET 0: an arena"},
    {FIELD(target[0].arena_size), 1535, FORMAT, "STEP 0: argument 1: its kernel would leave the slot"},
    {FIELD(target[0].scratch_size), 1ull << 33, LIMIT, "TARGET 0: scratch"},
    {FIELD(target[0].max_batch), 0, FORMAT, "TARGET 0: batch 0"},
    {FIELD(target[0].max_batch), 3, FORMAT, "dim 0 is not the batch"},
    {FIELD(target[0].height), 0, FORMAT, "TARGET 0: 8 x 0"},
    {FIELD(target[0].width), 65536, FORMAT, "TARGET 0: 65536 x 8"},
    {FIELD(target[0].checked), 2, FORMAT, "TARGET 0: checked is 2"},
    {FIELD(nio), 0, FORMAT, "ARG 0: io 0"},
    {FIELD(nio), 129, LIMIT, "129 inputs and outputs"},
    {FIELD(io[0].name), 0, FORMAT, "IO: name: empty"},
    {FIELD(io[1].dtype), 9, FORMAT, "IO 1 (images): bad type"},
    {FIELD(io[1].rank), 0, FORMAT, "IO 1 (images): bad type"},
    {FIELD(io[1].rank), 7, FORMAT, "IO 1 (images): bad type"},
    {FIELD(io[1].dim[3]), 0, FORMAT, "IO 1 (images): bad type"},
    {FIELD(io[1].dim[5]), 1, FORMAT, "IO 1 (images): bad type"},
    {FIELD(io[1].dim[3]), 1ull << 40, LIMIT, "IO 1 (images)"},
    {FIELD(io[1].dim[3]), NEG(-8), FORMAT, "IO 1 (images): bad type"},
    {FIELD(io[1].dim[3]), 1ull << 62, FORMAT, "IO 1 (images): bad type"},
    {FIELD(io[1].dim[0]), 1, FORMAT, "IO 1 (images): dim 0"},
    {FIELD(io[1].flags), YM_IO_LAYER, FORMAT, "IO 1 (images): flags 0x2"},
    {FIELD(io[1].flags), 8, FORMAT, "IO 1 (images): flags 0x8"},
    {FIELD(io[1].pad), 1, FORMAT, "IO 1 (images): padding"},
    {FIELD(io[0].dim[1]), 7, FORMAT, "input_u8 is no picture of 8 x 8"},
    {FIELD(io[0].dim[2]), 9, FORMAT, "input_u8 is no picture"},
    {FIELD(io[0].dim[3]), 4, FORMAT, "input_u8 is no picture"},
    {FIELD(io[0].dtype), YOLORT_I8, FORMAT, "input_u8 is no picture"},
    {FIELD(io[0].rank), 5, FORMAT, "IO 0 (input_u8): bad type"},
    {FIELD(io[2].dim[1]), 7, FORMAT, "decoded does not hold rows of 6"},
    {FIELD(io[2].dtype), YOLORT_I32, FORMAT, "decoded does not hold"},
    {FIELD(io[2].flags), 0, FORMAT, "decoded does not hold"},
    {FIELD(meta.head), YOLORT_HEAD_ANCHOR, FORMAT, "decoded does not hold rows of 7"},
    {FIELD(kernel[3].name), 0, FORMAT, "KERNEL: name"},
    {FIELD(kernel[3].family), BAD_STRING, FORMAT, "KERNEL: family"},
    {FIELD(kernel[3].offset), 832, FORMAT, "KERNEL 3: entry 832 is outside CODE or not aligned"},
    {FIELD(kernel[3].offset), 641, FORMAT, "KERNEL 3: entry 641 is outside CODE or not aligned"},
    {FIELD(kernel[3].offset), 0, FORMAT, "KERNEL 3: entry 0 is outside CODE or not aligned"},
    {FIELD(kernel[3].offset), NEG(-64), FORMAT, "KERNEL 3: entry"},
    {FIELD(kernel[3].units), 0, FORMAT, "KERNEL 3: 0 units"},
    {FIELD(kernel[3].units), NEG(-1), FORMAT, "KERNEL 3: -1 units"},
    {FIELD(kernel[3].units), 1ull << 60, FORMAT, "KERNEL 3: "},
    {FIELD(kernel[3].scratch), 65, FORMAT, "KERNEL 3: 65 bytes of scratch"},
    {FIELD(kernel[3].threads), 32, FORMAT, "KERNEL 3: blocks of 32 threads, 0 units, 0 bytes"},
    {FIELD(kernel[3].per_block), 1, FORMAT, "KERNEL 3: blocks of 0 threads, 1 units, 0 bytes"},
    {FIELD(kernel[3].shared), 1, FORMAT, "KERNEL 3: blocks of 0 threads, 0 units, 1 bytes"},
    {FIELD(kernel[3].most_blocks), 1, FORMAT, "KERNEL 3: blocks of 0 threads, 0 units, 0 bytes"},
    {FIELD(kernel[3].waits), 1, FORMAT, "KERNEL 3: blocks of 0 threads, 0 units, 0 bytes"},
    {FIELD(kernel[3].least_blocks), 1, FORMAT, "KERNEL 3: blocks of 0 threads, 0 units, 0 bytes"},
    {FIELD(kernel[1].first_param), 1, FORMAT, "KERNEL 1: parameters 1 + 2 of 8"},
    {FIELD(kernel[0].nparam), 9, FORMAT, "KERNEL 0: parameters 0 + 9 of 8"},
    {FIELD(kernel[0].nparam), 65, FORMAT, "KERNEL 0: parameters 0 + 65 of 8"},
    {FIELD(kernel[0].nparam), 1, FORMAT, "KERNEL 1: parameters 2 + 2 of 8"},
    {FIELD(kernel[3].nparam), 1, FORMAT, "PARAM: 8 rows, the kernels have 7"},
    {FIELD(nkernel), 3, FORMAT, "PARAM: 8 rows, the kernels have 6"},
    {FIELD(param[0].dtype), 9, FORMAT, "KERNEL 0: parameter 0: type 9"},
    {FIELD(param[1].written), 2, FORMAT, "KERNEL 0: parameter 1: bad flags"},
    {FIELD(param[1].align), 1, FORMAT, "KERNEL 0: parameter 1: multiples of 2^1"},
    {FIELD(param[1].pad[4]), 1, FORMAT, "KERNEL 0: parameter 1: bad flags"},
    {FIELD(param[0].dtype), YOLORT_I8, FORMAT, "STEP 0: argument 0: has another type"},
    {FIELD(param[0].written), 1, FORMAT, "STEP 0: argument 0: would be written"},
    {FIELD(param[6].written), 1, FORMAT, "STEP 3: argument 0: would be written"},
    {FIELD(param[0].first), 193, FORMAT, "STEP 0: argument 0: its kernel would leave the slot"},
    {FIELD(param[0].first), NEG(-1), FORMAT, "STEP 0: argument 0: its kernel would leave the slot"},
    {FIELD(param[0].each), 193, FORMAT, "STEP 0: argument 0: its kernel would leave the slot"},
    {FIELD(param[1].first), 772, FORMAT, "STEP 0: argument 1: its kernel would leave the slot"},
    {FIELD(param[1].each), NEG(-1), FORMAT, "STEP 0: argument 1: its kernel would leave the slot"},
    {FIELD(param[6].each), 49, FORMAT, "STEP 3: argument 0: its kernel would leave the slot"},
    {FIELD(param[7].each), 49, FORMAT, "STEP 3: argument 1: its kernel would leave the slot"},
    {FIELD(arg[2].slot), 3, FORMAT, "ARG 2: slot 3"},
    {FIELD(arg[2].io), 4, FORMAT, "ARG 2: io 4"},
    {FIELD(arg[1].io), 1, FORMAT, "ARG 1: io 1"},
    {FIELD(arg[1].offset), 1, FORMAT, "STEP 0: argument 1: 1 is no address of its type"},
    {FIELD(arg[1].offset), 4, FORMAT, "STEP 0: argument 1: its kernel would leave the slot"},
    {FIELD(arg[1].offset), NEG(-4), FORMAT, "ARG 1: at 18446744073709551612, its slot has 1536 bytes"},
    {FIELD(arg[0].offset), 1, FORMAT, "STEP 0: argument 0: its kernel would leave the slot"},
    {FIELD(arg[1].slot), YM_SLOT_CONSTANT, FORMAT, "STEP 0: argument 1: would be written"},
    {FIELD(arg[6].slot), YM_SLOT_IO, FORMAT, "STEP 3: argument 0: has another type"},
    {FIELD(narg), 7, FORMAT, "STEP 3: arguments 6 + 2 of 7"},
    {FIELD(nstep), 3, FORMAT, "IO 2 (decoded): with some input, no step writes it"},
    {FIELD(step[0].label), BAD_STRING, FORMAT, "STEP: label"},
    {FIELD(step[0].need[0]), 1 << MB_ECHO, FORMAT, "STEP 0: need names what is no input"},
    {FIELD(step[0].need[1]), 1, FORMAT, "STEP 0: need"},
    {FIELD(step[0].need[0]), 0, FORMAT, "STEP 0: may run without its argument input_u8"},
    {FIELD(step[0].need[0]), 3, FORMAT, "STEP 0: may run without its argument input_u8"},
    {FIELD(step[0].want[0]), 0, FORMAT, "STEP 0: want"},
    {FIELD(step[0].want[0]), 1 << MB_IMAGES, FORMAT, "STEP 0: want"},
    {FIELD(step[0].want[1]), 1ull << 63, FORMAT, "STEP 0: want"},
    {FIELD(step[3].want[0]), 1 << MB_DECODED | 1 << MB_ECHO, FORMAT, "STEP 3: may run without its argument decoded"},
    {FIELD(step[3].need[0]), 1 << MB_IMAGES, FORMAT, "IO 2 (decoded): with some input"},
    {FIELD(step[0].kernel), 4, FORMAT, "STEP 0: kernel 4 of 4"},
    {FIELD(step[0].kernel), 1, FORMAT, "STEP 0: argument 0: has another type"},
    {FIELD(step[0].narg), 1, FORMAT, "STEP 0: 1 arguments, its kernel has 2 parameters"},
    {FIELD(step[0].narg), 65, FORMAT, "STEP 0: 65 arguments, its kernel has 2 parameters"},
    {FIELD(step[0].narg), 0xffffffff, FORMAT, "STEP 0: arguments 0 + 4294967295 of 80"},
    {FIELD(step[0].first_arg), 0xffffffff, FORMAT, "STEP 0: arguments"},
    {FIELD(step[0].line), NEG(-1), FORMAT, "STEP 0: line -1"},
    {FIELD(step[0].grain), 0, FORMAT, "STEP 0: grain"},
    {FIELD(step[0].flops), 0x7ff8000000000000, FORMAT, "STEP 0: flops"},
    {FIELD(step[0].bytes), 0x7ff0000000000000, FORMAT, "STEP 0: flops"},
    {FIELD(step[0].flops), 0xbff0000000000000, FORMAT, "STEP 0: flops"},
    {FIELD(step[0].bytes), 0xbff0000000000000, FORMAT, "STEP 0: flops"},
};
/* clang-format on */

/* 65 arguments are there for the row that names so many; an unused 129th io gets a name of its own. */
static void make_room(struct modbuild *b)
{
    for (uint32_t i = b->narg; i < 80; i++) b->arg[i] = (struct ym_arg){0};
    b->narg = b->narg == 8 ? 80 : b->narg;
}

Test(rt_modtable, bad_fields)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct fault *f = &faults[i];
        struct modbuild b;
        modbuild_init(&b);
        memcpy((uint8_t *)&b + f->at, &f->value, f->width);
        make_room(&b);
        expect(&b, f->status, f->part);
    }
}

/* What is odd and yet allowed. */
Test(rt_modtable, good_fields)
{
    struct modbuild b;
    modbuild_init(&b);
    b.without = 1 << YM_WEIGHT | 1 << YM_WEIGHTS | 1 << YM_IR;
    expect(&b, YOLORT_OK, "");
    modbuild_init(&b);
    b.name[0] = 0;
    b.step[1].label = 0;
    expect(&b, YOLORT_OK, "");
    modbuild_init(&b);
    b.meta.head = 0, b.meta.nc = 0, b.meta.stride = 0;
    b.without = 1 << YM_NAMES;
    expect(&b, YOLORT_OK, "");
    modbuild_init(&b);
    b.meta.head = YOLORT_HEAD_BEST;
    expect(&b, YOLORT_OK, "");
    modbuild_init(&b);
    b.meta.nc = 1, b.meta.angles = 1;
    b.nname = 1;
    expect(&b, YOLORT_OK, "");
    modbuild_init(&b);
    b.meta.head = YOLORT_HEAD_X, b.meta.nc = 3;
    b.name[b.nname++] = 0;
    b.io[MB_DECODED].dim[1] = 3, b.io[MB_DECODED].dim[2] = 8;
    b.constant[24] = 0, b.nconstant = 24;
    expect(&b, YOLORT_OK, "");
}

Test(rt_modtable, twice_the_name)
{
    struct modbuild b;
    modbuild_init(&b);
    b.io[3].name = b.io[1].name;
    expect(&b, YOLORT_FORMAT, "IO 1 and 3 are both \"images\"");
}

/* Neither inputs nor outputs. */
Test(rt_modtable, one_sided)
{
    struct modbuild b;
    modbuild_init(&b);
    b.nio = 1, b.nstep = 0, b.narg = 0;
    expect(&b, YOLORT_FORMAT, "no input, or no output");
    modbuild_init(&b);
    b.io[0] = b.io[MB_ECHO];
    b.nio = 1, b.nstep = 0, b.narg = 0;
    expect(&b, YOLORT_FORMAT, "no input, or no output");
}

#if defined(__x86_64__)
/* Format 4 as it was first released, by the digest of a file with no code: who changes the layout must raise YM_FORMAT, and
 * keep this file readable or refused by its number. */
Test(rt_modtable, format_4)
{
    static const uint8_t digest[16] = {0x41, 0x9e, 0xf7, 0x24, 0xf8, 0x6a, 0x5c, 0xea,
                                       0x28, 0x78, 0x39, 0x4a, 0x5e, 0x8c, 0x7d, 0x9b};
    struct modbuild b;
    size_t size;
    modbuild_init(&b);
    b.without = 1 << YM_CODE;
    uint8_t *bytes = modbuild_finish(&b, &size);
    const struct ym_header *h = (const struct ym_header *)(const void *)bytes;
    cr_expect_eq(h->format, 4);
    cr_expect_arr_eq(h->digest, digest, sizeof digest);
    free(bytes);
}
#endif

/* A file of format 1, as far as it is read: its header. */
Test(rt_modtable, format_1)
{
    static const uint8_t header[sizeof(struct ym_header)] = {
        0x59, 0x4f, 0x4c, 0x4f, 0x43, 0x4d, 0x4f, 0x44, 0x01, 0x00, 0x00, 0x00, 0x04, 0x03,
        0x02, 0x01, 0xc0, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbe, 0xaa, 0x18, 0xdb,
        0x7b, 0xf9, 0x0a, 0x73, 0x08, 0xed, 0xdc, 0x2b, 0xd9, 0x23, 0x4d, 0x20, 0x00, 0x00,
        0x00, 0x00, 0x03, 0x02, 0x01, 0x00, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00};
    uint8_t *bytes = aligned_alloc(64, 4096);
    memset(bytes, 0, 4096);
    memcpy(bytes, header, sizeof header);
    cr_expect_eq(load(bytes, ((const struct ym_header *)(const void *)bytes)->file_size), INCOMPATIBLE);
    cr_expect_str_eq(text, "has format version 1, this runtime reads version 4");
    free(bytes);
}

/* --- what the code says of itself -------------------------------------------------------------------------------- */

struct lie {
    uint32_t section, row, kernel; /* of which table, row by row; which kernel is then refused */
    size_t size, at, width;
    uint64_t value;
};

#define OF(type, f) sizeof(struct type), offsetof(struct type, f), sizeof((struct type *)0)->f

/* Everything that would call the code with less than it takes, under a digest that is right. */
Test(rt_modtable, seals)
{
    static const struct lie lies[] = {
        {YM_KERNEL, 1, 1, OF(ym_kernel, offset), 3 * 192 + 64},
        {YM_KERNEL, 1, 1, OF(ym_kernel, offset), 128},
        {YM_KERNEL, 1, 1, OF(ym_kernel, units), 193},
        {YM_KERNEL, 1, 1, OF(ym_kernel, units), 1},
        {YM_KERNEL, 1, 1, OF(ym_kernel, scratch), 64},
        {YM_PARAM, 2, 1, OF(ym_param, first), 764},
        {YM_PARAM, 3, 1, OF(ym_param, each), 0},
        {YM_PARAM, 3, 1, OF(ym_param, dtype), YOLORT_I32},
        {YM_PARAM, 3, 1, OF(ym_param, written), 0},
        {YM_CODE, 3, 3, 192, 64 - sizeof(struct ym_seal) + offsetof(struct ym_seal, magic), 1, 'Z'},
        {YM_CODE, 3, 3, 192, 64 - sizeof(struct ym_seal) + offsetof(struct ym_seal, offset), 8, 64},
        {YM_CODE, 3, 3, 192, 64 - sizeof(struct ym_seal) + offsetof(struct ym_seal, contract), 8, 0},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const struct lie *l = &lies[i];
        struct modbuild b;
        size_t size;
        char want[64];
        modbuild_init(&b);
        uint8_t *bytes = modbuild_finish(&b, &size);
        const struct ym_section *row = (const struct ym_section *)(const void *)(bytes + sizeof b.header);
        while (row->kind != l->section) row++;
        memcpy(bytes + row->offset + l->row * l->size + l->at, &l->value, l->width);
        modbuild_sign(bytes, size);
        snprintf(want, sizeof want, "KERNEL %u (kernel): is not what CODE holds", l->kernel);
        cr_expect_eq(load(bytes, size), FORMAT, "lie %zu", i);
        cr_expect(strstr(text, want), "lie %zu: %s", i, text);
        free(bytes);
    }
}

/* Bytes that grow less than an image's do, and yet begin with more: one image would not be enough. */
Test(rt_modtable, one_image)
{
    struct modbuild b;
    modbuild_init(&b);
    b.param[0].first = 193, b.param[0].each = 191;
    expect(&b, FORMAT, "STEP 0: argument 0: its kernel would leave the slot");
    b.param[0].first = 192, b.param[0].each = 192;
    expect(&b, YOLORT_OK, "");
}

/* --- bad section tables ----------------------------------------------------------------------------------------- */

struct table_fault {
    uint32_t row;
    size_t at, width; /* of the field in struct ym_section */
    uint64_t value;
    yolort_status status;
    const char *part;
};

#define SECTION(f) offsetof(struct ym_section, f), sizeof ((struct ym_section *)0)->f

static const struct table_fault table_faults[] = {
    {0, SECTION(kind), 0, INCOMPATIBLE, "section 0 is of kind 0"},
    {0, SECTION(kind), 7, INCOMPATIBLE, "section 0 is of kind 7"},
    {0, SECTION(kind), 0xffffffff, INCOMPATIBLE, "unknown here"},
    {1, SECTION(kind), YM_STRINGS, FORMAT, "section 1 (STRINGS): there are two"},
    {1, SECTION(index), 1, FORMAT, "section 1 (META): bad index 1"},
    {6, SECTION(index), 1, FORMAT, "section 6 (TARGET): bad index 1"},
    {7, SECTION(kind), YM_TARGET, FORMAT, "section 7 (TARGET): there are two"},
    {1, SECTION(offset), 64, FORMAT, "section 1 (META) is at 64 instead of"},
    {13, SECTION(offset), 1ull << 40, FORMAT, "section 13 (CONSTANTS) is at"},
    {13, SECTION(size), 1ull << 40, FORMAT, "section 13 (CONSTANTS) leaves the file"},
    {13, SECTION(size), UINT64_MAX, FORMAT, "section 13 (CONSTANTS) leaves the file"},
    {13, SECTION(size), 20, FORMAT, "bytes after the last section"},
    {12, SECTION(size), 1, FORMAT, "section 13 (CONSTANTS) is at"},
};

Test(rt_modtable, bad_sections)
{
    for (size_t i = 0; i < sizeof table_faults / sizeof *table_faults; i++) {
        const struct table_fault *f = &table_faults[i];
        struct modbuild b;
        size_t size;
        modbuild_init(&b);
        uint8_t *bytes = modbuild_finish(&b, &size);
        memcpy(bytes + sizeof b.header + f->row * sizeof(struct ym_section) + f->at, &f->value, f->width);
        modbuild_sign(bytes, size);
        yolort_status s = load(bytes, size);
        cr_expect_eq(s, f->status, "%s: %s: %s", f->part, yolort_status_name(s), text);
        cr_expect(strstr(text, f->part), "\"%s\" is not in \"%s\"", f->part, text);
        free(bytes);
    }
}

Test(rt_modtable, section_counts)
{
    struct modbuild b;
    size_t size;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    struct ym_header *h = (struct ym_header *)(void *)bytes;
    h->nsection = YM_MAX_SECTIONS + 1;
    modbuild_sign(bytes, size);
    cr_expect_eq(load(bytes, size), YOLORT_LIMIT);
    h->nsection = YM_MAX_SECTIONS;
    modbuild_sign(bytes, size);
    cr_expect_eq(load(bytes, size), YOLORT_FORMAT);
    cr_expect(strstr(text, "cut short"), "%s", text);
    h->nsection = 14, h->ntarget = 0;
    modbuild_sign(bytes, size);
    cr_expect_eq(load(bytes, size), YOLORT_FORMAT);
    cr_expect(strstr(text, "no program"), "%s", text);
    free(bytes);
}

/* Bytes that no section owns. */
Test(rt_modtable, hidden_bytes)
{
    struct modbuild b;
    size_t size;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    const struct ym_section *row = (const struct ym_section *)(const void *)(bytes + sizeof b.header);
    size_t between = (size_t)(row[1].offset + row[1].size), after = (size_t)(row[13].offset + row[13].size);
    cr_assert(between % 64 && after % 64);
    const size_t at[] = {between, after, size - 1};
    for (int i = 0; i < 3; i++) {
        bytes[at[i]] = 1;
        modbuild_sign(bytes, size);
        cr_expect_eq(load(bytes, size), YOLORT_FORMAT);
        cr_expect(strstr(text, i ? "after the last" : "bytes between sections before section 2 (NAMES)"), "%s", text);
        bytes[at[i]] = 0;
    }
    modbuild_sign(bytes, size);
    cr_expect_eq(load(bytes, size), YOLORT_OK);
    free(bytes);
}

/* A manifest section above its limit; bulk sections have none. */
Test(rt_modtable, large_sections)
{
    struct modbuild b;
    size_t size, big = 17 << 20;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size), *large = aligned_alloc(64, size + big);
    memset(large, 0, size + big);
    memcpy(large, bytes, size);
    struct ym_header *h = (struct ym_header *)(void *)large;
    struct ym_section *row = (struct ym_section *)(void *)(large + sizeof *h);
    h->file_size = size + big;
    row[13].size += big;
    modbuild_sign(large, size + big);
    cr_expect_eq(load(large, size + big), YOLORT_OK, "%s", text);
    row[13].kind = YM_IR;
    row[3].kind = YM_CONSTANTS;
    modbuild_sign(large, size + big);
    cr_expect_eq(load(large, size + big), YOLORT_LIMIT);
    cr_expect(strstr(text, "section 13 (IR)"), "%s", text);
    free(large);
    free(bytes);
}
