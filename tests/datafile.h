/* Files below the test data folder (YOLOC_TEST_DATA, else ../shared/data from the root of the source tree). */
#ifndef TEST_DATAFILE_H
#define TEST_DATAFILE_H

#include <jansson.h>
#include <stddef.h>

enum { TEST_SKIP = 77 }; /* exit code of a test whose data is absent */

/* Path of a file below the folder, cut off when `size` is too small; returns `out`. */
const char *test_data_path(char *out, size_t size, const char *name);
int test_data_exists(const char *name);

/* The parsed file, or NULL after a line on stderr; json_decref releases it. */
json_t *test_data_json(const char *name);

/* Whole file, NUL-terminated behind its bytes, or NULL; free() releases it. */
void *test_file_read(const char *path, size_t *size);

/* Members of a stored record; a missing or mistyped one ends the program, since the data is ours. */
const char *test_json_text(const json_t *object, const char *key);
double test_json_number(const json_t *object, const char *key);
json_t *test_json_list(const json_t *object, const char *key);
double test_json_at(const json_t *list, size_t i);

#endif
