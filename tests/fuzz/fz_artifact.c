/* Entries of the artifact cache, read from their place. In builds with FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION the digest is not
 * looked at, so that the checks behind it are reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/artifact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/fz_artifactXXXXXX", file[128];

static void clean(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) fprintf(stderr, "%s is left\n", folder);
}

static bool find_file(void *user, const struct cg_artifact_info *i)
{
    (void)user;
    snprintf(file, sizeof file, "%s/objects/%.2s/%s", folder, i->name, i->name);
    return true;
}

/* The only key, and the file that its entry is in. */
static const struct cg_artifact_key key = {"kernel", "key", 3};

static void prepare(struct yir_arena *a, struct yir_diags *d)
{
    if (!mkdtemp(folder) || atexit(clean)) __builtin_trap();
    struct cg_artifacts *c = cg_artifacts_open(a, cg_cachedir_open(a, d, &(struct cg_cachedir_opts){.path = folder}), 0);
    YIR_ASSERT(cg_artifact_put(c, &key, "payload", 7));
    cg_artifacts_each(c, find_file, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    size_t n;
    if (!file[0]) prepare(a, d);
    struct cg_artifacts *c = cg_artifacts_open(a, cg_cachedir_open(a, d, &(struct cg_cachedir_opts){.path = folder}), 0);
    FILE *f = fopen(file, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) || chmod(file, 0600)) __builtin_trap();
    const uint8_t *payload = cg_artifact_get(c, a, &key, &n);
    if (payload) YIR_ASSERT(n + 64 + 3 == size && memcmp(payload, data + size - n, n) == 0);
    yir_arena_free(a);
    return 0;
}
