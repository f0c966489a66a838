#include "args.h"

#include "nearest.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 26
#define HELP_WIDTH 100

struct parse {
    const struct cli_command *c;
    int argc, at;
    const char *const *argv;
    void *options;
    const char **rest;
    struct cli_args *out;
    struct cli_error *e;
};

static int find_option(const struct cli_command *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->noption; i++) {
        if (strlen(c->options[i].name) == n && memcmp(c->options[i].name, name, n) == 0)
            return (int)i;
    }
    return -1;
}

static int find_letter(const struct cli_command *c, char letter)
{
    for (size_t i = 0; i < c->noption; i++) {
        if (c->options[i].letter == letter)
            return (int)i;
    }
    return -1;
}

int cli_given(const struct cli_command *c, const struct cli_args *args, const char *name)
{
    int i = find_option(c, name, strlen(name));
    return i >= 0 && args->given >> i & 1;
}

static int unknown_option(const struct parse *p, const char *word, size_t n)
{
    const char *names[CLI_MAX_OPTIONS + 1] = {"help"};
    char typed[64];
    for (size_t i = 0; i < p->c->noption; i++)
        names[i + 1] = p->c->options[i].name;
    snprintf(typed, sizeof typed, "%.*s", (int)n - 2, word + 2);
    const char *near = cli_nearest(typed, names, p->c->noption + 1);
    return cli_fail(p->e, CLI_USAGE, "%s: unknown option %.*s%s%s%s", p->c->name, (int)n, word,
                    near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

/* --- values --- */

static int read_int(const char *s, char **end, int *out)
{
    errno = 0;
    long v = strtol(s, end, 10);
    if (*end == s || errno || v < INT_MIN || v > INT_MAX)
        return -1;
    *out = (int)v;
    return 0;
}

static int in_range(const struct cli_option *o, double v)
{
    return v >= o->low && v <= o->high;
}

static int parse_int(const struct cli_option *o, const char *s, void *to)
{
    char *end;
    int v;
    if (read_int(s, &end, &v) != 0 || *end || !in_range(o, v))
        return -1;
    memcpy(to, &v, sizeof v);
    return 0;
}

static int parse_real(const struct cli_option *o, const char *s, void *to)
{
    char *end;
    double v = strtod(s, &end);
    if (end == s || *end || !isfinite(v) || !in_range(o, v))
        return -1;
    memcpy(to, &v, sizeof v);
    return 0;
}

static int parse_size(const struct cli_option *o, const char *s, void *to)
{
    char *end;
    struct cli_size v;
    if (read_int(s, &end, &v.height) != 0)
        return -1;
    v.width = v.height;
    if (*end == ',' && read_int(end + 1, &end, &v.width) != 0)
        return -1;
    if (*end || !in_range(o, v.height) || !in_range(o, v.width))
        return -1;
    memcpy(to, &v, sizeof v);
    return 0;
}

static int parse_text(const struct cli_option *o, const char *s, void *to)
{
    (void)o;
    memcpy(to, &s, sizeof s);
    return *s ? 0 : -1;
}

static int parse_texts(const struct cli_option *o, const char *s, void *to)
{
    struct cli_texts *t = to;
    if (t->n == CLI_MAX_TEXTS)
        return -1;
    return parse_text(o, s, &t->at[t->n++]);
}

static int parse_flag(const struct cli_option *o, const char *s, void *to)
{
    (void)o;
    (void)s;
    memcpy(to, &(int){1}, sizeof(int));
    return 0;
}

static const struct kind {
    int (*parse)(const struct cli_option *o, const char *s, void *to);
    const char *wanted;
    int ranged;
} kinds[] = {
    [CLI_FLAG] = {parse_flag, "no value", 0},
    [CLI_INT] = {parse_int, "a whole number", 1},
    [CLI_REAL] = {parse_real, "a number", 1},
    [CLI_TEXT] = {parse_text, "a value that is not empty", 0},
    [CLI_SIZE] = {parse_size, "a size N or H,W", 1},
    [CLI_TEXTS] = {parse_texts, "a value that is not empty, 16 times at most", 0},
};

static int store(const struct parse *p, const struct cli_option *o, const char *value)
{
    const struct kind *k = &kinds[o->value];
    char range[64] = "";
    if (k->parse(o, value, (char *)p->options + o->at) == 0)
        return 0;
    if (k->ranged)
        snprintf(range, sizeof range, " from %.10g to %.10g", o->low, o->high);
    return cli_fail(p->e, CLI_USAGE, "%s: --%s wants %s%s, not '%s'", p->c->name, o->name, k->wanted, range,
                    value);
}

/* --- the line --- */

static int check_repeat(const struct parse *p, int row)
{
    const struct cli_option *o = &p->c->options[row];
    for (size_t i = 0; i < p->c->noption; i++) {
        const struct cli_option *other = &p->c->options[i];
        if (!(p->out->given >> i & 1))
            continue;
        if ((int)i == row && o->value == CLI_TEXTS)
            continue;
        if ((int)i == row)
            return cli_fail(p->e, CLI_USAGE, "%s: --%s is given twice", p->c->name, o->name);
        if (o->group && other->group == o->group)
            return cli_fail(p->e, CLI_USAGE, "%s: --%s and --%s exclude each other", p->c->name, other->name,
                            o->name);
    }
    return 0;
}

/* `attached` is the value after '=' or after a letter, or NULL: then the next word is the value. */
static int take_option(struct parse *p, int row, const char *attached)
{
    const struct cli_option *o = &p->c->options[row];
    if (check_repeat(p, row) != 0)
        return -1;
    p->out->given |= UINT64_C(1) << row;
    if (o->value == CLI_FLAG && attached)
        return cli_fail(p->e, CLI_USAGE, "%s: --%s takes no value", p->c->name, o->name);
    if (o->value == CLI_FLAG || attached)
        return store(p, o, attached);
    if (p->at == p->argc || strncmp(p->argv[p->at], "--", 2) == 0)
        return cli_fail(p->e, CLI_USAGE, "%s: --%s lacks its value %s", p->c->name, o->name, o->metavar);
    return store(p, o, p->argv[p->at++]);
}

static int take_long(struct parse *p, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    int row = find_option(p->c, word + 2, n - 2);
    if (row < 0)
        return unknown_option(p, word, n);
    return take_option(p, row, equals ? equals + 1 : NULL);
}

static int take_short(struct parse *p, const char *word)
{
    int row = find_letter(p->c, word[1]);
    if (row < 0 || (p->c->options[row].value == CLI_FLAG && word[2]))
        return cli_fail(p->e, CLI_USAGE, "%s: unknown option %s", p->c->name, word);
    return take_option(p, row, word[2] ? word + 2 : NULL);
}

static int check_rest(const struct parse *p)
{
    const struct cli_command *c = p->c;
    int n = p->out->nrest;
    if (n < c->min_rest)
        return cli_fail(p->e, CLI_USAGE, "%s: %s; usage: yoloc %s %s", c->name,
                        n ? "an argument is missing" : "arguments are missing", c->name, c->arguments);
    if (c->max_rest >= 0 && n > c->max_rest)
        return cli_fail(p->e, CLI_USAGE, "%s: '%s' is one argument too many; usage: yoloc %s %s", c->name,
                        p->rest[c->max_rest], c->name, c->arguments);
    return 0;
}

static int set_fallbacks(const struct parse *p)
{
    memset(p->options, 0, p->c->options_size);
    for (size_t i = 0; i < p->c->noption; i++) {
        const struct cli_option *o = &p->c->options[i];
        if (o->fallback && store(p, o, o->fallback) != 0)
            return -1;
    }
    return 0;
}

int cli_args_parse(const struct cli_command *c, int argc, const char *const *argv, void *options,
                   const char **rest, struct cli_args *out, struct cli_error *e)
{
    struct parse p = {c, argc, 0, argv, options, rest, out, e};
    *out = (struct cli_args){.rest = rest};
    if (set_fallbacks(&p) != 0)
        return -1;
    int only_rest = 0;
    while (p.at < argc) {
        const char *word = argv[p.at++];
        int rc = 0;
        if (only_rest || word[0] != '-' || word[1] == 0)
            rest[out->nrest++] = word;
        else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return 1;
        else if (strcmp(word, "--") == 0)
            only_rest = 1;
        else
            rc = word[1] == '-' ? take_long(&p, word) : take_short(&p, word);
        if (rc != 0)
            return -1;
    }
    return check_rest(&p);
}

/* --- help --- */

/* Words of `text`, broken at HELP_WIDTH, further lines indented to `column`, where the cursor is already. */
static void print_wrapped(const char *text, int column, FILE *to)
{
    int x = column;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (x > column && x + 1 + (int)n > HELP_WIDTH) {
            fprintf(to, "\n%*s", column, "");
            x = column;
        }
        x += fprintf(to, "%s%.*s", x > column ? " " : "", (int)n, text);
        text += n + strspn(text + n, " ");
    }
    fputc('\n', to);
}

static void print_option(const struct cli_option *o, FILE *to)
{
    char head[128], help[512];
    snprintf(head, sizeof head, "  %c%c%s--%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
             o->letter ? ", " : "  ", o->name, o->metavar ? " " : "", o->metavar ? o->metavar : "");
    snprintf(help, sizeof help, o->fallback ? "%s (default %s)" : "%s", o->help, o->fallback);
    if (strlen(head) + 2 > HELP_COLUMN)
        fprintf(to, "%s\n%*s", head, HELP_COLUMN, "");
    else
        fprintf(to, "%-*s", HELP_COLUMN, head);
    print_wrapped(help, HELP_COLUMN, to);
}

void cli_args_help_options(const struct cli_command *c, FILE *to)
{
    for (size_t i = 0; i < c->noption; i++)
        print_option(&c->options[i], to);
    print_option(&(struct cli_option){.name = "help", .letter = 'h', .help = "this text"}, to);
}

void cli_args_help(const struct cli_command *c, FILE *to)
{
    fprintf(to, "usage: yoloc %s%s%s%s\n\n", c->name, c->noption ? " [options]" : "",
            *c->arguments ? " " : "", c->arguments);
    print_wrapped(c->summary, 0, to);
    if (c->details) {
        fputc('\n', to);
        print_wrapped(c->details, 0, to);
    }
    fputs("\noptions:\n", to);
    cli_args_help_options(c, to);
}
