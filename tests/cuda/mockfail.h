/* How calls of a mock library are made to fail. */
#ifndef MOCKFAIL_H
#define MOCKFAIL_H

/* The library's own: functions that are ways out. What was made is not given back where these fail, so "*" leaves them alone. */
int gives_back(const char *name);

/* The nth call from now on of a function gives code; "*": of all that give nothing back. nth 0: none. */
void set_failure(const char *name, int nth, int code);
const char *failed(void); /* the function that did since then; NULL: none yet */

/* The code that this call of a function is to give, or 0. */
int fails(const char *name);

#define ENTER(name)                                                                                          \
    do {                                                                                                     \
        int code_ = fails(name);                                                                             \
        if (code_) return code_;                                                                             \
    } while (0)

#endif
