/* Flat linking: each kind of relocation by hand-made objects, what must be refused, and damaged objects. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "elfbuild.h"

static struct yir_arena *a;
static struct yir_diags *d;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    d = yir_diags_new(a, NULL, NULL);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(flat, .init = setup, .fini = teardown);

static void *blob;
static size_t blob_size;
static uint64_t entry;

enum { AT = 64 /* of the first code: behind the room for its seal */ };

static int flatten(const struct elfbuild *m)
{
    struct cg_object o = {.data = m, .size = sizeof *m, .symbol = "k"};
    int rc = cg_flatten(a, d, &o, 1, &blob, &blob_size);
    entry = o.entry;
    return rc;
}

static void expect_refused(const struct elfbuild *m, const char *says)
{
    size_t n = yir_diag_count(d);
    cr_assert_eq(flatten(m), -1, "accepted, but: %s", says);
    cr_assert_eq(yir_diag_count(d), n + 1);
    cr_expect_eq(yir_diag_at(d, n)->id, E_LINK);
    cr_expect_not_null(strstr(yir_diag_at(d, n)->text, says), "%s", yir_diag_at(d, n)->text);
}

static uint32_t word(size_t at)
{
    uint32_t v;
    cr_assert_leq(at + sizeof v, blob_size);
    memcpy(&v, (char *)blob + at, sizeof v);
    return v;
}

Test(flat, layout)
{
    static struct elfbuild m;
    elfbuild_init(&m, EM_X86_64);
    cr_assert_eq(flatten(&m), 0);
    cr_expect_eq(entry, AT + EB_K_AT);
    cr_expect_eq(blob_size, AT + EB_TEXT_SIZE + EB_RODATA_SIZE, "unwind tables are left out");
    cr_expect_eq(memcmp((char *)blob + AT + EB_TEXT_SIZE, m.rodata, EB_RODATA_SIZE), 0);
}

Test(flat, several_objects)
{
    static struct elfbuild m[3];
    struct cg_object o[3];
    for (int i = 0; i < 3; i++) {
        elfbuild_init(&m[i], EM_X86_64);
        elfbuild_relocation(&m[i], 0, 20, R_X86_64_PC32, EB_SYM_R, -4);
        o[i] = (struct cg_object){.data = &m[i], .size = sizeof m[i], .symbol = "k"};
    }
    cr_assert_eq(cg_flatten(a, d, o, 3, &blob, &blob_size), 0);
    for (unsigned i = 0; i < 3; i++) {
        cr_expect_eq(o[i].entry, AT + i * 128 + EB_K_AT, "sections keep their alignment of 64");
        cr_expect_eq(word(AT + i * 128 + 20), EB_TEXT_SIZE + EB_R_AT - 4 - 20);
    }
}

Test(flat, x86)
{
    static struct elfbuild m;
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, 20, R_X86_64_PC32, EB_SYM_RODATA, 4);
    elfbuild_relocation(&m, 1, 60, R_X86_64_PLT32, EB_SYM_K, -4);
    cr_assert_eq(flatten(&m), 0);
    cr_expect_eq(word(AT + 20), EB_TEXT_SIZE + 4 - 20);
    cr_expect_eq(word(AT + 60), (uint32_t)(EB_K_AT - 4 - 60));
    elfbuild_relocation(&m, 0, 24, R_X86_64_PC64, EB_SYM_R, 0);
    cr_assert_eq(flatten(&m), 0);
    cr_expect_eq(word(AT + 24), EB_TEXT_SIZE + EB_R_AT - 24);
    cr_expect_eq(word(AT + 28), 0);
}

/* Instructions and fields by the Arm Architecture Reference Manual. */
Test(flat, aarch64)
{
    static const struct {
        unsigned type, sym;
        uint32_t insn, expected;
    } row[] = {
        {R_AARCH64_CALL26, EB_SYM_K, 0x94000000, 0x97ffffff},               /* bl to 80 from 84: -1 word */
        {R_AARCH64_JUMP26, EB_SYM_R, 0x14000000, 0x1400000d},               /* b to 136: 13 words */
        {R_AARCH64_CONDBR19, EB_SYM_R, 0x54000001, 0x540001a1},             /* b.ne */
        {R_AARCH64_LD_PREL_LO19, EB_SYM_R, 0x1c000000, 0x1c0001a0},         /* ldr s0, literal */
        {R_AARCH64_TSTBR14, EB_SYM_K, 0x36000000, 0x3607ffe0},              /* tbz w0, #0 */
        {R_AARCH64_ADR_PREL_PG_HI21, EB_SYM_R, 0x90000008, 0x90000008},     /* adrp x8: same page */
        {R_AARCH64_ADD_ABS_LO12_NC, EB_SYM_R, 0x91000108, 0x91022108},      /* add x8, x8, #136 */
        {R_AARCH64_LDST8_ABS_LO12_NC, EB_SYM_R, 0x39400100, 0x39422100},    /* ldrb w0, [x8, #136] */
        {R_AARCH64_LDST32_ABS_LO12_NC, EB_SYM_R, 0xbd400100, 0xbd408900},   /* ldr s0, [x8, #136] */
        {R_AARCH64_LDST64_ABS_LO12_NC, EB_SYM_R, 0xfd400100, 0xfd404500},   /* ldr d0, [x8, #136] */
        {R_AARCH64_LDST128_ABS_LO12_NC, EB_SYM_RODATA, 0x3dc00100, 0x3dc02100}, /* ldr q0, [x8, #128] */
        {R_AARCH64_PREL32, EB_SYM_R, 0, 52},
    };
    static struct elfbuild m;
    for (size_t i = 0; i < YIR_COUNT(row); i++) {
        elfbuild_init(&m, EM_AARCH64);
        memcpy(m.text + 20, &row[i].insn, 4);
        elfbuild_relocation(&m, 0, 20, row[i].type, row[i].sym, 0);
        cr_assert_eq(flatten(&m), 0, "type %u", row[i].type);
        cr_expect_eq(word(AT + 20), row[i].expected, "type %u: %08x", row[i].type, word(AT + 20));
    }
}

/* In the third page-long object, the distance in pages counts from the place, and both halves of the field are used. */
Test(flat, aarch64_pages)
{
    static struct elfbuild m[2];
    struct cg_object o[2];
    for (int i = 0; i < 2; i++) {
        elfbuild_init(&m[i], EM_AARCH64);
        m[i].section[EB_RODATA].sh_addralign = 4096;
        memcpy(m[i].text + 20, &(uint32_t){0x90000008}, 4);
        elfbuild_relocation(&m[i], 0, 20, R_AARCH64_ADR_PREL_PG_HI21, EB_SYM_R, i ? 5 * 4096 : 0);
        o[i] = (struct cg_object){.data = &m[i], .size = sizeof m[i], .symbol = "k"};
    }
    cr_assert_eq(cg_flatten(a, d, o, 2, &blob, &blob_size), 0);
    cr_expect_eq(word(AT + 20), 0xb0000008, "one page on");
    cr_expect_eq(o[1].entry, 4096 + 64 + EB_K_AT);
    cr_expect_eq(word(4096 + 64 + 20), 0xd0000028, "six pages on: %08x", word(4096 + 64 + 20));
}

Test(flat, refused)
{
    static struct elfbuild m;
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, 20, R_X86_64_PLT32, EB_SYM_EXPF, -4);
    expect_refused(&m, "refers to expf");
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, 20, R_X86_64_REX_GOTPCRELX, EB_SYM_R, -4);
    expect_refused(&m, "type 42");
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, 20, R_X86_64_64, EB_SYM_R, 0);
    expect_refused(&m, "type 1 ");
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, EB_TEXT_SIZE - 3, R_X86_64_PC32, EB_SYM_R, 0);
    expect_refused(&m, "outside its section");
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, 20, R_X86_64_PC32, EB_NSYM, 0);
    expect_refused(&m, "without a symbol");
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, 20, R_X86_64_PC32, EB_SYM_R, INT64_MAX);
    expect_refused(&m, "out of range");
    elfbuild_init(&m, EM_AARCH64);
    elfbuild_relocation(&m, 0, 20, R_AARCH64_LDST128_ABS_LO12_NC, EB_SYM_R, 0);
    expect_refused(&m, "out of range");
    elfbuild_init(&m, EM_AARCH64);
    elfbuild_relocation(&m, 0, 20, R_AARCH64_CALL26, EB_SYM_R, 2);
    expect_refused(&m, "out of range");
    elfbuild_init(&m, EM_X86_64);
    m.section[EB_RODATA].sh_flags |= SHF_WRITE;
    expect_refused(&m, "not read-only");
    elfbuild_init(&m, EM_X86_64);
    m.section[EB_RODATA].sh_type = SHT_NOBITS;
    expect_refused(&m, "not read-only");
    elfbuild_init(&m, EM_X86_64);
    m.section[EB_RODATA].sh_addralign = 8192;
    expect_refused(&m, "alignment");
    elfbuild_init(&m, EM_X86_64);
    m.section[EB_RODATA].sh_addralign = 24;
    expect_refused(&m, "alignment");
    elfbuild_init(&m, EM_X86_64);
    m.sym[EB_SYM_K].st_name = 3;
    expect_refused(&m, "does not define");
    elfbuild_init(&m, EM_X86_64);
    m.sym[EB_SYM_K].st_shndx = EB_RODATA;
    expect_refused(&m, "outside the code");
    elfbuild_init(&m, EM_X86_64);
    m.sym[EB_SYM_K].st_value = EB_TEXT_SIZE;
    expect_refused(&m, "outside the code");
    elfbuild_init(&m, EM_X86_64);
    m.section[EB_STRTAB].sh_size--;
    expect_refused(&m, "string table");
    elfbuild_init(&m, EM_X86_64);
    m.h.e_machine = EM_386;
    expect_refused(&m, "unknown machine");
    elfbuild_init(&m, EM_X86_64);
    m.h.e_type = ET_DYN;
    expect_refused(&m, "relocatable");
    elfbuild_init(&m, EM_X86_64);
    m.section[EB_SYMTAB].sh_type = SHT_PROGBITS;
    expect_refused(&m, "no symbol table");
    elfbuild_init(&m, EM_X86_64);
    m.section[EB_RELA].sh_type = SHT_REL;
    expect_refused(&m, "bad relocations");
}

/* Each file is a heap block of its exact size, at an odd address, for the sanitizer to guard. */
static void try(const struct elfbuild *m, size_t size)
{
    struct yir_arena *own = yir_arena_new(NULL, NULL);
    struct yir_diags *errors = yir_diags_new(own, NULL, NULL);
    unsigned char *heap = malloc(size + 1);
    memcpy(heap + 1, m, size);
    struct cg_object o = {.data = heap + 1, .size = size, .symbol = "k"};
    void *b;
    size_t n;
    int rc = cg_flatten(own, errors, &o, 1, &b, &n);
    cr_assert((rc == 0) == (yir_diag_errors(errors) == 0));
    cr_assert(rc != 0 || o.entry < n);
    free(heap);
    yir_arena_free(own);
}

Test(flat, truncated)
{
    static struct elfbuild m;
    elfbuild_init(&m, EM_X86_64);
    elfbuild_relocation(&m, 0, 20, R_X86_64_PC32, EB_SYM_R, -4);
    for (size_t n = 0; n <= sizeof m; n++) try(&m, n);
}

/* Every byte set to each of some hostile values. */
Test(flat, damaged)
{
    static const unsigned char value[] = {0, 1, 7, 0x7f, 0x80, 0xff};
    static struct elfbuild m;
    for (unsigned machine = 0; machine < 2; machine++) {
        elfbuild_init(&m, machine ? EM_AARCH64 : EM_X86_64);
        elfbuild_relocation(&m, 0, 20, machine ? R_AARCH64_CALL26 : R_X86_64_PC32, EB_SYM_R, machine ? 0 : -4);
        for (size_t i = 0; i < sizeof m; i++) {
            unsigned char old = ((unsigned char *)&m)[i];
            for (size_t k = 0; k < sizeof value; k++) {
                ((unsigned char *)&m)[i] = value[k];
                try(&m, sizeof m);
            }
            ((unsigned char *)&m)[i] = old;
        }
    }
}
