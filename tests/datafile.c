#include "datafile.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

const char *test_data_path(char *out, size_t size, const char *name)
{
    const char *folder = getenv("YOLOC_TEST_DATA");
    snprintf(out, size, "%s/%s", folder && folder[0] ? folder : "../shared/data", name);
    return out;
}

int test_data_exists(const char *name)
{
    char path[1024];
    struct stat st;
    return stat(test_data_path(path, sizeof path, name), &st) == 0;
}

json_t *test_data_json(const char *name)
{
    char path[1024];
    json_error_t e;
    json_t *j = json_load_file(test_data_path(path, sizeof path, name), JSON_ALLOW_NUL, &e);
    if (!j)
        fprintf(stderr, "%s:%d: %s\n", path, e.line, e.text);
    return j;
}

void *test_file_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *bytes = NULL;
    size_t have = 0, room = 0, got;
    do {
        if (have + 1 >= room) {
            room = room ? 2 * room : 65536;
            char *more = realloc(bytes, room);
            if (!more)
                abort();
            bytes = more;
        }
        got = fread(bytes + have, 1, room - have - 1, f);
        have += got;
    } while (got > 0);
    fclose(f);
    bytes[have] = 0;
    *size = have;
    return bytes;
}

static void die(const char *what, const char *key)
{
    fprintf(stderr, "stored record: %s \"%s\"\n", what, key);
    exit(1);
}

const char *test_json_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    if (!s)
        die("no text", key);
    return s;
}

double test_json_number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v))
        die("no number", key);
    return json_number_value(v);
}

json_t *test_json_list(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    if (!json_is_array(v))
        die("no list", key);
    return v;
}

double test_json_at(const json_t *list, size_t i)
{
    const json_t *v = json_array_get(list, i);
    if (!json_is_number(v))
        die("no number in", "list");
    return json_number_value(v);
}
