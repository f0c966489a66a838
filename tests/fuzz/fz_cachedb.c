/* Files of tuning records, merged into records that only memory holds. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codegen/tunedb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/fz_cachedbXXXXXX";

static bool visit(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    volatile size_t *sum = user;
    for (size_t i = 0; i < k->op_len; i++) *sum += (unsigned char)k->op[i];
    for (const char *s = k->target; *s; s++) ++*sum;
    for (const char *s = r->config; *s; s++) ++*sum;
    YIR_ASSERT(r->median_s > 0 && r->median_s < 1e6 && r->spread_s >= 0);
    return true;
}

/* One for all inputs: what they leave in it is removed. */
static struct cg_tunedb *open_records(void)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    if (!mkdtemp(folder)) __builtin_trap();
    const struct cg_cachedir_opts o = {.path = folder, .filesystem = 0x6969}; /* NFS, so that nothing is written */
    struct cg_tunedb *db = cg_tunedb_open(a, cg_cachedir_open(a, d, &o));
    rmdir(folder);
    return db;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cg_tunedb *db;
    struct cg_tune_merge m;
    volatile size_t sum = 0;
    if (!db) db = open_records();
    YIR_ASSERT(db);
    const char *why = cg_tunedb_merge(db, data, size, &m);
    struct cg_tune_stats s = cg_tunedb_stats(db);
    YIR_ASSERT(s.damaged == 0 && s.claims == 0 && (why ? s.records == 0 : s.records <= m.taken));
    cg_tunedb_each(db, visit, (void *)&sum);
    if (s.records) YIR_ASSERT(cg_tunedb_prune(db, -1, 0) == s.records);
    return 0;
}
