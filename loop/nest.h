/* Loop nests: how a tensor program is computed, as data.
 *
 * A Nest is a tree of loops and statements over flat buffers. Each loop says how it runs, each buffer where it lives, and each
 * statement is a scalar expression (te/te.h) in which the axes are the loops' variables and a load with one index reads that position
 * of its buffer. `nest_of` makes the plain nest of a program, the primitives (primitive.h) turn a nest into another of the same
 * meaning, nest_verify says what a well-formed one is, nest_run computes it slowly, and emitters translate it and decide nothing.
 *
 *     parallel i in 0..8:
 *       acc = 0
 *       for k in 0..64:
 *         acc += x[64*i + k]
 *       out[i] = acc
 *
 * A load of bytes may give four from a position on as one word (nest_word), side by side or some apart: words of neighbouring positions
 * share bytes, as windows do that slide over a row.
 *
 * NEST_MATRIX stores sums of products of words, up to 32 rows and columns of them at a time, which registers of matrices may compute.
 *
 * A loop runs at least once. All iterations of an unrolled, vector or parallel loop may run at once: none needs what another does.
 * Parallel loops stand in the root, and alone within each other: together they are one loop over all of their iterations.
 *
 * On a GPU each node of the root is a kernel, and begins when the one before it has ended. Its outermost loops, alone within each other,
 * are the grid and in it the threads of a block, up to three of each, the innermost the one whose numbers lie side by side:
 *
 *     grid b in 0..4:
 *       shared tile: float32[32]
 *       threads t in 0..256:
 *         let i in 0..1000 = 256*b + t, where i < 1000:
 *           ...
 *
 * What tensor cores do is done by the threads of a warp together. A matrix has 8 rows of 16 bytes. NEST_FETCH brings some: thread t says
 * where row t % 8 of matrix t / 8 begins, and gets of each matrix word t % 4 of row t / 4; turned, where elements have 16 bits, the two
 * elements of column t / 4 in rows 2 * (t % 4) and the next. NEST_TILE adds 16 rows times 8 columns: the words of the first factor are those
 * of the upper and lower left matrix of the rows, then of the right ones; of the second factor, whose columns are rows of matrices, the left
 * and the right one; the thread has of the sums rows t / 4 and 8 more, of each columns 2 * (t % 4) and the next.
 *
 * Four warps together are a group, the first of them a multiple of four. NEST_GROUP adds 64 rows times as many columns, straight from shared
 * memory: the elements of 16 bytes of eight rows, one behind the other, are a matrix there, and along the folds the next one begins `pitch`
 * elements further on. Warp w of the group has rows 16 * w and the 15 behind, its threads of every 8 columns what they have of a tile. What
 * is read so has been copied, and a NEST_WAIT that is `shown` stood between.
 *
 * Boxes of a tensor come by themselves: one thread asks (NEST_BULK) and all go on. What of a box lies outside of the tensor is 0. Its first
 * axis lies side by side and has 128 bytes, a row in shared memory; rows lie one behind another, and part p of 16 bytes of row r stands where
 * part p ^ r % 8 would: so the same part of eight rows lies in all banks. A group reads such factors where they are `boxed`. Boxes count at a
 * gate, 8 bytes of shared memory that NEST_OPEN makes for so many boxes a turn. Behind NEST_PASS those of the turn are there for each thread
 * that came; the gate's next turn begins then.
 *
 * Blocks know nothing of each other. The threads of one go through the same statements, each for itself, and meet at barriers; what one
 * of them writes the others see behind the next barrier. A bound loop is no loop: its variable has one value. Everything lies in the
 * nest's arena. */
#ifndef LOOP_NEST_H
#define LOOP_NEST_H

#include "te/te.h"

typedef struct NestNode NestNode;
typedef Vec(NestNode *) NestBlock;

typedef enum NestPlace {
    NEST_GIVEN, /* an input or a result: memory of the caller */
    NEST_CONSTANT, /* numbers that are known when code is made */
    NEST_SCRATCH, /* a tensor between stages */
    NEST_LOCAL, /* memory that every iteration of `home` has for itself */
    NEST_REGISTER, /* the same in registers: positions are known when code is made */
    NEST_SHARED, /* memory that the threads of a block share; its home is the innermost loop of the grid */
} NestPlace;

typedef struct NestBuffer {
    const char *name;
    DType dtype;
    NestPlace place;
    int64_t size; /* in elements */
    int rank; /* of a tensor: what indices of padded and scattered loads mean */
    const int64_t *shape;
    const TeProgram *made; /* of a constant buffer: what computes it */
    const Tensor **from; /* of these; both live as long as the nest's arena */
    NestNode *home; /* of local and register buffers: the loop in which it exists; NULL: the nest */
    bool boxed; /* boxes come here: it begins where their pattern does */
} NestBuffer;

typedef enum NestWay {
    NEST_SERIAL,
    NEST_UNROLLED,
    NEST_VECTOR,
    NEST_PARALLEL,
    NEST_GRID, /* the blocks of a kernel */
    NEST_THREADS, /* the threads of a block */
    NEST_BOUND, /* the variable is `value`, of 0..extent; where it is not less than the extent the body is left out */
} NestWay;

typedef enum NestKind {
    NEST_LOOP, /* var in 0..extent: body */
    NEST_STORE, /* buffer[at] = value */
    NEST_FOLD, /* buffer[at] = fold(buffer[at], value) */
    NEST_IF, /* when `value` is true: body */
    NEST_PRODUCT, /* a matrix product by the library */
    NEST_MATRIX, /* buffer[at…] = `matrix` of bytes, from the words on that `value` and `number` load */
    NEST_BARRIER, /* all threads of the block come here before one goes on */
    NEST_SHUFFLE, /* buffer[at] = value of the thread whose number in the warp differs in the bits of `lanes` */
    NEST_FETCH, /* buffer[at…] = words of the warp's matrices in shared memory, `lanes` of them; `value` loads a row's first element */
    NEST_TILE, /* buffer[at…] += product of the warp's fragments, whose first words `value` and `number` load */
    NEST_GROUP, /* buffer[at…] += product of 64 rows and `lanes` columns over `folds`; `value` and `number` load their first elements */
    NEST_PAIR, /* buffer[at] = a word of two floats of 16 bits: `value`, and above it `number` */
    NEST_WAIT, /* the thread's copies so far are a group; all but the last `lanes` groups have arrived behind it */
    NEST_OPEN, /* buffer[at] is a gate for `lanes` boxes a turn */
    NEST_BULK, /* buffer[at…] = `box`, which comes by itself and counts at the gate gate[number] */
    NEST_PASS, /* the threads wait until the boxes of turn `value` of the gate buffer[at] have come */
    NEST_NEAR, /* what lies at buffer[at] is asked for, which may be anywhere, and comes into the first cache meanwhile */
} NestKind;

/* Bytes of a word, and how far they may be apart. */
#define NEST_WORD 4
#define NEST_APART_MOST 16
/* Threads that run together and can read each other's registers; all that a block may have, and of its memory. */
#define NEST_WARP 32
#define NEST_THREADS_MOST 1024
#define NEST_SHARED_MOST ((size_t)99 << 10)
/* Of a tile of sums, and the words that each thread has of it and of its factors; a row of a matrix. */
#define NEST_TILE_ROWS 16
#define NEST_TILE_COLUMNS 8
#define NEST_TILE_SUMS 4
#define NEST_TILE_FIRST 4
#define NEST_TILE_SECOND 2
#define NEST_ROW_BYTES 16
/* Of a group: its threads and rows, and the most columns; the bytes of folds that are added at once. */
#define NEST_GROUP_THREADS 128
#define NEST_GROUP_ROWS 64
#define NEST_GROUP_COLUMNS_MOST 256
#define NEST_GROUP_BYTES 32
/* Of a box: a row's bytes, the most of any other axis and all axes; where its pattern begins, in bytes; the steps of its tensor's axes. */
#define NEST_BOX_ROW 128
#define NEST_BOX_MOST 256
#define NEST_BOX_AXES 5
#define NEST_BOX_ALIGN 1024
#define NEST_STEP_MOST ((int64_t)1 << 37)

/* C[m, n] = sum over k of A[m, k] B[k, n], `batch` times: a side's extent and its steps in elements. */
typedef struct NestSide {
    int64_t extent, a, b, c;
} NestSide;

typedef struct NestProduct {
    NestSide batch, m, n, k;
    int a, b; /* buffers */
    int64_t a_from, b_from;
    Span span; /* of what is computed, for readers */
} NestProduct;

/* Sums of products of bytes, four in a word: row i and column j at i * row_step + j are the sum over all turns of the axes and over words k of
 *     first[turns of the axes + i * first_row + k] . second[turns + k * second_word + j / 16 * second_block + j % 16].
 * Rows and columns are 16 or 32, and no step is below 0. */
#define NEST_MATRIX_SIDE 16
#define NEST_MATRIX_AXES 3
typedef struct NestMatrix {
    int rows, columns;
    DType factors[2]; /* their bytes */
    int64_t row_step, first_row, second_word, second_block;
    int n; /* axes, outermost first */
    struct {
        int64_t extent, first, second;
    } axis[NEST_MATRIX_AXES];
} NestMatrix;

/* Elements `offset` + position * step of a buffer, along each axis from `first` on `length` of its positions 0..extent. The first axis has
 * neighbours, and is the innermost in shared memory. */
typedef struct NestBox {
    int from;
    int64_t offset;
    int n;
    struct {
        int64_t extent, step;
        int length;
        Te *first;
    } axis[NEST_BOX_AXES];
} NestBox;

struct NestNode {
    NestKind kind;
    NestNode *parent; /* NULL: the root block */
    NestBlock body; /* of loops and conditions */
    /* loops */
    NestWay way;
    int var;
    int64_t extent;
    int lanes; /* of a vector loop: the register's, at least the extent; of a shuffle; matrices; groups of copies */
    bool apart; /* code of its own, whose registers are not crowded out by what stands around it */
    bool across; /* PARALLEL, of the root: threads share what stands in it, for all iterations */
    /* statements */
    int buffer;
    Te *at; /* a position, int64 */
    Te *value;
    TeReduce fold;
    /* FOLD in any order gives the same: of an extreme a NaN stays; of positions the number tells equals apart, 0 is the first one, and
     * below 0 is none. */
    bool any_order;
    bool atomic; /* FOLD: other threads may fold into the same place meanwhile */
    int64_t ahead; /* FOLD of two loads' product: bytes by which its vectors are fetched ahead */
    bool copies; /* STORE of what lies elsewhere to shared memory: it arrives behind a NEST_WAIT */
    bool turned; /* FETCH */
    bool shown; /* WAIT: to NEST_GROUP too */
    int64_t folds, pitch[2]; /* GROUP: all folds; from a matrix of either factor to the next one */
    bool boxed; /* GROUP: both factors lie as boxes, and have no pitch */
    NestBox *box; /* BULK */
    NestMatrix *matrix; /* MATRIX */
    int gate; /* BULK: its buffer */
    DType factors[2]; /* TILE: their elements, which lie in 32-bit words */
    int winner; /* FOLD of positions: the buffer of the value that won; `buffer` has its number, from -1 */
    Te *number; /* and the number of this candidate; TILE: the second factor; PAIR: the second half */
    NestProduct product;
};

typedef struct Nest {
    TeBuilder te; /* makes its expressions */
    Arena *arena;
    Vec(NestBuffer) buffers; /* first the program's tensors by their ids */
    Vec(const char *) vars; /* names, for readers */
    NestBlock root;
    int n_inputs;
    const TeProgram *p; /* that it computes: its outputs are the buffers of the results */
} Nest;

/* ---- linear positions ----------------------------------------------------------------------------------------------- */

#define NEST_TERMS_MOST 32

/* c plus multiples of variables, no variable twice, none times zero. */
typedef struct NestLinear {
    int64_t c;
    int n;
    struct {
        int var;
        int64_t by;
    } term[NEST_TERMS_MOST];
} NestLinear;

/* Whether an index expression is linear. */
bool nest_linear(const Te *e, NestLinear *out);
int64_t nest_coefficient(const NestLinear *l, int var);
/* l += by * var; false when there is no room. */
bool nest_add_term(NestLinear *l, int var, int64_t by);
Te *nest_position(Nest *n, const NestLinear *l);

/* ---- making ---------------------------------------------------------------------------------------------------------- */

/* Who computes some stages otherwise than by plain loops. */
typedef struct NestParts {
    bool loops; /* each part is a loop, if only of one turn */
    /* Puts what computes the stage behind the others of the root; false: plain loops do. */
    bool (*build)(void *data, Nest *n, int stage); /* NULL: nobody */
    void *data;
} NestParts;

/* The plain nest of the program: for each stage its loops in the order of its axes, where `parts` (NULL: none) do not build it. */
Nest *nest_of(Ctx *cx, Arena *arena, const TeProgram *p, const NestParts *parts);
/* A stage's expression with values for its axes; loads of the tensor `instead` (-1: none) are `with`. */
Te *nest_expression(Nest *n, const TeProgram *p, int stage, NestLinear *axes, int instead,
                    Te *with);
/* Where the buffer of a scattering stage takes the value of these axes. */
Te *nest_scatter_place(Nest *n, const TeProgram *p, int buffer, NestLinear *axes);
/* What the library multiplies, as a statement. */
NestNode *nest_product(Nest *n, int buffer, const NestProduct *product);
/* Sums of a matrix. */
NestNode *nest_matrix(Nest *n, int buffer, Te *at, const NestMatrix *m, Te *first, Te *second);
/* How many elements from the first to the last it touches: of the first factor, of the second, of the sums. */
void nest_matrix_spans(const NestMatrix *m, int64_t out[3]);
int nest_var(Nest *n, const char *name);
int nest_buffer(Nest *n, NestBuffer b);
NestNode *nest_loop(Nest *n, const char *name, int64_t extent);
NestNode *nest_store(Nest *n, int buffer, Te *at, Te *value);
NestNode *nest_fold(Nest *n, TeReduce fold, int buffer, Te *at, Te *value);
/* Puts a node behind the others of `parent` (NULL: the root); or at a place. */
void nest_append(Nest *n, NestNode *parent, NestNode *child);
void nest_insert(Nest *n, NestNode *parent, size_t at, NestNode *child);
void nest_remove(Nest *n, NestNode *child);
size_t nest_index(Nest *n, const NestNode *child);
NestBlock *nest_block(Nest *n, NestNode *parent);
/* A condition: the value; that what lies there is NaN. */
NestNode *nest_if(Nest *n, Te *value);
NestNode *nest_if_nan(Nest *n, int buffer, Te *at);
/* All threads of a block meet; those of a warp exchange values. */
NestNode *nest_barrier(Nest *n);
NestNode *nest_shuffle(Nest *n, int buffer, Te *at, int lanes, Te *value);
/* Words of so many matrices come to registers, whose rows begin where the load says; tiles of those are added. */
NestNode *nest_fetch(Nest *n, int buffer, Te *at, int matrices, Te *row);
NestNode *nest_tile(Nest *n, int buffer, Te *at, const DType factors[2], Te *first, Te *second);
/* The product of a group, which has `columns` and `folds`; their matrices are so far apart. */
typedef struct NestGroup {
    int columns;
    int64_t folds, pitch[2];
    DType factors[2];
    bool boxed;
} NestGroup;
NestNode *nest_group(Nest *n, int buffer, Te *at, const NestGroup *g, Te *first, Te *second);
NestNode *nest_pair(Nest *n, int buffer, Te *at, Te *low, Te *high);
/* Whether tensor cores multiply such elements; how many of them stand in a word. */
bool nest_has_tile(const DType factors[2], DType sums);
int nest_in_word(DType factor);
NestNode *nest_wait(Nest *n, int groups);
/* A gate of 8 bytes, where so many boxes count in each turn; a box that comes; all threads wait for those of the turn. */
NestNode *nest_open(Nest *n, int gates, Te *at, int boxes);
NestNode *nest_bulk(Nest *n, int buffer, Te *at, const NestBox *box, int gates, Te *gate);
NestNode *nest_pass(Nest *n, int gates, Te *at, Te *turn);
/* The elements of a box. */
int64_t nest_box_size(const NestBox *box);
/* The loop's variable is the value. */
void nest_bind(NestNode *loop, Te *value);
/* What will be read there is asked for. */
NestNode *nest_near(Nest *n, int buffer, Te *at);
/* Whether the value may not be less than the extent, so that somebody must look. */
bool nest_may_leave(const NestNode *bound);
/* The least and the greatest value of an index expression in the loops around the node; false where nothing is known. */
bool nest_bounds(const Te *e, const NestNode *node, int64_t *low, int64_t *high);
/* A load of a buffer's position; of four bytes from there on as a word, each so far behind the one before, at most NEST_APART_MOST; and what
 * another load reads, from another place. */
Te *nest_load(Nest *n, int buffer, Te *at);
Te *nest_word(Nest *n, int buffer, Te *at, int apart);
Te *nest_load_like(Nest *n, const Te *load, int buffer, Te *at);
/* The node with all below it; loops get variables, and what lives inside of it buffers of its own. */
NestNode *nest_copy(Nest *n, const NestNode *node);
/* Puts expressions in place of variables below the node, itself included. */
void nest_substitute(Nest *n, NestNode *node, int var, const NestLinear *with);
/* Calls `found` with the node and each below it. */
void nest_each(NestNode *node, void (*found)(void *data, NestNode *node), void *data);
bool nest_holds(const NestNode *outer, const NestNode *inner);
bool nest_is_position(TeReduce fold);
/* The loop that stands alone in the loop; NULL: none does. */
NestNode *nest_only_loop(const NestNode *loop);
/* Whether threads share what stands in the parallel loop; and the turns that they share, of which one may run beside any other. */
bool nest_shares(const NestNode *loop);
int64_t nest_turns(const NestNode *loop);
/* What a fold starts from. */
Te *nest_start_of(Nest *n, TeReduce fold, DType dtype);

/* ---- looking ----------------------------------------------------------------------------------------------------------- */

void nest_print(Buf *out, const Nest *n);
/* The same with the names that tensors have where they come from, and a word with each node before its line is written. */
typedef struct NestReader {
    const char *const *names; /* by tensor of the program; NULL: x0, t1 and so on */
    int n_names;
    void (*comes)(void *data, const NestNode *node); /* NULL: nobody listens */
    void *data;
} NestReader;
void nest_print_for(Buf *out, const Nest *n, const NestReader *reader);
/* What is wrong with the nest; NULL when it is well formed. */
const char *nest_verify(Nest *n);
/* Runs the nest on the memory of its given and scratch buffers, by id: the reference for every emitter. False where a value cannot be
 * computed. */
bool nest_run(Nest *n, char *const *memory);
/* The same, and what went wrong; NULL: nothing. Kernels of a GPU run block after block, their threads in step: two threads that touch the
 * same place without a barrier between them, one of them writing, are a race however it ends. */
const char *nest_fault(Nest *n, char *const *memory);

#endif
