/* Finds objects in one binary PPM picture. Build: cc example_detect.c $(pkg-config --cflags --libs yolort) */
#include "yolort.h"

#include <stdio.h>
#include <stdlib.h>

/* The pixels are the caller's to free; image->rgb is NULL when the file is no P6 picture. */
static void read_ppm(const char *path, yolort_image *image)
{
    int width, height;
    unsigned char *rgb = NULL;
    FILE *f = fopen(path, "rb");
    if (f && fscanf(f, "P6 %5d %5d 255%*1[ \t\r\n]", &width, &height) == 2 && width > 0 && height > 0) {
        size_t bytes = (size_t)width * (size_t)height * 3;
        rgb = malloc(bytes);
        if (rgb && fread(rgb, 1, bytes, f) != bytes) {
            free(rgb);
            rgb = NULL;
        }
    }
    if (f) fclose(f);
    *image = (yolort_image){rgb, rgb ? width : 0, rgb ? height : 0, 0};
}

/* One context does one call at a time; threads that work side by side have one each, of the same module. */
static int detect(yolort_module *module, const yolort_image *image)
{
    enum { CAPACITY = 300 };
    static yolort_detection box[CAPACITY];
    size_t count = 0;
    yolort_context *context = NULL;
    yolort_status status = yolort_context_new(&context, module, NULL);
    if (!status) status = yolort_detect(context, image, 1, NULL, box, CAPACITY, &count);
    if (status) fprintf(stderr, "%s: %s\n", yolort_status_name(status), yolort_error(context));
    const yolort_info *info = yolort_module_info(module);
    for (size_t i = 0; i < count; i++)
        printf("%-16s %.3f  %.1f %.1f %.1f %.1f\n", info->names[box[i].cls], (double)box[i].score,
               (double)box[i].x1, (double)box[i].y1, (double)box[i].x2, (double)box[i].y2);
    yolort_context_free(context);
    return status ? 1 : 0;
}

int main(int argc, char **argv)
{
    char error[256] = "usage: example_detect MODULE.yoloc PICTURE.ppm";
    yolort_module *module = NULL;
    yolort_image image = {NULL, 0, 0, 0};
    int failed = 1;
    if (argc == 3 && yolort_load_file(&module, argv[1], error, sizeof error) == YOLORT_OK) {
        read_ppm(argv[2], &image);
        if (image.rgb) failed = detect(module, &image);
        else fprintf(stderr, "%s: not a binary PPM picture\n", argv[2]);
    } else {
        fprintf(stderr, "%s\n", error);
    }
    yolort_module_free(module);
    free((void *)image.rgb);
    return failed;
}
