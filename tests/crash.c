/*
 * Output files when the process or the machine stops: crash points | power | kills N
 *
 * points: a child ends at each crash point of frontend/outfile.c, one after the other. The output is then absent or the old
 * one (before the rename) or the new one, whole; what else is left disturbs no later run.
 * power: what was asked of the system is recorded, and every state that a disk may be in after losing power is gone
 * through: writes without fsync kept, dropped or torn at 512 bytes, names kept or dropped up to the folder's fsync.
 * kills: SIGKILL at random moments of `compile` over an existing module.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crashpoint.h"
#include "frontend/cli/commands.h"
#include "frontend/yoloc.h"

static int bad, cases;

#define FAIL(...) (bad++, fprintf(stderr, "FAIL " __VA_ARGS__))

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* --- bytes of files ------------------------------------------------------------------------------------------- */

struct bytes {
    unsigned char *p; /* NULL: there is no such file */
    size_t n;
};

static struct bytes read_whole(const char *path)
{
    struct bytes b = {0};
    FILE *f = fopen(path, "rb");
    if (!f) return b;
    fseek(f, 0, SEEK_END);
    b.n = (size_t)ftell(f);
    rewind(f);
    b.p = malloc(b.n + 1);
    if (!b.p || fread(b.p, 1, b.n, f) != b.n) die(path);
    fclose(f);
    return b;
}

static void write_whole(const char *path, const struct bytes *b)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b->p, 1, b->n, f) != b->n || fclose(f)) die(path);
}

static int same(const struct bytes *a, const struct bytes *b)
{
    return a->p && b->p && a->n == b->n && !memcmp(a->p, b->p, a->n);
}

/* --- what the calls do, seen by the linker's wrappers ------------------------------------------------------------ */

enum what { WROTE, SYNCED, NAMED, RENAMED, FOLDER_SYNCED };

struct event {
    enum what what;
    int file; /* number of the file, in order of making; 0: the one that stood there */
    char name[64], to[64];
    struct bytes bytes; /* WROTE: at the end */
};

enum { MOST_EVENTS = 256, MOST_FDS = 64, MOST_FILES = 8, FOLDER = -2 };

static struct event event[MOST_EVENTS];
static int nevent, recording, refuse_unnamed, nfile;
static int file_of[MOST_FDS]; /* of each descriptor; FOLDER; 0: none of ours */

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static struct event *record(enum what what, int file)
{
    if (nevent == MOST_EVENTS) die("too many events");
    struct event *e = &event[nevent++];
    *e = (struct event){.what = what, .file = file};
    return e;
}

#define WRAPPED(result, name, ...) \
    result __real_##name(__VA_ARGS__); \
    result __wrap_##name(__VA_ARGS__); \
    result __wrap_##name(__VA_ARGS__)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int unnamed = (flags & O_TMPFILE) == O_TMPFILE, makes = unnamed || flags & O_CREAT;
    mode_t mode = makes ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (unnamed && refuse_unnamed) return errno = EOPNOTSUPP, -1;
    int fd = __real_open(path, flags, mode);
    if (fd < 0 || fd >= MOST_FDS) return fd;
    file_of[fd] = 0;
    if (!recording) return fd;
    if (flags & O_DIRECTORY && !unnamed) file_of[fd] = FOLDER;
    if (makes) file_of[fd] = ++nfile;
    if (makes && !unnamed) snprintf(record(NAMED, nfile)->name, 64, "%s", base(path));
    return fd;
}

static int number(int fd)
{
    return recording && fd >= 0 && fd < MOST_FDS ? file_of[fd] : 0;
}

WRAPPED(ssize_t, write, int fd, const void *p, size_t n)
{
    ssize_t k = __real_write(fd, p, n);
    if (k <= 0 || number(fd) <= 0) return k;
    struct event *e = record(WROTE, number(fd));
    e->bytes = (struct bytes){malloc((size_t)k), (size_t)k};
    memcpy(e->bytes.p, p, (size_t)k);
    return k;
}

WRAPPED(int, fsync, int fd)
{
    if (number(fd)) record(number(fd) == FOLDER ? FOLDER_SYNCED : SYNCED, number(fd));
    return __real_fsync(fd);
}

WRAPPED(int, linkat, int a, const char *from, int b, const char *to, int flags)
{
    int rc = __real_linkat(a, from, b, to, flags);
    if (rc == 0 && recording) snprintf(record(NAMED, number(atoi(base(from))))->name, 64, "%s", base(to));
    return rc;
}

WRAPPED(int, rename, const char *from, const char *to)
{
    int rc = __real_rename(from, to);
    if (rc == 0 && recording) {
        struct event *e = record(RENAMED, 0);
        snprintf(e->name, sizeof e->name, "%s", base(from));
        snprintf(e->to, sizeof e->to, "%s", base(to));
    }
    return rc;
}

/* --- jobs: ways to make the file `out` --------------------------------------------------------------------------- */

static char *tiny; /* a small network's description */

static int put_bytes(void *arg)
{
    static unsigned char bytes[5000];
    yoloc *c;
    (void)arg;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7 + i / 256);
    if (yoloc_open(&c, NULL)) return 1;
    yoloc_status s = yoloc_write_file(c, "out", bytes, sizeof bytes);
    yoloc_close(c);
    return (int)s;
}

/* Several writes. */
static int put_tensors(void *arg)
{
    static float v[3000];
    const yoloc_tensor t[] = {{"a", 0, 1, {3000}, v, sizeof v}, {"b", 0, 2, {2, 3}, v, 24}, {"c", 0, 1, {700}, v, 2800}};
    yoloc *c;
    (void)arg;
    for (int i = 0; i < 3000; i++) v[i] = (float)i;
    if (yoloc_open(&c, NULL)) return 1;
    yoloc_status s = yoloc_tensors_write(c, "out", t, 3);
    yoloc_close(c);
    return (int)s;
}

#ifdef YOLOC_LLVM
static int compile(void *arg)
{
    const char *const words[] = {tiny, "--weights", "rule", "--imgsz", "32", "--no-cache", "-o", "out"};
    union {
        long double align;
        char bytes[CLI_MAX_OPTION_BYTES];
    } options;
    struct cli_args args;
    struct cli_error e = {0};
    const char *rest[9];
    (void)arg;
    if (cli_args_parse(&cli_command_compile, 8, words, options.bytes, rest, &args, &e) ||
        cli_command_compile.run(options.bytes, &args, &e))
        return fprintf(stderr, "%s\n", e.text), 1;
    return 0;
}
#endif

static const struct job {
    const char *name;
    int (*run)(void *);
} jobs[] = {
    {"bytes", put_bytes},
    {"tensors", put_tensors},
#ifdef YOLOC_LLVM
    {"compile", compile},
#endif
};
enum { NJOB = sizeof jobs / sizeof *jobs };

static const struct bytes old = {(unsigned char *)"the old file", 12};

/* What the folder holds but `out`; removed when asked. */
static int others(int clear)
{
    int n = 0;
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' && strncmp(e->d_name, ".yoloc-", 7)) continue;
        if (clear) unlink(e->d_name);
        n += strcmp(e->d_name, "out") != 0;
    }
    closedir(d);
    return n;
}

/* The bytes that the job makes. */
static struct bytes wanted(const struct job *j)
{
    others(1);
    if (crash_run(j->run, NULL, 0, NULL)) die(j->name);
    struct bytes b = read_whole("out");
    if (!b.p) die(j->name);
    return b;
}

/* --- points ----------------------------------------------------------------------------------------------------- */

static void note_labels(struct crash_seen *all, const struct crash_seen *seen)
{
    for (int i = 0; i < seen->nlabel; i++) {
        int k = 0;
        while (k < all->nlabel && strcmp(all->label[k], seen->label[i])) k++;
        if (k == all->nlabel) memcpy(all->label[all->nlabel++], seen->label[i], CRASH_LABEL);
    }
}

/* After an end at `label`. */
static void check_left(const struct job *j, const char *label, int over, const struct bytes *new)
{
    struct bytes got = read_whole("out");
    int done = !strcmp(label, "file.renamed") || !strcmp(label, "file.folder-synced");
    int named = refuse_unnamed || !strcmp(label, "file.named"), left = others(0);
    if (done ? !same(&got, new) : over ? !same(&got, &old) : got.p != NULL)
        FAIL("%s at %s: the output has %zu bytes\n", j->name, label, got.n);
    if (left > (named && !done)) FAIL("%s at %s: %d other files are left\n", j->name, label, left);
    free(got.p);
}

static void try_points(const struct job *j, int over, const struct bytes *new, struct crash_seen *all)
{
    for (long at = 1;; at++) {
        struct crash_seen seen;
        others(1);
        if (over) write_whole("out", &old);
        int code = crash_run(j->run, NULL, at, &seen);
        note_labels(all, &seen);
        cases++;
        if (code != CRASH_CODE) {
            if (code || others(0)) FAIL("%s: code %d, %d other files\n", j->name, code, others(0));
            if (at <= 5) FAIL("%s: only %ld points\n", j->name, at - 1);
            return;
        }
        check_left(j, seen.last, over, new);
        code = crash_run(j->run, NULL, 0, NULL);
        struct bytes got = read_whole("out");
        if (code || !same(&got, new)) FAIL("%s: after an end at %s: code %d\n", j->name, seen.last, code);
        free(got.p);
    }
}

/* Points that the source has. */
static int count_points(const char *source)
{
    struct bytes text = read_whole(source);
    int n = 0;
    if (!text.p) die(source);
    text.p[text.n] = 0;
    for (const char *p = (const char *)text.p; (p = strstr(p, "YIR_CRASH_POINT(")); p++) n++;
    free(text.p);
    return n;
}

static void points(int in_source)
{
    struct crash_seen all = {0};
    for (int i = 0; i < NJOB; i++) {
        struct bytes new = wanted(&jobs[i]);
        for (int how = 0; how < 4; how++) {
            refuse_unnamed = how / 2;
            try_points(&jobs[i], how % 2, &new, &all);
        }
        free(new.p);
    }
    if (all.nlabel != in_source) FAIL("%d of %d points were reached\n", all.nlabel, in_source);
}

/* --- loss of power ------------------------------------------------------------------------------------------------ */

enum { SECTOR = 512, MOST_BYTES = 1 << 17, CHOICES = 10 };

struct disk {
    unsigned char data[MOST_FILES][MOST_BYTES];
    size_t size[MOST_FILES];
    char name[MOST_FILES][64]; /* "": none */
};
static struct disk disk;

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static int last_sync(int n, enum what what, int file)
{
    for (int i = n - 1; i >= 0; i--)
        if (event[i].what == what && event[i].file == file) return i;
    return -1;
}

/* choice 0: nothing that is not synced is there, 1: all of it, else sectors of it at random. */
static void apply_write(const struct event *e, size_t at, int synced, int choice, uint64_t *seed)
{
    if (at + e->bytes.n > MOST_BYTES) die("a file is too large for this test");
    for (size_t i = 0; i < e->bytes.n;) {
        size_t n = SECTOR - (at + i) % SECTOR;
        if (n > e->bytes.n - i) n = e->bytes.n - i;
        int kept = synced || choice == 1 || (choice > 1 && next_random(seed) & 1);
        if (kept) memcpy(disk.data[e->file] + at + i, e->bytes.p + i, n);
        if (kept) disk.size[e->file] = at + i + n;
        i += n;
    }
}

static void apply_name(const struct event *e)
{
    for (int f = 0; f < MOST_FILES; f++)
        if (!strcmp(disk.name[f], e->what == NAMED ? e->name : e->to)) disk.name[f][0] = 0;
    for (int f = 0; f < MOST_FILES && e->what == RENAMED; f++)
        if (!strcmp(disk.name[f], e->name)) snprintf(disk.name[f], 64, "%s", e->to);
    if (e->what == NAMED) snprintf(disk.name[e->file], 64, "%s", e->name);
}

/* The disk when power goes after n events and `names` of the changes of names since the folder's fsync came through. */
static void lose_power(int n, int names, int choice, int ignore_sync, int over)
{
    uint64_t seed = (uint64_t)(n * 1000 + names * 100 + choice) + 1;
    size_t at[MOST_FILES] = {0};
    int folder = ignore_sync ? -1 : last_sync(n, FOLDER_SYNCED, FOLDER);
    memset(&disk, 0, sizeof disk);
    if (over) {
        memcpy(disk.data[0], old.p, old.n);
        disk.size[0] = old.n;
        snprintf(disk.name[0], 64, "out");
    }
    for (int i = 0; i < n; i++) {
        const struct event *e = &event[i];
        if (e->what == WROTE) {
            int synced = !ignore_sync && i < last_sync(n, SYNCED, e->file);
            apply_write(e, at[e->file], synced, choice, &seed);
            at[e->file] += e->bytes.n;
        }
        if ((e->what == NAMED || e->what == RENAMED) && (i < folder || names-- > 0)) apply_name(e);
    }
}

/* 1 when `out` is absent, the old file or the new one. */
static int is_whole(const struct bytes *new, int over)
{
    for (int f = 0; f < MOST_FILES; f++) {
        const struct bytes b = {disk.data[f], disk.size[f]};
        if (!strcmp(disk.name[f], "out")) return same(&b, new) || (over && same(&b, &old));
    }
    return !over;
}

/* How many states of the disk have a broken output. */
static int broken_states(const struct bytes *new, int over, int ignore_sync)
{
    int broken = 0;
    for (int n = 0; n <= nevent; n++)
        for (int names = 0; names <= 3; names++)
            for (int choice = 0; choice < CHOICES; choice++) {
                lose_power(n, names, choice, ignore_sync, over);
                broken += !is_whole(new, over);
                cases++;
            }
    return broken;
}

static void replay(const struct job *j, int over)
{
    struct bytes new = wanted(j);
    others(1);
    if (over) write_whole("out", &old);
    nevent = nfile = 0;
    recording = 1;
    int code = j->run(NULL);
    recording = 0;
    if (code || nevent < 5 || last_sync(nevent, FOLDER_SYNCED, FOLDER) != nevent - 1)
        FAIL("%s: code %d, %d events, or the folder was not synced at the end\n", j->name, code, nevent);
    int broken = broken_states(&new, over, 0);
    if (broken) FAIL("%s: %d states of the disk have a broken output\n", j->name, broken);
    if (!broken_states(&new, over, 1)) FAIL("%s: no state is broken without fsync: this test sees nothing\n", j->name);
    lose_power(nevent, 0, 0, 0, over);
    struct bytes stays = {0};
    for (int f = 0; f < MOST_FILES; f++)
        if (!strcmp(disk.name[f], "out")) stays = (struct bytes){disk.data[f], disk.size[f]};
    if (!same(&stays, &new)) FAIL("%s: not durable when it returns\n", j->name);
    for (int i = 0; i < nevent; i++) free(event[i].bytes.p);
    free(new.p);
}

static void power(void)
{
    for (int i = 0; i < NJOB; i++)
        for (int how = 0; how < 4; how++) {
            refuse_unnamed = how / 2;
            replay(&jobs[i], how % 2);
        }
}

/* --- kills ---------------------------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_for(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static void kills(const struct job *j, int n)
{
    uint64_t seed = 11;
    int news = 0;
    double start = now();
    struct bytes new = wanted(j);
    double took = now() - start;
    for (int i = 0; i < n; i++) {
        /* Every other one where the file is written, as far as the time of a run can be told. */
        double part = (double)(next_random(&seed) % 1000) / 1000;
        int status;
        write_whole("out", &old);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) _exit(j->run(NULL));
        pause_for(took * (i % 2 ? 0.9 + 0.2 * part : part));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        struct bytes got = read_whole("out");
        if (!same(&got, &old) && !same(&got, &new)) FAIL("kill %d: the output has %zu bytes\n", i, got.n);
        news += same(&got, &new);
        free(got.p);
        cases++;
    }
    if (crash_run(j->run, NULL, 0, NULL)) FAIL("kills: no run succeeds afterwards\n");
    struct bytes got = read_whole("out");
    if (!same(&got, &new)) FAIL("kills: another file afterwards\n");
    fprintf(stderr, "%d kills, the new file was there after %d\n", n, news);
    free(got.p);
    free(new.p);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *scratch = getenv("YOLOC_TEST_SCRATCH");
    char folder[256];
    tiny = realpath("tests/tiny.yaml", NULL);
    int in_source = count_points("frontend/outfile.c");
    snprintf(folder, sizeof folder, "%s/crashXXXXXX", scratch ? scratch : "/tmp");
    if (!tiny || !mkdtemp(folder) || chdir(folder) || !freopen("/dev/null", "w", stdout)) die(folder);
    if (!strcmp(mode, "points"))
        points(in_source);
    else if (!strcmp(mode, "power"))
        power();
    else if (!strcmp(mode, "kills") && argc > 2)
        kills(&jobs[NJOB - 1], atoi(argv[2]));
    else
        return fprintf(stderr, "crash points | power | kills N\n"), 2;
    others(1);
    if (chdir("/") == 0) rmdir(folder);
    free(tiny);
    fprintf(stderr, "%d cases, %d faults\n", cases, bad);
    return bad != 0;
}
