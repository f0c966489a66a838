/* Loads every hostile file of badfile.c in a process of its own that the kernel kills when it starts a program, opens a
 * socket, writes a file or maps code. Each is refused for the expected reason or loads without effect, in less than a
 * second and 256 MiB. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "badfile.h"
#include "frontend/model.h"
#include "lockdown.h"

enum { SKIPPED = 77, LEAST_FILES = 300, MOST_KIB = 256 << 10, PATIENCE = 60 /* s */ };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
static const double most_seconds = SANITIZED ? 20 : 1;

/* What a child reports, in memory shared with it. */
struct outcome {
    int done;
    enum yir_diag_id id;
    char text[256];
};

static volatile double last_seen; /* so that the reads are done */

static void load_weights(struct yir_arena *a, struct yir_diags *d, const char *path)
{
    const struct fe_weights *w = fe_weights_open(a, d, path, NULL);
    for (size_t i = 0; w && i < w->ntensor; i++) {
        const struct fe_tensor *t = &w->tensor[i];
        double *v = yir_alloc_n(a, (size_t)t->numel, sizeof *v);
        fe_tensor_f64(t, v);
        for (int64_t k = 0; k < t->numel; k++) last_seen = v[k];
    }
    struct yir_str listing = {.arena = a};
    if (w) fe_weights_json(&listing, w);
}

static void load_yaml(struct yir_arena *a, struct yir_diags *d, const char *path)
{
    const struct fe_model_opts o = {.path = "yolov8n.yaml", .batch = 1, .height = 64, .width = 64};
    const struct fe_value *root = fe_yaml_read(a, d, path);
    if (root) fe_model_build(a, yir_types_new(a), d, root, &o);
}

static void load(struct outcome *to, const struct badfile *f, const char *path)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    if (f->yaml) load_yaml(a, d, path);
    else load_weights(a, d, path);
    size_t first = 0;
    while (first < yir_diag_count(d) && yir_diag_at(d, first)->severity != YIR_ERROR) first++;
    if (first < yir_diag_count(d)) {
        to->id = yir_diag_at(d, first)->id;
        snprintf(to->text, sizeof to->text, "%s", yir_diag_at(d, first)->text);
    }
    yir_arena_free(a);
    to->done = 1;
}

/* --- children ------------------------------------------------------------------------------------------------ */

static struct outcome *outcome;

/* Runs act in a locked child; its exit status as wait gives it. */
static int in_child(void (*act)(const void *with), const void *with, struct rusage *used)
{
    int status;
    memset(outcome, 0, sizeof *outcome);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) exit(1);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        alarm(PATIENCE);
        if (lockdown()) _exit(SKIPPED);
        act(with);
        _exit(0);
    }
    while (wait4(child, &status, 0, used) < 0 && errno == EINTR) continue;
    return status;
}

struct work {
    const struct badfile *file;
    const char *path;
};

static void load_it(const void *with)
{
    const struct work *w = with;
    load(outcome, w->file, w->path);
}

static double seconds(const struct rusage *r)
{
    return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) + (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec) * 1e-6;
}

static int check(const struct badfile *f, const char *path)
{
    struct rusage used;
    int status = in_child(load_it, &(struct work){f, path}, &used);
    const char *wrong = NULL;
    if (WIFSIGNALED(status)) wrong = WTERMSIG(status) == SIGSYS ? "killed: it tried what it may not" : strsignal(WTERMSIG(status));
    else if (WEXITSTATUS(status) || !outcome->done) wrong = "did not come to an end";
    else if (outcome->id != f->expected) wrong = "another outcome than expected";
    else if (seconds(&used) > most_seconds) wrong = "too slow";
    else if (!SANITIZED && used.ru_maxrss > MOST_KIB) wrong = "too much memory";
    if (!wrong) return 0;
    printf("%s %s: %s (status %x, E%03d instead of E%03d, %.2f s, %ld KiB) %s\n", f->row, f->name, wrong, (unsigned)status,
           outcome->done ? yir_diag_number(outcome->id) : 999, yir_diag_number(f->expected), seconds(&used), used.ru_maxrss,
           outcome->text);
    return 1;
}

/* --- the lock itself ----------------------------------------------------------------------------------------- */

static void try_exec(const void *with)
{
    (void)with;
    execl("/bin/true", "true", (char *)NULL);
}

static void try_system(const void *with)
{
    (void)with;
    if (system("exit 0")) return;
}

static void try_socket(const void *with)
{
    (void)with;
    socket(AF_INET, SOCK_STREAM, 0);
}

static void try_write(const void *with)
{
    open(with, O_WRONLY | O_CREAT, 0600);
}

static void try_ptrace(const void *with)
{
    (void)with;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void try_code(const void *with)
{
    (void)with;
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void try_read(const void *with)
{
    int fd = open(with, O_RDONLY);
    char c;
    outcome->done = fd >= 0 && read(fd, &c, 1) == 1;
}

static int check_lock(const char *path)
{
    static void (*const tries[])(const void *) = {try_exec, try_system, try_socket, try_write, try_ptrace, try_code};
    struct rusage used;
    int wrong = 0;
    int status = in_child(try_read, path, &used);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) exit(SKIPPED);
    if (status || !outcome->done) wrong += printf("the lock forbids reading\n");
    for (size_t i = 0; i < YIR_COUNT(tries); i++) {
        status = in_child(tries[i], path, &used);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) wrong += printf("the lock lets attempt %zu through\n", i);
    }
    return wrong;
}

static void save(const char *path, const struct badfile *f)
{
    unlink(path); /* a new file: writing over one waits for the disk on some systems */
    FILE *to = fopen(path, "wb");
    if (!to || fwrite(f->bytes, 1, f->len, to) != f->len || fclose(to)) {
        perror(path);
        exit(1);
    }
}

/* hostile [NAME]: all files, or those of a name. */
int main(int argc, char **argv)
{
    char path[1024];
    const char *scratch = getenv("YOLOC_TEST_SCRATCH");
    snprintf(path, sizeof path, "%s/hostile.%ld", scratch ? scratch : "/tmp", (long)getpid());
    outcome = mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcome == MAP_FAILED) return 1;
    size_t n = badfile_count(), wrong = 0, inert = 0;
    for (size_t i = 0; i < n; i++) {
        struct badfile f;
        struct yir_arena *a = yir_arena_new(NULL, NULL);
        badfile_make(&f, a, i);
        save(path, &f);
        if (i == 0) wrong += (size_t)check_lock(path);
        if (argc < 2 || !strcmp(argv[1], f.name)) wrong += (size_t)check(&f, path);
        inert += f.expected == YIR_DIAG_NONE;
        yir_arena_free(a);
    }
    unlink(path);
    printf("%zu hostile files, of which %zu load without effect; %zu wrong\n", n, inert, wrong);
    return wrong || n < LEAST_FILES;
}
