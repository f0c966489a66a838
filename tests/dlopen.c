/* The runtime as a plugin has it: opened, used and closed again and again: test_dlopen LIBYOLORT [TIMES] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modbuild.h"
#include "runtime/yolort.h"

struct api {
    __typeof__(yolort_load) *load;
    __typeof__(yolort_module_free) *module_free;
    __typeof__(yolort_context_new) *context_new;
    __typeof__(yolort_context_free) *context_free;
    __typeof__(yolort_bind) *bind;
    __typeof__(yolort_run) *run;
};

static int find(void *library, const char *name, void *fn)
{
    void *p = dlsym(library, name);
    memcpy(fn, &p, sizeof p); /* the standard has no cast from an object's address to a function's */
    return p ? 0 : -1;
}

static int find_all(void *l, struct api *a)
{
    return find(l, "yolort_load", &a->load) || find(l, "yolort_module_free", &a->module_free) ||
           find(l, "yolort_context_new", &a->context_new) || find(l, "yolort_context_free", &a->context_free) ||
           find(l, "yolort_bind", &a->bind) || find(l, "yolort_run", &a->run);
}

/* One network on two threads. */
static int use(const struct api *a, const uint8_t *bytes, size_t size)
{
    static float in[2 * MB_ELEMENTS], out[2 * MB_ELEMENTS];
    yolort_context_opts o = {.size = sizeof o, .threads = 2};
    yolort_module *m = NULL;
    yolort_context *c = NULL;
    if (a->load(&m, bytes, size, NULL, 0) || a->context_new(&c, m, &o)) return -1;
    for (int i = 0; i < 2 * MB_ELEMENTS; i++) in[i] = (float)i, out[i] = -1;
    int bad = a->bind(c, MB_IMAGES, in, sizeof in) || a->bind(c, MB_ECHO, out, sizeof out) || a->run(c, 2, NULL);
    a->context_free(c);
    a->module_free(m);
    return bad || memcmp(in, out, sizeof in) ? -1 : 0;
}

static int open_use_close(const char *library, const uint8_t *bytes, size_t size)
{
    struct api a;
    void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!l) fprintf(stderr, "%s\n", dlerror());
    if (!l || find_all(l, &a) || use(&a, bytes, size)) return -1;
    return dlclose(l);
}

static long resident(void)
{
    long pages = 0, skip;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &skip, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    enum { WARM = 50 };
    struct modbuild b;
    size_t size;
    int times = argc > 2 ? atoi(argv[2]) : 1000;
    long before = 0;
    if (argc < 2) return 2;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    for (int i = 0; i < times + WARM; i++) {
        if (i == WARM) before = resident();
        if (open_use_close(argv[1], bytes, size)) {
            fprintf(stderr, "time %d failed\n", i);
            return 1;
        }
    }
    long grown = resident() - before;
    printf("%d times, %ld bytes more\n", times, grown);
    free(bytes);
    return grown < 1 << 20 ? 0 : 1;
}
