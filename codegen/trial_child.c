#include "trial_child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "runtime/yolort.h"
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { LOAD, RUN, TELL, ENGINES };
enum { PROCESSES = 5 }; /* how often one may be lost, and the one that is used up last */

struct request {
    int what, v, form, compare;
    size_t size; /* LOAD, ENGINES: bytes that follow; ENGINES: a struct ym_conv */
    uint64_t most_space;
    int deterministic;
};

struct reply { /* nstep doubles follow */
    int rc, forms;
    double ms, apart;
    uint32_t nstep;
    char error[CG_TRIAL_ERROR]; /* TELL, ENGINES: the text */
};

struct trial_child {
    struct yir_arena *arena;
    int threads, forms;
    double patience_s;
    pid_t pid; /* 0: none */
    int fd;
    struct {
        pid_t pid;
        int fd;
    } spare[PROCESSES]; /* [nspare] */
    int nspare;
    struct {
        void *bytes; /* NULL: none, or at fault */
        size_t size;
    } variant[CG_MOST_TRIALS];
    double *step_ms;
    size_t cap_step;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- bytes over the socket ---------------------------------------------------------------------------------- */

/* Waits until the socket is ready; end: when to give up, 0: never. */
static bool ready(int fd, short events, double end)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        double left = end > 0 ? end - seconds() : 3600;
        if (left <= 0) return false;
        int n = poll(&p, 1, (int)(left * 1e3) + 1);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

static bool put(int fd, const void *bytes, size_t n, double end)
{
    const char *p = bytes;
    while (n) {
        if (!ready(fd, POLLOUT, end)) return false;
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno != EINTR && errno != EAGAIN) return false;
        p += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return true;
}

static bool get(int fd, void *bytes, size_t n, double end)
{
    char *p = bytes;
    while (n) {
        if (!ready(fd, POLLIN, end)) return false;
        ssize_t k = recv(fd, p, n, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EINTR && errno != EAGAIN)) return false;
        p += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return true;
}

/* --- the child ---------------------------------------------------------------------------------------------- */

static void die_of_memory(void *user)
{
    (void)user;
    _exit(3);
}

static int tell_gpu(struct cg_trial *out)
{
    char error[64];
    yolort_gpu g;
    size_t n = 0;
    int driver = 0;
    if (yolort_gpus(&g, 1, &n, &driver, error, sizeof error) != YOLORT_OK || !n) return -1;
    snprintf(out->error, sizeof out->error, "%s, %d multiprocessors, driver %d.%d", g.name, g.multiprocessors, driver / 1000,
             driver % 1000 / 10);
    return 0;
}

static int list_engines(struct cg_trials *t, int fd, const struct request *q, struct cg_trial *out)
{
    struct ym_conv c;
    if (q->size != sizeof c || !get(fd, &c, sizeof c, 0)) _exit(3);
    return cg_trials_engines(t, &c, q->deterministic != 0, q->most_space, out);
}

static int serve_one(struct cg_trials *t, int fd, const struct request *q, struct cg_trial *out)
{
    if (q->what == TELL) return tell_gpu(out);
    if (q->what == ENGINES) return list_engines(t, fd, q, out);
    if (q->what == RUN) return cg_trials_run(t, q->v, q->form, q->compare != 0, out);
    void *bytes = malloc(q->size ? q->size : 1);
    if (!bytes || !get(fd, bytes, q->size, 0)) _exit(3);
    return cg_trials_load(t, q->v, bytes, q->size, out);
}

/* Until the parent closes its end. */
_Noreturn static void serve(int fd, int threads)
{
    struct yir_arena *a = yir_arena_new(die_of_memory, NULL);
    struct request q;
    if (!a) _exit(3);
    struct cg_trials *t = cg_trials_new(a, threads, false, 0);
    while (get(fd, &q, sizeof q, 0)) {
        struct cg_trial out = {0};
        struct reply r = {.rc = serve_one(t, fd, &q, &out)};
        r.forms = cg_trials_forms(t);
        r.ms = out.ms;
        r.apart = out.apart;
        r.nstep = r.rc ? 0 : out.nstep;
        memcpy(r.error, out.error, sizeof r.error);
        if (!put(fd, &r, sizeof r, 0) || !put(fd, out.step_ms, r.nstep * sizeof *out.step_ms, 0)) break;
    }
    _exit(0);
}

static bool start(struct trial_child *c)
{
    int pair[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return false;
    pid_t pid = fork();
    if (pid == 0) {
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        close(pair[0]);
        for (int i = 0; i < c->nspare; i++) close(c->spare[i].fd);
        if (getppid() != parent) _exit(3);
        serve(pair[1], c->threads);
    }
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return false;
    }
    c->spare[c->nspare].pid = pid;
    c->spare[c->nspare++].fd = pair[0];
    return true;
}

/* --- the parent --------------------------------------------------------------------------------------------- */

/* How it ended, as text, when it had ended by itself. */
static void stop(struct trial_child *c, char *error)
{
    int status = 0;
    if (!c->pid) return;
    bool ended = waitpid(c->pid, &status, WNOHANG) == c->pid;
    if (!ended) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    close(c->fd);
    c->pid = 0;
    if (!error) return;
    if (ended && WIFSIGNALED(status))
        snprintf(error, CG_TRIAL_ERROR, "the process that measures died of signal %d", WTERMSIG(status));
    else
        snprintf(error, CG_TRIAL_ERROR, ended ? "the process that measures ended" : "the process that measures did not answer in time");
}

static void drop(struct trial_child *c, int v)
{
    free(c->variant[v].bytes);
    c->variant[v].bytes = NULL;
}

static void next_process(struct trial_child *c)
{
    if (c->pid || !c->nspare) return;
    c->pid = c->spare[--c->nspare].pid;
    c->fd = c->spare[c->nspare].fd;
}

void trial_child_drop(struct trial_child *c)
{
    stop(c, NULL);
    for (int v = 0; v < CG_MOST_TRIALS; v++) drop(c, v);
}

void trial_child_end(struct trial_child *c)
{
    trial_child_drop(c);
    for (next_process(c); c->pid; next_process(c)) stop(c, NULL);
}

struct trial_child *trial_child_new(struct yir_arena *a, int threads, double patience_s)
{
    struct trial_child *c = yir_alloc(a, sizeof *c);
    *c = (struct trial_child){.arena = a, .threads = threads, .forms = 1, .patience_s = patience_s};
    while (c->nspare < PROCESSES && start(c)) continue;
    return c;
}

int trial_child_forms(const struct trial_child *c)
{
    return c->forms;
}

/* One question and its answer. false: the process is lost, out->error says how. */
static bool ask(struct trial_child *c, const struct request *q, const void *bytes, struct reply *r, struct cg_trial *out)
{
    double end = seconds() + c->patience_s;
    bool ok = c->pid && put(c->fd, q, sizeof *q, end) && put(c->fd, bytes, q->size, end) && get(c->fd, r, sizeof *r, end);
    if (ok) c->step_ms = yir_grow(c->arena, c->step_ms, &c->cap_step, r->nstep + 1u, sizeof *c->step_ms);
    if (ok && get(c->fd, c->step_ms, r->nstep * sizeof *c->step_ms, end)) return true;
    snprintf(out->error, sizeof out->error, "no process to measure in");
    stop(c, out->error);
    return false;
}

static int answer(struct trial_child *c, const struct reply *r, struct cg_trial *out)
{
    c->forms = r->forms;
    out->ms = r->ms;
    out->apart = r->apart;
    out->nstep = r->nstep;
    out->step_ms = c->step_ms;
    memcpy(out->error, r->error, sizeof out->error);
    return r->rc;
}

/* A process with the variants so far; what comparisons start from is made anew by runs of variant 0. */
static int revive(struct trial_child *c, struct cg_trial *out)
{
    if (c->pid) return 0;
    next_process(c);
    for (int v = 0; v < CG_MOST_TRIALS; v++) {
        struct request q = {.what = LOAD, .v = v, .size = c->variant[v].size};
        struct reply r;
        if (!c->variant[v].bytes) continue;
        if (!ask(c, &q, c->variant[v].bytes, &r, out)) return -1;
        if (answer(c, &r, out)) return -1;
        for (int form = 0; v == 0 && form < c->forms; form++) {
            struct request run = {.what = RUN, .form = form, .compare = 1};
            if (!ask(c, &run, NULL, &r, out) || answer(c, &r, out)) return -1;
        }
    }
    if (!c->pid) snprintf(out->error, sizeof out->error, "no process to measure in is left");
    return c->pid ? 0 : -1;
}

const char *trial_child_gpu(struct trial_child *c)
{
    struct request q = {.what = TELL};
    struct reply r;
    struct cg_trial out = {0};
    next_process(c);
    if (!ask(c, &q, NULL, &r, &out) || r.rc) return "no GPU";
    return yir_format(c->arena, "%.*s", CG_TRIAL_ERROR - 1, r.error);
}

int trial_child_engines(struct trial_child *c, const struct ym_conv *conv, bool deterministic, uint64_t most_space, struct cg_trial *out)
{
    struct request q = {.what = ENGINES, .size = sizeof *conv, .most_space = most_space, .deterministic = deterministic};
    struct reply r;
    if (revive(c, out) || !ask(c, &q, conv, &r, out)) return -1;
    memcpy(out->error, r.error, sizeof out->error);
    return r.rc;
}

int trial_child_load(struct trial_child *c, int v, void *bytes, size_t size, struct cg_trial *out)
{
    struct request q = {.what = LOAD, .v = v, .size = size};
    struct reply r;
    drop(c, v);
    if (revive(c, out) || !ask(c, &q, bytes, &r, out) || answer(c, &r, out)) {
        free(bytes);
        return -1;
    }
    c->variant[v].bytes = bytes;
    c->variant[v].size = size;
    return 0;
}

int trial_child_run(struct trial_child *c, int v, int form, bool compare, struct cg_trial *out)
{
    struct request q = {.what = RUN, .v = v, .form = form, .compare = compare};
    struct reply r;
    if (!c->variant[v].bytes || revive(c, out)) return -1;
    if (ask(c, &q, NULL, &r, out) && !answer(c, &r, out)) return 0;
    drop(c, v);
    char why[CG_TRIAL_ERROR];
    memcpy(why, out->error, sizeof why);
    stop(c, NULL); /* what a device did wrong may show in later runs of this process */
    memcpy(out->error, why, sizeof why);
    return -1;
}
