#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

/* The only mutable globals of the command: a signal handler can reach nothing else. */
static volatile sig_atomic_t held, asked, caught;

static void on_signal(int number)
{
    if (!held && (!asked || caught))
        _exit(128 + number);
    caught = number;
}

void cli_interrupt_install(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    signal(SIGXFSZ, SIG_IGN); /* a file that gets too large is a failed write */
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        /* nohup and background shells ignore some on purpose */
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

void cli_interrupt_hold(void)
{
    held = held + 1;
}

void cli_interrupt_release(void)
{
    held = held - 1;
    if (!held && caught)
        _exit(128 + caught);
}

void cli_interrupt_ask(void)
{
    asked = 1;
}

int cli_interrupt_caught(void)
{
    return caught;
}

void cli_interrupt_unask(void)
{
    asked = 0;
    if (!held && caught)
        _exit(128 + caught);
}
