/* Loads a module only when a key has signed it: example_signed MODULE KEY.pub. Build: see verify-origin.md. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "yolort.h"
#include "yolosign.h"

/* The whole file in memory of our own; NULL when it cannot be read. */
static void *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    void *bytes = n > 0 && fseek(f, 0, SEEK_SET) == 0 ? aligned_alloc(64, ((size_t)n + 63) / 64 * 64) : NULL;
    if (bytes && fread(bytes, 1, (size_t)n, f) != (size_t)n) {
        free(bytes);
        bytes = NULL;
    }
    if (f) fclose(f);
    *size = (size_t)n;
    return bytes;
}

int main(int argc, char **argv)
{
    char signature[4096], error[512] = "";
    yolort_module *m = NULL;
    size_t size;
    if (argc != 3) {
        fprintf(stderr, "usage: example_signed MODULE KEY.pub\n");
        return 2;
    }
    snprintf(signature, sizeof signature, "%s.sig", argv[1]);
    void *bytes = read_file(argv[1], &size);
    if (!bytes) {
        fprintf(stderr, "%s: cannot be read\n", argv[1]);
        return 1;
    }
    /* The same bytes are checked and loaded: nothing is opened twice. */
    int rc = 1;
    if (yolosign_check_files(argv[2], signature, bytes, size, error, sizeof error) == YOLOSIGN_OK &&
        yolort_load(&m, bytes, size, error, sizeof error) == YOLORT_OK) {
        const yolort_info *i = yolort_module_info(m);
        printf("%s, %d classes, %dx%d\n", i->model, i->nc, i->height, i->width);
        rc = 0;
    } else {
        fprintf(stderr, "%s: %s\n", argv[1], error);
    }
    yolort_module_free(m);
    free(bytes);
    return rc;
}
