/* SIGINT, SIGTERM, SIGHUP and SIGPIPE end the command with code 128 + signal: at once, except while an output file is
 * being written under its temporary name; then as soon as that is finished or removed. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

void cli_interrupt_install(void);

/* Held between the two, which nest. */
void cli_interrupt_hold(void);
void cli_interrupt_release(void);

/* Between the two the first signal waits to be asked for, so that work can be ended in order; a second one ends the command at once. */
void cli_interrupt_ask(void);
int cli_interrupt_caught(void); /* 0: none */
void cli_interrupt_unask(void);

#endif
