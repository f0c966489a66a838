#include "elfbuild.h"

#include <stddef.h>
#include <string.h>

static const char strings[] = "\0k\0r\0expf";
static const char names[] = "\0.text\0.rodata\0.eh_frame\0.rela.text\0.symtab\0.strtab\0.shstrtab";
_Static_assert(sizeof strings == EB_STRINGS && sizeof names == EB_NAMES, "sizes in the header");

static void set_section(struct elfbuild *m, int i, const char *name, unsigned type, unsigned flags, size_t at, size_t size)
{
    size_t n = 0;
    while (strcmp(names + n, name)) n += strlen(names + n) + 1;
    m->section[i] = (Elf64_Shdr){.sh_name = (Elf64_Word)n,
                                 .sh_type = type,
                                 .sh_flags = flags,
                                 .sh_offset = at,
                                 .sh_size = size,
                                 .sh_addralign = 16};
}

#define PART(field) offsetof(struct elfbuild, field), sizeof((struct elfbuild *)0)->field

void elfbuild_init(struct elfbuild *m, unsigned machine)
{
    memset(m, 0, sizeof *m);
    memcpy(m->h.e_ident, ELFMAG, SELFMAG);
    m->h.e_ident[EI_CLASS] = ELFCLASS64;
    m->h.e_ident[EI_DATA] = ELFDATA2LSB;
    m->h.e_type = ET_REL;
    m->h.e_machine = (Elf64_Half)machine;
    m->h.e_shoff = offsetof(struct elfbuild, section);
    m->h.e_shentsize = sizeof(Elf64_Shdr);
    m->h.e_shnum = EB_NSECTION;
    m->h.e_shstrndx = EB_SHSTRTAB;
    set_section(m, EB_TEXT, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, PART(text));
    set_section(m, EB_RODATA, ".rodata", SHT_PROGBITS, SHF_ALLOC, PART(rodata));
    set_section(m, EB_EH, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, PART(eh));
    set_section(m, EB_RELA, ".rela.text", SHT_RELA, 0, PART(rela));
    set_section(m, EB_SYMTAB, ".symtab", SHT_SYMTAB, 0, PART(sym));
    set_section(m, EB_STRTAB, ".strtab", SHT_STRTAB, 0, PART(strings));
    set_section(m, EB_SHSTRTAB, ".shstrtab", SHT_STRTAB, 0, PART(names));
    m->section[EB_TEXT].sh_addralign = 64;
    m->section[EB_RELA].sh_entsize = sizeof(Elf64_Rela);
    m->section[EB_RELA].sh_link = EB_SYMTAB;
    m->section[EB_RELA].sh_info = EB_TEXT;
    m->section[EB_SYMTAB].sh_entsize = sizeof(Elf64_Sym);
    m->section[EB_SYMTAB].sh_link = EB_STRTAB;
    m->sym[EB_SYM_K] = (Elf64_Sym){1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, EB_TEXT, EB_K_AT, 8};
    m->sym[EB_SYM_R] = (Elf64_Sym){3, ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), 0, EB_RODATA, EB_R_AT, 4};
    m->sym[EB_SYM_EXPF] = (Elf64_Sym){5, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), 0, SHN_UNDEF, 0, 0};
    m->sym[EB_SYM_RODATA] = (Elf64_Sym){0, ELF64_ST_INFO(STB_LOCAL, STT_SECTION), 0, EB_RODATA, 0, 0};
    memcpy(m->strings, strings, sizeof strings);
    memcpy(m->names, names, sizeof names);
    for (int i = 0; i < EB_RODATA_SIZE; i++) m->rodata[i] = (unsigned char)(i + 1);
}

void elfbuild_relocation(struct elfbuild *m, int i, uint64_t at, unsigned type, unsigned sym, int64_t addend)
{
    m->rela[i] = (Elf64_Rela){at, ELF64_R_INFO((uint64_t)sym, type), addend};
}
