#include "codegen.h"

#include <elf.h>
#include <string.h>

#include "runtime/module.h"

/* The loader maps the blob at a page boundary, so alignment up to this, and aarch64's page-relative
 * addresses, hold. */
enum { PAGE = 4096 };
#define MAX_BLOB (UINT64_C(1) << 30) /* keeps every distance inside 32 bits */

/* How a relocation's value S + A is put into the code. */
enum form {
    FORM_NONE,
    FORM_REL32, /* 32 bits, relative to the place */
    FORM_REL64,
    FORM_BRANCH, /* aarch64: bits low.. of an instruction hold the distance / 4 */
    FORM_PAGE,   /* aarch64 ADRP: distance in pages */
    FORM_LO12    /* aarch64: offset in the page, / 2^scale, in bits 10..21 */
};

struct howto {
    uint16_t machine;
    uint32_t type;
    enum form form;
    uint8_t bits, low, scale;
};

static const struct howto howtos[] = {
    {EM_X86_64, R_X86_64_NONE, FORM_NONE, 0, 0, 0},
    {EM_X86_64, R_X86_64_PC32, FORM_REL32, 0, 0, 0},
    {EM_X86_64, R_X86_64_PLT32, FORM_REL32, 0, 0, 0},
    {EM_X86_64, R_X86_64_PC64, FORM_REL64, 0, 0, 0},
    {EM_AARCH64, R_AARCH64_NONE, FORM_NONE, 0, 0, 0},
    {EM_AARCH64, R_AARCH64_PREL32, FORM_REL32, 0, 0, 0},
    {EM_AARCH64, R_AARCH64_PREL64, FORM_REL64, 0, 0, 0},
    {EM_AARCH64, R_AARCH64_CALL26, FORM_BRANCH, 26, 0, 2},
    {EM_AARCH64, R_AARCH64_JUMP26, FORM_BRANCH, 26, 0, 2},
    {EM_AARCH64, R_AARCH64_CONDBR19, FORM_BRANCH, 19, 5, 2},
    {EM_AARCH64, R_AARCH64_TSTBR14, FORM_BRANCH, 14, 5, 2},
    {EM_AARCH64, R_AARCH64_LD_PREL_LO19, FORM_BRANCH, 19, 5, 2},
    {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, FORM_PAGE, 0, 0, 0},
    {EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, FORM_LO12, 0, 0, 0},
    {EM_AARCH64, R_AARCH64_LDST8_ABS_LO12_NC, FORM_LO12, 0, 0, 0},
    {EM_AARCH64, R_AARCH64_LDST16_ABS_LO12_NC, FORM_LO12, 0, 0, 1},
    {EM_AARCH64, R_AARCH64_LDST32_ABS_LO12_NC, FORM_LO12, 0, 0, 2},
    {EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, FORM_LO12, 0, 0, 3},
    {EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, FORM_LO12, 0, 0, 4},
};

struct section {
    Elf64_Shdr h;
    bool placed;
    uint64_t at; /* in the blob */
};

struct elf {
    struct yir_diags *d;
    const unsigned char *data;
    uint64_t size;
    const char *symbol; /* whose object this is: for messages */
    Elf64_Ehdr h;
    struct section *section;
    const unsigned char *symtab; /* may be unaligned */
    uint64_t nsym;
    const char *strtab; /* ends with a NUL */
    uint64_t strsize;
};

static int damaged(const struct elf *e, const char *what)
{
    return yir_diag(e->d, (struct yir_loc){0}, E_LINK, "object of %s: %s", e->symbol, what);
}

static bool inside(const struct elf *e, uint64_t offset, uint64_t size)
{
    return offset <= e->size && size <= e->size - offset;
}

static int read_header(struct elf *e)
{
    if (e->size < sizeof e->h) return damaged(e, "not an ELF file");
    memcpy(&e->h, e->data, sizeof e->h);
    const unsigned char *id = e->h.e_ident;
    if (memcmp(id, ELFMAG, SELFMAG) || id[EI_CLASS] != ELFCLASS64 || id[EI_DATA] != ELFDATA2LSB ||
        e->h.e_type != ET_REL)
        return damaged(e, "not a 64-bit little-endian relocatable ELF file");
    if (e->h.e_machine != EM_X86_64 && e->h.e_machine != EM_AARCH64) return damaged(e, "unknown machine");
    if (e->h.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(e, e->h.e_shoff, (uint64_t)e->h.e_shnum * sizeof(Elf64_Shdr)))
        return damaged(e, "section table outside the file");
    return 0;
}

static int read_sections(struct yir_arena *a, struct elf *e)
{
    e->section = yir_alloc_n(a, e->h.e_shnum, sizeof *e->section);
    for (unsigned i = 0; i < e->h.e_shnum; i++) {
        Elf64_Shdr *h = &e->section[i].h;
        memcpy(h, e->data + e->h.e_shoff + i * sizeof *h, sizeof *h);
        if (h->sh_type != SHT_NOBITS && h->sh_type != SHT_NULL && !inside(e, h->sh_offset, h->sh_size))
            return damaged(e, "section outside the file");
    }
    return 0;
}

static int read_symbols(struct elf *e)
{
    for (unsigned i = 0; i < e->h.e_shnum; i++) {
        const Elf64_Shdr *h = &e->section[i].h;
        if (h->sh_type != SHT_SYMTAB) continue;
        if (h->sh_entsize != sizeof(Elf64_Sym) || h->sh_link >= e->h.e_shnum)
            return damaged(e, "bad symbol table");
        const Elf64_Shdr *s = &e->section[h->sh_link].h;
        if (s->sh_type != SHT_STRTAB || !s->sh_size || e->data[s->sh_offset + s->sh_size - 1])
            return damaged(e, "bad string table");
        e->symtab = e->data + h->sh_offset;
        e->nsym = h->sh_size / sizeof(Elf64_Sym);
        e->strtab = (const char *)e->data + s->sh_offset;
        e->strsize = s->sh_size;
        return 0;
    }
    return damaged(e, "no symbol table");
}

static Elf64_Sym get_symbol(const struct elf *e, uint64_t i)
{
    Elf64_Sym s;
    memcpy(&s, e->symtab + i * sizeof s, sizeof s);
    return s;
}

static const char *symbol_name(const struct elf *e, const Elf64_Sym *s)
{
    return s->st_name < e->strsize ? e->strtab + s->st_name : "";
}

static const char *section_name(const struct elf *e, const Elf64_Shdr *h)
{
    unsigned n = e->h.e_shstrndx;
    if (n >= e->h.e_shnum) return "";
    const Elf64_Shdr *s = &e->section[n].h;
    if (s->sh_type != SHT_STRTAB || h->sh_name >= s->sh_size || e->data[s->sh_offset + s->sh_size - 1])
        return "";
    return (const char *)e->data + s->sh_offset + h->sh_name;
}

/* Unwind tables are no use to code that never unwinds, and hold references the blob could not keep. */
static bool wanted(const struct elf *e, const Elf64_Shdr *h)
{
    return (h->sh_flags & SHF_ALLOC) && h->sh_size && strcmp(section_name(e, h), ".eh_frame");
}

/* Gives each section its place after the first *end bytes of the blob. */
static int place_sections(struct elf *e, uint64_t *end)
{
    for (unsigned i = 0; i < e->h.e_shnum; i++) {
        struct section *s = &e->section[i];
        if (!wanted(e, &s->h)) continue;
        if (s->h.sh_type != SHT_PROGBITS || (s->h.sh_flags & (SHF_WRITE | SHF_TLS)))
            return damaged(e, "data that is not read-only");
        uint64_t align = s->h.sh_addralign ? s->h.sh_addralign : 1;
        if ((align & (align - 1)) || align > PAGE) return damaged(e, "bad section alignment");
        uint64_t seal = s->h.sh_flags & SHF_EXECINSTR ? sizeof(struct ym_seal) : 0; /* stays zero here */
        s->at = (*end + seal + align - 1) & ~(align - 1);
        if (s->h.sh_size > MAX_BLOB || s->at > MAX_BLOB - s->h.sh_size) return damaged(e, "too large");
        s->placed = true;
        *end = s->at + s->h.sh_size;
    }
    return 0;
}

static int parse(struct yir_arena *a, struct elf *e, uint64_t *end)
{
    if (read_header(e) || read_sections(a, e) || read_symbols(e)) return -1;
    return place_sections(e, end);
}

/* Place of a symbol in the blob. */
static int resolve(const struct elf *e, uint64_t index, uint64_t *at)
{
    if (index >= e->nsym) return damaged(e, "relocation without a symbol");
    Elf64_Sym s = get_symbol(e, index);
    if (s.st_shndx == SHN_UNDEF || s.st_shndx >= e->h.e_shnum || !e->section[s.st_shndx].placed)
        return yir_diag(e->d, (struct yir_loc){0}, E_LINK, "kernel %s refers to %s, which is not part of it",
                        e->symbol, symbol_name(e, &s));
    if (s.st_value > e->section[s.st_shndx].h.sh_size) return damaged(e, "symbol outside its section");
    *at = e->section[s.st_shndx].at + s.st_value;
    return 0;
}

static const struct howto *find_howto(const struct elf *e, uint32_t type)
{
    for (size_t i = 0; i < YIR_COUNT(howtos); i++)
        if (howtos[i].machine == e->h.e_machine && howtos[i].type == type) return &howtos[i];
    return NULL;
}

static bool fits(int64_t v, unsigned bits)
{
    return v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1);
}

/* Replaces bits low .. low+bits-1 of a 32-bit instruction. */
static void put_bits(unsigned char *p, unsigned low, unsigned bits, uint64_t v)
{
    uint32_t insn, mask = (uint32_t)(((UINT64_C(1) << bits) - 1) << low);
    memcpy(&insn, p, sizeof insn);
    insn = (insn & ~mask) | ((uint32_t)(v << low) & mask);
    memcpy(p, &insn, sizeof insn);
}

/* False when the value does not fit. target and place: offsets in the blob. */
static bool apply(const struct howto *how, unsigned char *p, int64_t target, int64_t place)
{
    int64_t v = target - place;
    switch (how->form) {
    case FORM_NONE: return true;
    case FORM_REL32:
        if (!fits(v, 32)) return false;
        memcpy(p, &(int32_t){(int32_t)v}, 4);
        return true;
    case FORM_REL64: memcpy(p, &v, 8); return true;
    case FORM_BRANCH:
        if (v % 4 || !fits(v / 4, how->bits)) return false;
        put_bits(p, how->low, how->bits, (uint64_t)(v / 4));
        return true;
    case FORM_PAGE:
        v = target / PAGE - place / PAGE;
        put_bits(p, 29, 2, (uint64_t)v & 3);
        put_bits(p, 5, 19, (uint64_t)v >> 2);
        return true;
    case FORM_LO12:
        if (target % (1 << how->scale)) return false;
        put_bits(p, 10, 12, (uint64_t)(target % PAGE) >> how->scale);
        return true;
    }
    return false;
}

static int relocate_one(const struct elf *e, const struct section *s, const Elf64_Rela *r,
                        unsigned char *blob)
{
    const struct howto *how = find_howto(e, (uint32_t)ELF64_R_TYPE(r->r_info));
    if (how && how->form == FORM_NONE) return 0;
    uint64_t at;
    if (resolve(e, ELF64_R_SYM(r->r_info), &at)) return -1;
    if (!how)
        return yir_diag(e->d, (struct yir_loc){0}, E_LINK,
                        "object of %s: relocation of type %u cannot be laid flat", e->symbol,
                        (unsigned)ELF64_R_TYPE(r->r_info));
    uint64_t width = how->form == FORM_REL64 ? 8 : 4;
    if (r->r_offset > s->h.sh_size || width > s->h.sh_size - r->r_offset)
        return damaged(e, "relocation outside its section");
    uint64_t place = s->at + r->r_offset;
    int64_t target;
    if (__builtin_add_overflow((int64_t)at, r->r_addend, &target) || target < -PAGE ||
        target > (int64_t)MAX_BLOB || (how->form >= FORM_PAGE && target < 0) ||
        !apply(how, blob + place, target, (int64_t)place))
        return damaged(e, "relocation out of range");
    return 0;
}

static int relocate(const struct elf *e, unsigned char *blob)
{
    for (unsigned i = 0; i < e->h.e_shnum; i++) {
        const Elf64_Shdr *h = &e->section[i].h;
        if (h->sh_type != SHT_RELA && h->sh_type != SHT_REL) continue;
        if (h->sh_info >= e->h.e_shnum) return damaged(e, "relocations of no section");
        const struct section *s = &e->section[h->sh_info];
        if (!s->placed) continue;
        if (h->sh_type != SHT_RELA || h->sh_entsize != sizeof(Elf64_Rela))
            return damaged(e, "bad relocations");
        for (uint64_t k = 0; k < h->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela r;
            memcpy(&r, e->data + h->sh_offset + k * sizeof r, sizeof r);
            if (relocate_one(e, s, &r, blob)) return -1;
        }
    }
    return 0;
}

static int find_entry(const struct elf *e, uint64_t *entry)
{
    for (uint64_t i = 0; i < e->nsym; i++) {
        Elf64_Sym s = get_symbol(e, i);
        if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || strcmp(symbol_name(e, &s), e->symbol)) continue;
        if (resolve(e, i, entry)) return -1;
        const Elf64_Shdr *h = &e->section[s.st_shndx].h;
        if (!(h->sh_flags & SHF_EXECINSTR) || s.st_value >= h->sh_size)
            return damaged(e, "entry outside the code");
        return 0;
    }
    return damaged(e, "does not define its kernel");
}

int cg_flatten(struct yir_arena *a, struct yir_diags *d, struct cg_object *object, size_t nobject,
               void **blob, size_t *blob_size)
{
    struct elf *elf = yir_alloc_n(a, nobject, sizeof *elf);
    uint64_t end = 0;
    for (size_t i = 0; i < nobject; i++) {
        elf[i] =
            (struct elf){.d = d, .data = object[i].data, .size = object[i].size, .symbol = object[i].symbol};
        if (parse(a, &elf[i], &end)) return -1;
    }
    unsigned char *out = yir_alloc(a, end);
    for (size_t i = 0; i < nobject; i++) {
        const struct elf *e = &elf[i];
        for (unsigned k = 0; k < e->h.e_shnum; k++)
            if (e->section[k].placed)
                memcpy(out + e->section[k].at, e->data + e->section[k].h.sh_offset, e->section[k].h.sh_size);
        if (relocate(e, out) || find_entry(e, &object[i].entry)) return -1;
    }
    *blob = out;
    *blob_size = end;
    return 0;
}
