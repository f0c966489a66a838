#define XXH_INLINE_ALL
#include <xxhash.h>

#include "digest.h"
#include "sections.h"

#include "block.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* Unlimited: kinds that hold bulk data; the others are bounded by max_table_bytes. */
static const struct {
    const char *name;
    int unlimited;
} kinds[] = {
    [YM_STRINGS] = {"STRINGS", 0},
    [YM_META] = {"META", 0},
    [YM_NAMES] = {"NAMES", 0},
    [YM_IR] = {"IR", 0},
    [YM_WEIGHT] = {"WEIGHT", 0},
    [YM_WEIGHTS] = {"WEIGHTS", 1},
    [YM_TARGET] = {"TARGET", 0},
    [YM_IO] = {"IO", 0},
    [YM_KERNEL] = {"KERNEL", 0},
    [YM_STEP] = {"STEP", 0},
    [YM_ARG] = {"ARG", 0},
    [YM_CODE] = {"CODE", 1},
    [YM_CONSTANTS] = {"CONSTANTS", 1},
    [YM_PARAM] = {"PARAM", 0},
    [YM_SERVICE] = {"SERVICE", 0},
    [YM_CONSTANT] = {"CONSTANT", 0},
    [YM_MAP] = {"MAP", 0},
    [YM_ENGINE] = {"ENGINE", 0},
};
enum { NKIND = sizeof kinds / sizeof *kinds };

const char *rt_section_name(uint32_t kind)
{
    return kind < NKIND && kinds[kind].name ? kinds[kind].name : "unknown";
}

static int digest_matches(const uint8_t *bytes, uint64_t size, const uint8_t *taken)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)bytes;
    (void)size;
    (void)taken;
    return 1;
#else
    size_t at = offsetof(struct ym_header, digest);
    uint8_t found[RT_DIGEST];
    if (!taken && rt_digest(bytes, (size_t)size, at, NULL, found)) return 0;
    return !memcmp(taken ? taken : found, bytes + at, sizeof found);
#endif
}

int rt_is_sealed(const uint8_t *code, const struct ym_kernel *k, const struct ym_param *p, const struct ym_map *m)
{
    const struct ym_seal *seal = (const struct ym_seal *)(const void *)(code + k->offset - sizeof *seal);
    if (memcmp(seal->magic, YM_SEAL_MAGIC, sizeof seal->magic) || seal->offset != k->offset) return 0;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)p;
    (void)m;
    return 1;
#else
    uint8_t bytes[YM_CONTRACT_BYTES];
    XXH128_canonical_t found;
    XXH128_canonicalFromHash(&found, XXH3_128bits(bytes, ym_contract(k, p, m, bytes)));
    return !memcmp(found.digest, seal->contract, sizeof seal->contract);
#endif
}

static yolort_status check_header(const struct ym_header *h, uint64_t size, uint64_t most, const struct rt_error *e)
{
    RT_CHECK(e, FORMAT, MOD_MAGIC, size >= sizeof h->magic && !memcmp(h->magic, YM_MAGIC, sizeof h->magic),
             "not a yoloc module");
    RT_CHECK(e, FORMAT, MOD_HEADER, size >= sizeof *h, "%" PRIu64 " bytes: cut short in the header", size);
    RT_CHECK(e, INCOMPATIBLE, MOD_BYTE_ORDER, h->byte_order == YM_BYTE_ORDER,
             "has byte order 0x%08x, this runtime reads 0x%08x", h->byte_order, YM_BYTE_ORDER);
    RT_CHECK(e, INCOMPATIBLE, MOD_FORMAT, h->format == YM_FORMAT,
             "has format version %u, this runtime reads version %u", h->format, YM_FORMAT);
    RT_CHECK(e, LIMIT, MOD_SIZE_LIMIT, size <= most, "%" PRIu64 " bytes; at most %" PRIu64 " are allowed",
             size, most);
    RT_CHECK(e, FORMAT, MOD_SIZE, h->file_size == size, "%" PRIu64 " bytes, but the header says %" PRIu64,
             size, h->file_size);
    return YOLORT_OK;
}

static yolort_status check_counts(const struct ym_header *h, uint32_t most, const struct rt_error *e)
{
    RT_CHECK(e, INCOMPATIBLE, MOD_FEATURES, !h->features, "needs reader features 0x%x, this runtime has none",
             h->features);
    RT_CHECK(e, LIMIT, MOD_SECTIONS_LIMIT, h->nsection <= most, "%u sections; at most %u are allowed",
             h->nsection, most);
    RT_CHECK(e, LIMIT, MOD_PROGRAMS_LIMIT, h->ntarget <= YM_MAX_TARGETS,
             "%u programs; at most %u are allowed", h->ntarget, YM_MAX_TARGETS);
    RT_CHECK(e, FORMAT, MOD_PROGRAMS, h->ntarget >= 1, "no program in it");
    RT_CHECK(e, FORMAT, MOD_TABLE,
             sizeof *h + (uint64_t)h->nsection * sizeof(struct ym_section) <= h->file_size,
             "the table of %u sections is cut short", h->nsection);
    return YOLORT_OK;
}

static int all_zero(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i]) return 0;
    return 1;
}

/* `end`: where the part before ends; moved to where this one does. seen: bits by kind, for each program,
 * shared kinds last. */
static yolort_status check_section(const struct rt_sections *s, uint32_t i, uint64_t *end, uint32_t *seen,
                                   const struct rt_error *e)
{
    const struct ym_section *r = &s->row[i];
    const uint8_t *bytes = (const uint8_t *)s->header;
    uint64_t start = rt_align(*end, YM_ALIGN), size = s->header->file_size;
    RT_CHECK(e, INCOMPATIBLE, MOD_KIND, r->kind < NKIND && kinds[r->kind].name,
             "section %u is of kind %u, unknown here", i, r->kind);
    const char *name = kinds[r->kind].name;
    int shared = r->kind < YM_TARGET;
    RT_CHECK(e, FORMAT, MOD_INDEX, shared ? r->index == 0 : r->index < s->header->ntarget,
             "section %u (%s): bad index %u", i, name, r->index);
    uint32_t *bits = &seen[shared ? YM_MAX_TARGETS : r->index], bit = 1u << r->kind;
    RT_CHECK(e, FORMAT, MOD_TWICE, !(*bits & bit), "section %u (%s): there are two", i, name);
    *bits |= bit;
    RT_CHECK(e, FORMAT, MOD_PLACE, r->offset == start,
             "section %u (%s) is at %" PRIu64 " instead of %" PRIu64, i, name, r->offset, start);
    RT_CHECK(e, FORMAT, MOD_INSIDE, r->offset <= size && r->size <= size - r->offset,
             "section %u (%s) leaves the file", i, name);
    RT_CHECK(e, LIMIT, MOD_MANIFEST_LIMIT, kinds[r->kind].unlimited || r->size <= s->limits->max_table_bytes,
             "section %u (%s): %" PRIu64 " bytes; at most %" PRIu64 " are allowed", i, name, r->size,
             s->limits->max_table_bytes);
    RT_CHECK(e, FORMAT, MOD_GAP, all_zero(bytes + *end, start - *end),
             "bytes between sections before section %u (%s)", i, name);
    *end = r->offset + r->size;
    return YOLORT_OK;
}

yolort_status rt_sections_open(struct rt_sections *s, const uint8_t *bytes, uint64_t size,
                               const struct rt_error *e)
{
    s->header = (const struct ym_header *)(const void *)bytes;
    s->row = (const struct ym_section *)(const void *)(bytes + sizeof *s->header);
    RT_TRY(check_header(s->header, size, s->limits->max_bytes, e));
    RT_CHECK(e, INTEGRITY, MOD_DIGEST, digest_matches(bytes, size, s->digest),
             "damaged: its digest does not match its content");
    RT_TRY(check_counts(s->header, s->limits->max_sections, e));
    uint32_t seen[YM_MAX_TARGETS + 1] = {0};
    uint64_t end = sizeof *s->header + (uint64_t)s->header->nsection * sizeof *s->row;
    for (uint32_t i = 0; i < s->header->nsection; i++)
        RT_TRY(check_section(s, i, &end, seen, e));
    RT_CHECK(e, FORMAT, MOD_END, size <= rt_align(end, YM_ALIGN) && all_zero(bytes + end, size - end),
             "bytes after the last section, from %" PRIu64, end);
    return YOLORT_OK;
}

struct rt_span rt_section(const struct rt_sections *s, uint32_t kind, uint32_t index)
{
    for (uint32_t i = 0; i < s->header->nsection; i++) {
        const struct ym_section *r = &s->row[i];
        if (r->kind == kind && r->index == index)
            return (struct rt_span){(const uint8_t *)s->header + r->offset, (size_t)r->size};
    }
    return (struct rt_span){NULL, 0};
}
