/* Relocatable ELF objects made by hand, for tests of flat linking. */
#ifndef TEST_ELFBUILD_H
#define TEST_ELFBUILD_H

#include <elf.h>
#include <stdint.h>

/* An object of the sections .text (64 bytes; function k at 16), .rodata (32 bytes; object r at 8), .eh_frame, relocations
 * of .text, symbols, strings. Symbols: 1 = k, 2 = r, 3 = undefined `expf`, 4 = section .rodata. */
enum { EB_TEXT = 1, EB_RODATA, EB_EH, EB_RELA, EB_SYMTAB, EB_STRTAB, EB_SHSTRTAB, EB_NSECTION };
enum { EB_SYM_K = 1, EB_SYM_R, EB_SYM_EXPF, EB_SYM_RODATA, EB_NSYM };
enum { EB_STRINGS = 10, EB_NAMES = 62 }; /* bytes */
enum { EB_K_AT = 16, EB_R_AT = 8, EB_TEXT_SIZE = 64, EB_RODATA_SIZE = 32 };

struct elfbuild {
    Elf64_Ehdr h;
    Elf64_Shdr section[EB_NSECTION];
    unsigned char text[EB_TEXT_SIZE], rodata[EB_RODATA_SIZE], eh[16];
    Elf64_Rela rela[2];
    Elf64_Sym sym[EB_NSYM];
    char strings[EB_STRINGS], names[EB_NAMES];
};

void elfbuild_init(struct elfbuild *m, unsigned machine);
void elfbuild_relocation(struct elfbuild *m, int i, uint64_t at, unsigned type, unsigned sym, int64_t addend);

#endif
