/* Convolutions over planes (NCHW data, OIHW weights) or rows (NCW, OIW) that are computed otherwise than by the loops of their sum.
 *
 * A builder appends what computes the convolution to the root of the nest, with what is done with its result: the mapping stage behind
 * it (`Tail`) is computed where the sums are stored. Weights that are known are laid out once, when code is made. */
#ifndef SCHED_CONV_H
#define SCHED_CONV_H

#include "sched/strategy.h"
#include "sched/words.h"

/* One axis of the image. */
typedef struct ConvAxis {
    int64_t in, out, taps, stride, dilation,
        before; /* `before`: zeros in front of the first element */
} ConvAxis;

/* Rows of a window. */
typedef struct Taps {
    int64_t first, count;
} Taps;

typedef struct Conv {
    int stage, data, weight; /* ids; the stage's is n_inputs + stage; no weight: a pool */
    int rank; /* of the data: 4, or 3 where images are rows */
    DType dtype; /* of the sums */
    DType of_data, of_weight;
    TeReduce fold;
    Te *outside; /* a constant; NULL: 0 */
    int64_t n, groups, ic, oc; /* channels of a group */
    /* Channels of the data and of the result that lie side by side, "NCHW16c"; 1: each is a plane. */
    int64_t in_block, out_block;
    bool packed; /* the weights lie in blocks of both, "OIHW16i16o" */
    ConvAxis y, x;
} Conv;

bool is_float32(DType t);
bool conv_of(const TeProgram *p, int stage, Conv *out);
/* The same of a fold of each channel's windows on their own, as if they were groups with weights of 1. */
bool pool_of(const TeProgram *p, int stage, Conv *out);

/* Whether threads had better go through rows of their own, each through all channels, so that it reads what it made before: not where those
 * are few, since what stands around its rows is of others. */
bool conv_by_rows(const Machine *m, const Conv *c);

/* Whether a window of one element goes over a plane as over one row. */
bool conv_is_one_row(const Conv *c);

/* ---- parts of nests ---------------------------------------------------------------------------------------------------- */

/* Whole blocks of an extent are one loop, what is left over stands behind it: where the code of each goes, from where it counts, and
 * how much of the extent it is. */
typedef struct Piece {
    NestNode *in;
    NestLinear from;
    int64_t size;
} Piece;

int pieces_of(Nest *n, NestNode *parent, const char *name, int64_t extent, int64_t block,
              Piece out[2]);
NestNode *loop_in(Nest *n, NestNode *parent, const char *name, int64_t extent);
NestNode *unrolled_in(Nest *n, NestNode *parent, const char *name, int64_t extent);
NestNode *vector_in(Nest *n, NestNode *parent, int64_t extent, int lanes);
/* The loop over the images, none for one; and its value. */
NestNode *images_in(Nest *n, const Conv *c, NestLinear *image);
/* by * l; l / by, of which all terms are multiples; and a sum. */
NestLinear linear_times(const NestLinear *l, int64_t by);
NestLinear linear_over(const NestLinear *l, int64_t by);
void linear_add(NestLinear *to, const NestLinear *l, int64_t by);
int scratch_of(Nest *n, const char *name, DType dtype, int64_t size);

/* How many rows of results from `y` on, one below the other, read the same rows of the window outside the border: these, or one. */
int64_t conv_rows_alike(const ConvAxis *a, int64_t y, Taps *taps);
/* How many rows of windows all results read together: fewer than there are where so many lie in the border that leaving them out pays. */
int64_t conv_taps_read(const Conv *c);

/* A register tile of products: rows by vectors of
 *     acc[row, vector, lane] = sum over k of a[a_at + row * a_row + k·] * b[b_at + vector * b_vector + k· + lane]
 * of elements, or of words (words.h); then sums start from start[start_at + vector * lanes + lane]. */
#define TILE_AXES_MOST 4

typedef struct Tile {
    int64_t rows, vectors;
    int lanes, width; /* lanes that count; 0: all */
    int a, b; /* buffers */
    Words words;
    int start; /* where words are flipped */
    NestLinear a_at, b_at, start_at;
    int64_t a_row, b_vector;
    bool near; /* rows are asked for a turn before, as another thread may have made them */
    int n_axes; /* of the sum, outermost first */
    struct {
        int64_t extent, a, b;
    } axis[TILE_AXES_MOST];
} Tile;

/* Puts the tile into the loop, which stands apart; gives the register buffer, in which (row, vector, lane) stand side by side. */
int tile_in(Nest *n, NestNode *loop, const Tile *t);
/* Words that registers of matrices multiply, whose bytes have the signs that they have. */
extern const Words matrix_words;
/* Sides of matrices that an extent fills; the last one may not be full. */
int64_t matrix_sides(int64_t extent);
/* Whether bytes of these types are multiplied so. */
bool matrix_takes(const Sched *s, DType sum, DType first, DType second);
/* The same tile of bytes by registers of matrices: up to two sides of rows and two vectors, of which all rows of whole sides are read, and whole
 * sides of turns of the last axis. Gives a buffer in memory in which the sums lie in the same order. */
int matrix_in(Nest *n, NestNode *home, const Tile *t, const DType factors[2]);
/* What such tiles cost for all rows and vectors, with so many turns of sums, in vector operations. */
double matrix_tiles_cost(int64_t rows, int64_t columns, int64_t turns);

/* Stores what the tile has summed up: vector v of row i at to + i * row_step + v * vector_step. */
void store_tile(Nest *n, NestNode *loop, const Tile *t, int acc, int buffer, const NestLinear *to,
                int64_t row_step, int64_t vector_step);
/* Rows and vectors of tiles that fill the registers and waste little of `rows`. All vectors of all turns are `bytes`: more than the second
 * cache are not there from one time to the next. A tile's are gone over for all rows `times` before those of the next. */
void tile_size(const Machine *m, int64_t rows, int64_t blocks, int64_t bytes, int64_t times,
               int64_t *height, int64_t *vectors);
/* Elements from row to row, such that the rows of a tile do not all lie in the same few sets of the first cache. */
int64_t spread_pitch(int64_t pitch);
/* What a turn of the sum costs for all rows and vectors, in vector operations. */
double tile_cost(const Machine *m, int64_t rows, int64_t blocks);

/* The data of a convolution, or a copy of it with its border, small integers in words of neighbouring channels: so many turns of them, from
 * row to row and from turn to turn; behind the last one lies room for so many words more. */
typedef struct ConvData {
    int buffer;
    int64_t pitch, plane;
} ConvData;

ConvData lay_out_data(Sched *s, const Conv *c, const Words *w, int64_t turns, int64_t room);

/* Images that lie as [outer][height][width][inner], with a border around the elements of the axes. */
typedef struct Bordered {
    int64_t outer, inner, height, width;
    const ConvAxis *y, *x;
    double zero; /* what stands for it */
} Bordered;

/* Parts of the root that put zeros into the border. */
void zero_border(Sched *s, int buffer, Bordered b);

/* Stores the result at (image, channel, row, column), or what its tail makes of it; where channels lie in blocks at (image, block, row,
 * column, channel of the block). */
enum { CONV_AXES = 5 };
NestNode *store_result(Sched *s, const Conv *c, const Tail *t, NestLinear at[CONV_AXES], Te *value);

/* Columns of a tile that are turned in registers at a time. */
#define TURNED_AT_ONCE 4

/* Stores rows of results that lie as [row][column][lane]: result (channel, row, column) of the convolution or what its tail makes of
 * it, turned in registers where channels are planes. */
typedef struct Turned {
    int buffer;
    NestLinear at; /* of row 0, column 0, lane 0 */
    int64_t row_step; /* in the buffer; columns are `lanes` apart */
    int64_t channels; /* that count, at most `lanes` */
    NestLinear channel, n, y, x; /* of the result, of row 0, column 0, lane 0 */
    int64_t rows, columns;
} Turned;

void store_turned(Sched *s, NestNode *parent, const Conv *c, const Tail *t, const Turned *from);

#endif
