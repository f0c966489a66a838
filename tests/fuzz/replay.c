/* Runs a fuzz target on stored inputs, without libFuzzer: fz_<name> FILE-OR-FOLDER... */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "datafile.h"
#include "mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
{
    (void)data;
    (void)most;
    return size;
}

static int run_file(const char *path)
{
    size_t size;
    char *text = test_file_read(path, &size);
    uint8_t *exact = text ? malloc(size ? size : 1) : NULL; /* reading past the end shows */
    if (!exact) return free(text), 0;
    for (size_t i = 0; i < size; i++) exact[i] = (uint8_t)text[i];
    free(text);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

static int run(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return run_file(path);
    int n = 0;
    char inner[4096];
    for (const struct dirent *e; (e = readdir(folder));) {
        if (e->d_name[0] == '.' || snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) >= (int)sizeof inner) continue;
        n += run(inner);
    }
    closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) n += run(argv[i]);
    printf("%d inputs\n", n);
    return n ? 0 : 1;
}
