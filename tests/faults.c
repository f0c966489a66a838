/*
 * Every allocation and every file call of a command fails once: faults memory|files|memory-long|files-long|storm [NAME]
 *
 * The words of the table below are run as `yoloc` would run them, in this process, again and again; call n fails,
 * alone or with all after it. Wanted: the words succeed with the same output as ever, or end with one clear error
 * (memory: E004 and exit code 3), no output file is partial, no temporary file, descriptor, mapping or block is left,
 * and the same words work right afterwards.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <jansson.h>
#include <jpeglib.h>
#include <png.h>

#include "faultwrap.h"
#include "frontend/cli/commands.h"
#include "frontend/cli/fileio.h"
#include "frontend/yoloc.h"
#include "modbuild.h"
#include "picwrite.h"
#include "ptwrite.h"
#include "runtime/yolort.h"

enum { MOST_WORDS = 12 };

struct scenario {
    const char *name;
    const struct cli_command *command;
    const char *words[MOST_WORDS];
    const char *file;  /* output file or folder that a run makes, or NULL */
    int heavy;         /* makes code. 1: only some of its calls are tried, but in the long test; 2: there alone, and here with calls cut short */
};

static const struct scenario scenarios[] = {
    {"wanted", &cli_command_weights, {"net.yaml", "--params"}, NULL, 0},
    {"weights", &cli_command_weights, {"w.safetensors"}, NULL, 0},
    {"weights-pt", &cli_command_weights, {"w.pt"}, NULL, 0},
    {"weights-json", &cli_command_weights, {"w.pt", "--json"}, NULL, 0},
    {"opt", &cli_command_opt, {"net.yaml", "--weights", "rule", "--passes", "all"}, NULL, 0},
    {"opt-text", &cli_command_opt, {"net.yir", "--passes", "simplify", "-o", "made"}, "made", 0},
    {"detect", &cli_command_detect, {"small.yoloc", "a.png", "b.jpg", "--txt"}, NULL, 0},
    {"detect-folder", &cli_command_detect, {"small.yoloc", "pictures", "--save", "made", "--coco"}, "made/b.png", 0},
    {"detect-classes", &cli_command_detect, {"small.yoloc", "a.png", "--classes", "0", "--txt", "--threads", "2"}, NULL, 0},
    {"run", &cli_command_run, {"small.yoloc", "--in", "in.safetensors", "--out", "made"}, "made", 0},
#ifdef YOLOC_LLVM
    {"inspect", &cli_command_inspect, {"net.yoloc"}, NULL, 0},
    {"inspect-program", &cli_command_inspect, {"net.yoloc", "--program"}, NULL, 0},
    {"inspect-memory", &cli_command_inspect, {"net.yoloc", "--memory"}, NULL, 0},
    {"compile", &cli_command_compile, {"net.yaml", "--weights", "rule", "--imgsz", "32", "-o", "made"}, "made", 1},
    {"recompile", &cli_command_compile, {"net.yoloc", "--imgsz", "64", "-o", "made"}, "made", 2},
    {"detect-size", &cli_command_detect, {"net.yoloc", "a.png", "--imgsz", "64", "--txt"}, "cache/yoloc", 1},
    {"verify", &cli_command_verify, {"net.yoloc"}, NULL, 2},
#endif
};
enum { NSCENARIO = sizeof scenarios / sizeof *scenarios };

static const char *const class_name[] = {"no", "memory", "file", "library"};
static FILE *report; /* standard output of the test; that of the commands goes to a file */
static int bad, whole;

static int failed(const struct scenario *s, const struct fault *f, const char *why)
{
    fprintf(report, "FAIL %s, %s call %ld%s (%s, last %s): %s\n", s->name, class_name[f->of], f->at,
            f->onwards ? " and after" : "", f->cut ? "short" : f->error ? strerror(f->error) : "none", fault_last(), why);
    bad++;
    return -1;
}

/* --- one run of the words --- */

struct outcome {
    int code;
    char text[1 << 18];   /* standard output */
    size_t ntext;
    char errors[1 << 14]; /* standard error */
    size_t nerrors;
    char *file;           /* the output file; NULL: there is none. free() */
    size_t nfile;
};
static struct outcome first, now;

static void read_back(int fd, char *to, size_t room, size_t *n)
{
    ssize_t got = pread(fd, to, room - 1, 0);
    *n = got > 0 ? (size_t)got : 0;
    to[*n] = 0;
}

static int words_of(const struct scenario *s)
{
    int n = 0;
    while (n < MOST_WORDS && s->words[n])
        n++;
    return n;
}

static int run_words(const struct scenario *s, struct cli_error *e)
{
    union {
        long double align;
        char bytes[CLI_MAX_OPTION_BYTES];
    } options;
    struct cli_args args;
    const char *rest[MOST_WORDS + 1];
    *e = (struct cli_error){0};
    if (cli_args_parse(s->command, words_of(s), s->words, options.bytes, rest, &args, e) != 0)
        return -1;
    return s->command->run(options.bytes, &args, e);
}

/* A path and all below it goes. */
static void remove_all(const char *path)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (access(path, F_OK) == 0 && system(command) != 0)
        fprintf(report, "cannot remove %s\n", path);
}

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void read_file(const struct scenario *s, struct outcome *o)
{
    free(o->file);
    o->file = NULL;
    struct cli_error e;
    uint8_t *bytes;
    if (s->file && !is_folder(s->file) && cli_file_read(s->file, 1 << 28, &bytes, &o->nfile, &e) == 0)
        o->file = (char *)bytes;
}

/* armed NULL: nothing fails. The number of calls. */
static long perform(const struct scenario *s, const struct fault *armed, struct outcome *o)
{
    const struct fault none = {0};
    struct cli_error e;
    if (ftruncate(1, 0) != 0 || ftruncate(2, 0) != 0 || lseek(1, 0, SEEK_SET) != 0 || lseek(2, 0, SEEK_SET) != 0)
        exit(2);
    fault_arm(armed ? armed : &none);
    o->code = run_words(s, &e);
    long calls = fault_disarm();
    fflush(stdout);
    if (o->code < 0) {
        cli_error_print(&e);
        o->code = e.exit_code;
    }
    fflush(stderr);
    read_back(1, o->text, sizeof o->text, &o->ntext);
    read_back(2, o->errors, sizeof o->errors, &o->nerrors);
    read_file(s, o);
    return calls;
}

/* --- what must hold --- */

/* Temporary files of both writers end in letters that no other file of the scratch folder has. */
static int has_temporary(const char *folder)
{
    DIR *dir = opendir(folder);
    int found = 0;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        const char *dot = strrchr(d->d_name, '.');
        found |= strncmp(d->d_name, ".yoloc-", 7) == 0 || (dot && strlen(dot) == 7 && strcmp(dot, ".yoloc") != 0 &&
                                                           strchr(d->d_name, '.') != dot);
    }
    if (dir)
        closedir(dir);
    return found;
}

static int same_output(const struct outcome *a, const struct outcome *b)
{
    if (a->ntext != b->ntext || memcmp(a->text, b->text, a->ntext) != 0)
        return 0;
    return !a->file == !b->file && (!a->file || (a->nfile == b->nfile && memcmp(a->file, b->file, a->nfile) == 0));
}

static int lines_with(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

/* compile says how long it took */
static int same_but_time(const struct scenario *s)
{
    if (s->command == &cli_command_compile)
        now.ntext = first.ntext = 0;
    return same_output(&first, &now);
}

static int check(const struct scenario *s, const struct fault *f)
{
    if (has_temporary(".") || has_temporary("made") || has_temporary("cache/yoloc"))
        return failed(s, f, "a temporary file is left");
    if (now.file && first.file && (now.nfile != first.nfile || memcmp(now.file, first.file, now.nfile) != 0))
        return failed(s, f, "the output file is not whole");
    if (now.code == 0)
        return same_but_time(s) ? 0 : failed(s, f, "success with another output");
    if (lines_with(now.errors, "error: ") < 1)
        return failed(s, f, "no error was told");
    /* jansson does not tell lack of memory from bad JSON */
    if (f->of != FAULT_MEMORY)
        return 0;
    if (now.code != 3 || !strstr(now.errors, "[E004]")) {
        fprintf(report, "%s", now.errors);
        return failed(s, f, "not told as lack of memory");
    }
    return 0;
}

static void prepare(void)
{
    remove_all("cache");
    remove_all("made");
}

/* The number of calls when nothing fails. */
static long measure(const struct scenario *s, enum fault_class of)
{
    const struct fault count = {.of = of};
    prepare();
    long n = perform(s, &count, &first);
    if (first.code != 0) {
        fprintf(report, "%s", first.errors);
        failed(s, &count, "fails without a fault");
        return 0;
    }
    return n;
}

static void try_fault(const struct scenario *s, const struct fault *f)
{
    long live = fault_live() - (now.file != NULL);
    int open = fault_descriptors();
    prepare();
    perform(s, f, &now);
    check(s, f);
    if (fault_live() - (now.file != NULL) != live)
        failed(s, f, "blocks are left");
    if (fault_descriptors() != open)
        failed(s, f, "a descriptor is left");
    /* A read or write that was interrupted or cut is taken up again. */
    int mild = f->cut || f->error == EINTR;
    if (mild && (!strcmp(fault_last(), "read") || !strcmp(fault_last(), "write")) && now.code != 0)
        failed(s, f, "an interrupted or short call was not continued");
}

static void try_again(const struct scenario *s, const struct fault *f)
{
    prepare();
    perform(s, NULL, &now);
    if (now.code != 0 || !same_but_time(s))
        failed(s, f, "does not work afterwards");
}

/* Under AddressSanitizer, which looks for what is left at the end as well, a run takes many times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { THIN = 7 };
#else
enum { THIN = 1 };
#endif

/* Every call up to 2,000, then every 97th. Of a heavy scenario a part that differs from call to call. */
static long next(const struct scenario *s, long n, long calls)
{
    long step = n < 2000 ? THIN : 97;
    if (!s->heavy || whole)
        return n + step;
    long part = calls / 8;
    return n + (part > step ? part + n % 3 : step);
}

static void loop(const struct scenario *s, struct fault f)
{
    long calls = measure(s, f.of), tried = 0;
    int before = bad;
    for (long n = 1; n <= calls && bad < before + 5; n = next(s, n, calls)) {
        f.at = n;
        try_fault(s, &f);
        if (tried % 8 == 0)
            try_again(s, &f);
        tried++;
    }
    if (tried == 0 && f.of == FAULT_MEMORY)
        failed(s, &f, "makes no such call");
    fprintf(report, "%-16s %-6s %-8s %s: %ld calls, %ld of them failed\n", s->name, class_name[f.of],
            f.onwards ? "onwards" : "once", f.cut ? "cut short" : strerror(f.error), calls, tried);
    fflush(report);
}

static void memory_loops(const struct scenario *s)
{
    for (int onwards = 0; onwards < 2; onwards++)
        loop(s, (struct fault){.of = FAULT_MEMORY, .error = ENOMEM, .onwards = onwards});
    loop(s, (struct fault){.of = FAULT_LIBRARY, .error = ENOMEM});
}

/* EINTR for ever would be waited for for ever. */
static void file_loops(const struct scenario *s)
{
    static const int errors[] = {EIO, ENOSPC, EINTR, EMFILE, EROFS, EACCES};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (s->heavy && !whole && (i >= 2 || s->heavy > 1))
            continue;
        loop(s, (struct fault){.of = FAULT_IO, .error = errors[i]});
        if (errors[i] != EINTR)
            loop(s, (struct fault){.of = FAULT_IO, .error = errors[i], .onwards = 1});
    }
    loop(s, (struct fault){.of = FAULT_IO, .cut = 1, .onwards = 1});
}

/* A timer that goes off a thousand times a second, with a handler after which calls are not restarted. */
static void on_alarm(int number)
{
    (void)number;
}

static void storm(const struct scenario *s)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    const struct fault none = {0};
    measure(s, FAULT_IO);
    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < (s->heavy ? 2 : 20); i++) {
        prepare();
        setitimer(ITIMER_REAL, &often, NULL);
        perform(s, NULL, &now);
        setitimer(ITIMER_REAL, &never, NULL);
        if (now.code != 0 || !same_but_time(s))
            failed(s, &none, "does not work while a timer interrupts");
    }
}

/* --- the files of the scratch folder --- */

static void write_file(const char *path, const void *bytes, size_t n)
{
    struct cli_error e;
    if (cli_file_write(path, bytes, n, &e) == 0)
        return;
    fprintf(report, "%s\n", e.text);
    exit(2);
}

static void write_picture(const char *path, struct picwrite p)
{
    write_file(path, p.p, p.n);
    free(p.p);
}

static void write_checkpoint(void)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct ptwrite w;
    size_t n;
    ptwrite_init(&w, a);
    ptwrite_checkpoint(&w);
    const uint8_t *bytes = ptwrite_zip(&w, &n);
    write_file("w.pt", bytes, n);
    yir_arena_free(a);
}

static void write_tensors(void)
{
    static const uint8_t picture[8 * 8 * 3] = {1, 2, 3};
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    const yoloc_tensor in = {"input_u8", YOLORT_U8, 3, {8, 8, 3}, picture, sizeof picture};
    const yoloc_tensor two[] = {{"a.weight", YOLORT_F32, 2, {2, 3}, values, sizeof values},
                                {"a.bias", YOLORT_F32, 1, {2}, values, 8}};
    yoloc *c;
    if (yoloc_open(&c, NULL) != YOLOC_OK || yoloc_tensors_write(c, "in.safetensors", &in, 1) != YOLOC_OK ||
        yoloc_tensors_write(c, "w.safetensors", two, 2) != YOLOC_OK)
        exit(2);
    yoloc_close(c);
}

static void write_module(void)
{
    struct modbuild b;
    size_t n;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &n);
    write_file("small.yoloc", bytes, n);
    free(bytes);
}

static void command(const struct cli_command *c, const char *const *words)
{
    struct scenario s = {.name = "preparation", .command = c};
    const struct fault none = {0};
    for (int i = 0; i < MOST_WORDS && words[i]; i++)
        s.words[i] = words[i];
    perform(&s, NULL, &now);
    if (now.code == 0)
        return;
    fprintf(report, "%s", now.errors);
    failed(&s, &none, "a command that must work does not");
    exit(1);
}

static void write_all(void)
{
    static const char net[] = "nc: 2\n"
                              "backbone:\n"
                              "  - [-1, 1, Conv, [8, 3, 2]]\n"
                              "  - [-1, 1, C2f, [8, True]]\n"
                              "head:\n"
                              "  - [-1, 1, nn.Upsample, [None, 2, 'nearest']]\n"
                              "  - [[-1, 1], 1, Detect, [nc]]\n";
    write_file("net.yaml", net, sizeof net - 1);
    write_picture("a.png", picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 6));
    write_picture("b.jpg", picwrite_jpeg(4, JCS_CMYK, 6, 0));
    mkdir("pictures", 0777);
    write_picture("pictures/a.png", picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 0));
    write_picture("pictures/b.jpg", picwrite_jpeg(3, JCS_RGB, 6, 1));
    write_checkpoint();
    write_tensors();
    write_module();
    command(&cli_command_opt, (const char *const[]){"net.yaml", "--weights", "rule", "-o", "net.yir", NULL});
#ifdef YOLOC_LLVM
    command(&cli_command_compile,
            (const char *const[]){"net.yaml", "--weights", "rule", "--imgsz", "32", "-o", "net.yoloc", NULL});
#endif
}

static void enter_scratch(void)
{
    const char *scratch = getenv("YOLOC_TEST_SCRATCH");
    static char cache[4096];
    if (!scratch || chdir(scratch) != 0 || !getcwd(cache, sizeof cache - 8)) {
        fprintf(stderr, "YOLOC_TEST_SCRATCH is no folder\n");
        exit(2);
    }
    strcat(cache, "/cache");
    setenv("XDG_CACHE_HOME", cache, 1);
    report = fdopen(dup(1), "w");
    if (!report || !freopen("stdout.log", "w+", stdout) || !freopen("stderr.log", "w+", stderr))
        exit(2);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *only = argc > 2 ? argv[2] : NULL;
    whole = strstr(what, "-long") != NULL;
    enter_scratch();
    json_set_alloc_funcs(fault_library_malloc, free);
    write_all();
    for (int i = 0; i < NSCENARIO; i++) {
        const struct scenario *s = &scenarios[i];
        if (only ? strcmp(only, s->name) != 0 : whole ? !s->heavy : s->heavy > 1 && strcmp(what, "files") != 0)
            continue;
        if (strncmp(what, "memory", 6) == 0)
            memory_loops(s);
        else if (strcmp(what, "storm") == 0)
            storm(s);
        else
            file_loops(s);
    }
    free(first.file);
    free(now.file);
    fprintf(report, "%d faults\n", bad);
    fclose(report);
    return bad != 0;
}
