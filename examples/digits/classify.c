/* Handwritten digits, from C: reads 450 images of 8 x 8 grey values, a byte each, and prints what each is taken for.
 *
 *     relay compile digits.rly --entry classify --params weights.npz --emit header -o digits.h
 *     relay compile digits.rly --entry classify --params weights.npz --emit lib -o libdigits.so
 *     cc classify.c -I. -L. -ldigits -Wl,-rpath,. -o classify
 *     ./classify <images.bin
 *
 * digits.h includes relay.h, which is installed with relay, or lies in `include` of its source: -I says where. */
#include "digits.h"

#include <stdio.h>
#include <stdlib.h>

enum { IMAGES = 450, SIDE = 8 };

int main(void)
{
    static unsigned char images[IMAGES * SIDE * SIDE];
    if (fread(images, 1, sizeof images, stdin) != sizeof images) {
        fprintf(stderr, "classify: %zu bytes are wanted on standard input\n", sizeof images);
        return 2;
    }
    /* uint8: code 1 of DLPack, 8 bits. The weights are in the library. */
    int64_t shape[] = {IMAGES, SIDE, SIDE};
    RelayTensor batch = {.data = images,
                         .device_type = 1,
                         .rank = 3,
                         .code = 1,
                         .bits = 8,
                         .lanes = 1,
                         .shape = shape};
    RelayTensor digits = {0};
    RelayStatus status = digits_classify(&batch, &digits);
    if (status != RELAY_OK) {
        fputs(digits_error(), stderr);
        return status;
    }
    for (int i = 0; i < IMAGES; i++)
        printf("%d%c", ((int32_t *)digits.data)[i], i % 30 == 29 ? '\n' : ' ');
    free(digits.data);
    return 0;
}
