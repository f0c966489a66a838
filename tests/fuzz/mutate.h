/* Mutators that know the structure of what they change, for LLVMFuzzerCustomMutator: data has room for `most` bytes, the
 * new size is returned, and the same seed gives the same change. */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's own mutation by bytes and dictionary words; the replay program has one that changes nothing. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

/* Whole operations come, go, move and repeat; arguments become values at the edges; names become known ones. */
size_t mutate_pickle(uint8_t *data, size_t size, size_t most, unsigned seed);

/* An archive is built anew around its changed pickle; one that does not open is changed by bytes. */
size_t mutate_pt(uint8_t *data, size_t size, size_t most, unsigned seed);

#endif
