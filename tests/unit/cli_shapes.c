#include "frontend/cli/fileio.h"
#include "frontend/cli/shapes.h"
#include "frontend/yoloc.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], module[96], entries[96];

static void compile(int height, int width, const char *path)
{
    yoloc *c;
    yoloc_opts o;
    yoloc_result r = {NULL, 0};
    yoloc_opts_init(&o, sizeof o);
    o.scale = "n";
    o.nc = 3;
    o.height = height;
    o.width = width;
    cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
    cr_assert_eq(yoloc_compile(c, "models/yolov8.yaml", "rule", &r), YOLOC_OK);
    cr_assert_eq(yoloc_write_file(c, path, r.bytes, r.size), YOLOC_OK);
    yoloc_free_result(&r);
    yoloc_close(c);
}

static void setup(void)
{
    strcpy(folder, "/tmp/cli_shapes.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(module, sizeof module, "%s/m.yoloc", folder);
    snprintf(entries, sizeof entries, "%s/yoloc", folder);
    compile(64, 64, module);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(cli_shapes, .init = setup, .fini = teardown);

static struct cli_limits limits;
static int verified;

static void open_shapes(struct cli_shapes *s)
{
    struct cli_error e;
    struct cli_modfile file;
    yolort_module *m;
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.threads = 1;
    cr_assert_eq(cli_limits_read(&limits, NULL, &e), 0);
    cr_assert_eq(cli_modfile_read(&file, module, NULL, &limits, &e), 0, "%s", e.text);
    file.verified = verified;
    cr_assert_eq(cli_modfile_load(&m, &file, module, &limits, &e), 0, "%s", e.text);
    cr_assert_eq(cli_shapes_open(s, m, &file, module, &limits, &o, 300, &(struct cli_beside){NULL, NULL}, &e), 0, "%s", e.text);
}

/* Runs the engine of a size on a made picture; what it finds is summed up. */
static double detect(struct cli_shapes *s, int height, int width)
{
    struct cli_engine *g;
    struct cli_error e;
    struct cli_image im;
    yolort_placement p;
    yolort_nms_opts nms;
    size_t n;
    double sum = 0;
    cr_assert_eq(cli_shapes_get(s, height, width, &g, &e), 0, "%s", e.text);
    cr_assert(g->info->height == height && g->info->width == width);
    cr_assert_eq(cli_image_alloc(&im, "x", 150, 100, &e), 0);
    yoloc_test_picture(im.rgb, 100, 150, 5);
    cr_assert_eq(yolort_letterbox_plan(150, 100, width, height, YOLORT_SQUARE, 32, 1, &p), YOLORT_OK);
    yolort_nms_opts_init(&nms, sizeof nms);
    nms.conf = 0.001f;
    cr_assert_eq(cli_engine_predict(g, &im, &p, &nms, &n, &e), 0, "%s", e.text);
    cr_assert_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        const yolort_detection *d = &g->found[i];
        cr_assert(d->x1 >= 0 && d->y1 >= 0 && d->x2 <= 150 && d->y2 <= 100);
        sum += (double)(d->x1 + d->y2 + 100 * d->score);
    }
    cli_image_free(&im);
    return sum;
}

/* The path of the one entry of the cache, or none. */
static int only_entry(char *path, size_t size)
{
    int n = 0;
    DIR *dir = opendir(entries);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, size, "%s/%s", entries, d->d_name);
        n++;
    }
    if (dir)
        closedir(dir);
    cr_assert_leq(n, 1);
    return n;
}

/* The cache's keys do not prove where an entry comes from. */
Test(cli_shapes, a_module_that_had_to_be_signed_leaves_the_cache_alone)
{
    struct cli_shapes s;
    char path[512];
    double with, without;
    open_shapes(&s);
    without = detect(&s, 96, 64);
    cli_shapes_close(&s);
    cr_assert_eq(only_entry(path, sizeof path), 1);
    FILE *f = fopen(path, "wb"); /* a reader of the entry would have to write it anew */
    cr_assert_not_null(f);
    fclose(f);
    verified = 1;
    open_shapes(&s);
    with = detect(&s, 96, 64);
    cli_shapes_close(&s);
    cr_expect_eq(with, without);
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_size, 0);
}

Test(cli_shapes, the_given_size_needs_no_cache)
{
    struct cli_shapes s;
    char path[512];
    open_shapes(&s);
    detect(&s, 64, 64);
    cr_expect_eq(only_entry(path, sizeof path), 0);
    cr_expect_not(s.cache_opened);
    cli_shapes_close(&s);
}

/* An entry is used when it is what it says, and made anew when it is damaged or of another size. */
Test(cli_shapes, other_sizes_are_compiled_once)
{
    struct cli_shapes s;
    char path[512];
    uint8_t *bytes, *now;
    size_t n, nnow;
    struct cli_error e;
    open_shapes(&s);
    double first = detect(&s, 64, 96);
    cr_expect_float_eq(detect(&s, 64, 96), first, 0);
    cli_shapes_close(&s);
    cr_assert_eq(only_entry(path, sizeof path), 1);
    cr_assert_eq(cli_file_read(path, CLI_CACHE_LIMIT, &bytes, &n, &e), 0);

    for (int fault = 0; fault < 3; fault++) {
        if (fault == 1)
            cr_assert_eq(truncate(path, (long)n / 2), 0);
        if (fault == 2)
            compile(96, 96, path);
        open_shapes(&s);
        cr_expect_float_eq(detect(&s, 64, 96), first, 0);
        cli_shapes_close(&s);
        cr_assert_eq(only_entry(path, sizeof path), 1);
        cr_assert_eq(cli_file_read(path, CLI_CACHE_LIMIT, &now, &nnow, &e), 0);
        cr_expect(nnow == n && memcmp(now, bytes, n) == 0, "fault %d: not made anew as it was", fault);
        free(now);
    }
    free(bytes);
}

/* Without a folder the module lives in memory alone. */
Test(cli_shapes, no_cache_no_harm)
{
    struct cli_shapes s;
    FILE *blocked = fopen(entries, "w");
    fclose(blocked);
    open_shapes(&s);
    double first = detect(&s, 96, 64);
    detect(&s, 64, 64);
    cr_expect_float_eq(detect(&s, 96, 64), first, 0);
    cli_shapes_close(&s);
}
