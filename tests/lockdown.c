#include "lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* A call that kills: always (arg -1), or when its argument has one of the bits. Low halves of arguments are at their
 * offset, as both machines are little-endian. */
struct rule {
    unsigned nr;
    int arg;
    unsigned bits;
};
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND)
static const struct rule rules[] = {
    {__NR_execve, -1, 0},      {__NR_execveat, -1, 0},     {__NR_ptrace, -1, 0},
    {__NR_socket, -1, 0},      {__NR_socketpair, -1, 0},   {__NR_connect, -1, 0},      {__NR_bind, -1, 0},
    {__NR_sendto, -1, 0},      {__NR_openat2, -1, 0},      {__NR_io_uring_setup, -1, 0},
    {__NR_unlinkat, -1, 0},    {__NR_renameat2, -1, 0},    {__NR_linkat, -1, 0},       {__NR_symlinkat, -1, 0},
    {__NR_mkdirat, -1, 0},     {__NR_mknodat, -1, 0},      {__NR_fchmodat, -1, 0},     {__NR_truncate, -1, 0},
    {__NR_mount, -1, 0},       {__NR_memfd_create, -1, 0}, {__NR_process_vm_writev, -1, 0},
    {__NR_openat, 2, WRITES},  {__NR_mmap, 2, PROT_EXEC},  {__NR_mprotect, 2, PROT_EXEC},
#ifdef __NR_open /* calls that only the older machine has */
    {__NR_open, 1, WRITES},    {__NR_creat, -1, 0},        {__NR_fork, -1, 0},         {__NR_vfork, -1, 0},
    {__NR_unlink, -1, 0},      {__NR_rename, -1, 0},       {__NR_link, -1, 0},         {__NR_symlink, -1, 0},
    {__NR_mkdir, -1, 0},       {__NR_rmdir, -1, 0},        {__NR_chmod, -1, 0},
#endif
};
enum { NRULE = sizeof rules / sizeof *rules, OTHER_ABI = 0x40000000 };

#define LOAD(field)            (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what)           (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what)
#define SKIP(op, value, n, m)  (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_K | (op), value, n, m)

int lockdown(void)
{
#ifdef ARCH
    struct sock_filter code[14 + 5 * NRULE];
    unsigned short n = 0;
    code[n++] = LOAD(arch);
    code[n++] = SKIP(BPF_JEQ, ARCH, 1, 0);
    code[n++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    code[n++] = LOAD(nr);
    code[n++] = SKIP(BPF_JGE, OTHER_ABI, 0, 1);
    code[n++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    /* Threads may begin, processes may not. The flags of clone3 cannot be seen: the C library takes clone where there is none. */
    code[n++] = SKIP(BPF_JEQ, __NR_clone3, 0, 1);
    code[n++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
    code[n++] = SKIP(BPF_JEQ, __NR_clone, 0, 4);
    code[n++] = LOAD(args);
    code[n++] = SKIP(BPF_JSET, CLONE_THREAD, 0, 1);
    code[n++] = RETURN(SECCOMP_RET_ALLOW);
    code[n++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    for (int i = 0; i < NRULE; i++) {
        const struct rule *r = &rules[i];
        code[n++] = SKIP(BPF_JEQ, r->nr, 0, r->arg < 0 ? 1 : 4);
        if (r->arg >= 0) {
            code[n++] = (struct sock_filter)BPF_STMT(
                BPF_LD | BPF_W | BPF_ABS, (unsigned)(offsetof(struct seccomp_data, args) + 8 * (unsigned)r->arg));
            code[n++] = SKIP(BPF_JSET, r->bits, 1, 0);
            code[n++] = RETURN(SECCOMP_RET_ALLOW);
        }
        code[n++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    }
    code[n++] = RETURN(SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? -1 : 0;
#else
    return -1;
#endif
}
