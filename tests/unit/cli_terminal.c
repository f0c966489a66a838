/* Modules whose texts hold what a terminal would obey, under a right digest: no command prints it as it is. */
#include "cachebox.h"
#include "frontend/cli/commands.h"
#include "frontend/yoloc.h"
#include "ir/utf8.h"
#include "modbuild.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUDE "\x1b]0;x\x07\r\xc2\x9b[2J\xe2\x80\xae\x9b"

static uint8_t *rude_module(size_t *size)
{
    struct modbuild b;
    modbuild_init(&b);
    uint32_t rude = modbuild_string(&b, RUDE);
    b.meta.model = b.meta.task = b.meta.weights_from = b.meta.options = rude;
    b.target[0].name = b.target[0].precision = b.target[0].compiler = rude;
    for (uint32_t i = 0; i < b.nname; i++) b.name[i] = rude;
    for (uint32_t i = 0; i < b.nstep; i++) b.step[i].label = rude;
    for (uint32_t i = 0; i < b.nkernel; i++) b.kernel[i].name = b.kernel[i].family = rude;
    return modbuild_finish(&b, size);
}

static void expect_harmless(const char *text, size_t n, const char *what)
{
    cr_assert_gt(n, 0, "%s prints nothing", what);
    for (size_t i = 0, k; i < n; i += k) {
        k = text[i] == '\n' ? 1 : yir_shown(text + i, n - i);
        cr_assert_gt(k, 0, "%s: byte %02x at %zu: %s", what, (unsigned char)text[i], i, text);
    }
}

/* Standard output of `yoloc COMMAND WORDS`. */
static char *printed(const struct cli_command *c, int argc, const char *const *argv, size_t *n)
{
    _Alignas(16) unsigned char options[4096] = {0};
    const char *rest[8];
    struct cli_args args;
    struct cli_error e = {0};
    char *text = calloc(1, 1 << 16);
    FILE *to = tmpfile();
    int saved = dup(1);
    cr_assert(text && to && saved >= 0 && c->options_size <= sizeof options);
    fflush(stdout);
    cr_assert_geq(dup2(fileno(to), 1), 0);
    int rc = cli_args_parse(c, argc, argv, options, rest, &args, &e);
    if (!rc) rc = c->run(options, &args, &e);
    fflush(stdout);
    cr_assert_geq(dup2(saved, 1), 0);
    cr_assert_eq(rc, 0, "%s: %s", c->name, e.text);
    rewind(to);
    *n = fread(text, 1, (1 << 16) - 1, to);
    fclose(to);
    close(saved);
    return text;
}

Test(cli_terminal, texts_of_a_module)
{
    static const char *const more[][4] = {{"-n", "1"}, {"-n", "1", "--json"}, {NULL}, {"-k"}, {"--json"}};
    size_t size, n;
    uint8_t *bytes = rude_module(&size);
    char path[] = "/tmp/cli_terminalXXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const char *argv[5] = {path};
        int argc = 1;
        while (argc < 5 && more[i][argc - 1]) {
            argv[argc] = more[i][argc - 1];
            argc++;
        }
        char *text = printed(i < 2 ? &cli_command_bench : &cli_command_inspect, argc, argv, &n);
        expect_harmless(text, n, i < 2 ? "bench" : "inspect");
        free(text);
    }
    unlink(path);
    free(bytes);
}

Test(cli_terminal, names_in_the_environment)
{
    size_t n;
    setenv("YOLOC_LIBCUDA", RUDE, 1);
    setenv("YOLOC_LIBCUDNN", RUDE, 1);
    char *text = printed(&cli_command_devices, 0, NULL, &n);
    expect_harmless(text, n, "devices");
    cr_expect(strstr(text, "\ncuda        none: ") && strstr(text, "\ncudnn       none: "), "%s", text);
    free(text);
}

/* A folder of that name, and of a letter beyond ASCII, which JSON gets as it is. */
Test(cli_terminal, folder_of_the_cache)
{
    char box[192], path[256];
    yoloc_opts o;
    yoloc *c;
    yoloc_result text;
    cachebox_path(box, true);
    snprintf(path, sizeof path, "%s" RUDE "\xc3\xa9", box);
    for (int json = 0; json < 2; json++) {
        yoloc_opts_init(&o, sizeof o);
        o.cache_dir = path;
        cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
        cr_assert_eq(yoloc_cache_text(c, "stats", json, &text), YOLOC_OK);
        expect_harmless(text.bytes, text.size, json ? "cache stats --json" : "cache stats");
        cr_expect(!json || strstr(text.bytes, "\\u000d\\u009b[2J\\u202e\\ufffd\xc3\xa9\""), "%s", (char *)text.bytes);
        yoloc_free_result(&text);
        yoloc_close(c);
    }
    cachebox_remove(box);
}

/* The name in the IR's first line is changed, and so that all of it is still shown, with a NUL too. */
Test(cli_terminal, ir_of_a_module)
{
    yoloc_opts o;
    yoloc *c;
    yoloc_result module, text;
    yoloc_opts_init(&o, sizeof o);
    o.height = o.width = 32;
    cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
    if (yoloc_compile(c, "tests/tiny.yaml", "rule", &module)) cr_skip("nothing compiles here");
    char *at = memmem(module.bytes, module.size, "model tiny\n", 11);
    cr_assert_not_null(at);
    memcpy(at + 6, "\x1b\xc2\x9b", 4);
    modbuild_sign(module.bytes, module.size);
    cr_assert_eq(yoloc_inspect_text(c, module.bytes, module.size, "ir", &text), YOLOC_OK);
    cr_expect_eq(strncmp(text.bytes, "model \\x1b\\xc2\\x9b\n\n", 19), 0, "%.40s", (char *)text.bytes);
    cr_expect_not_null(strstr(text.bytes, "out decoded"));
    expect_harmless(text.bytes, text.size, "inspect --ir");
    yoloc_free_result(&text);
    yoloc_free_result(&module);
    yoloc_close(c);
}
