/* FedMC-ADMM (see fedjax_admm/solvers/factors/_fed_mc.py) of rank 5 with squares as regularisers: drawn
   clients one after another, 16 rows of a factor at once, with a lane for each from the first rating to
   the last inner step. Before the clock starts, the rows of every client are sorted by how many ratings
   they have, so that those of 16 end together (ratings that fill up have the value and the factor 0).

   Input: clients, users per client, items, rounds, clients drawn per round, inner steps; beta, weight
   of the regularisers; the drawn clients (rounds, drawn); by user and by item, each: first place of
   every row (clients, rows + 1), number of ratings, other end (ratings), value (ratings); users
   (clients, users, RANK), copies and duals (clients, items, RANK), V (items, RANK), the sum of all
   uploads (items, RANK). Output: users, then V. */

#include "limits.h"

enum { RANK = 5, UPPER = RANK * (RANK + 1) / 2 };

typedef float wide __attribute__((vector_size(4 * LANES), may_alias));

/* The ratings of a client by rows of one factor: blocks of LANES rows, one rating of each at a time. */
typedef struct {
    int blocks;
    int32_t *row, *begin; /* (blocks * LANES), (blocks + 1) */
    int32_t *other;       /* (begin[blocks] * LANES) */
    float *value;         /* likewise */
} Table;

/* Factors are (RANK, room): entries of rows, then a row of zeros, then rows that nobody reads. */
static size_t padded(size_t rows) { return (rows + LANES - 1) / LANES * LANES; }
static size_t room_of(size_t rows) { return padded(rows) + 2 * LANES; }

static void sorted(Table *made, const int32_t *first, const int32_t *other, const float *value,
                   int rows, int others) {
    int most = 0, place = 0;
    for (int i = 0; i < rows; i++)
        if (first[i + 1] - first[i] > most) most = first[i + 1] - first[i];
    made->blocks = padded(rows) / LANES;
    made->row = room(4 * padded(rows)), made->begin = room(4 * (made->blocks + 1));
    for (int n = most; n >= 0; n--)
        for (int i = 0; i < rows; i++)
            if (first[i + 1] - first[i] == n) made->row[place++] = i;
    for (int t = 0; place < made->blocks * LANES; t++) made->row[place++] = padded(rows) + LANES + t;
    for (int b = 0; b < made->blocks; b++) {
        int i = made->row[b * LANES];
        made->begin[b + 1] = made->begin[b] + first[i + 1] - first[i];
    }
    size_t all = (size_t)made->begin[made->blocks] * LANES;
    made->other = room(4 * all), made->value = room(4 * all);
    for (int b = 0; b < made->blocks; b++)
        for (int r = made->begin[b]; r < made->begin[b + 1]; r++)
            for (int t = 0; t < LANES; t++) {
                int i = made->row[b * LANES + t];
                int at = i < rows ? first[i] + r - made->begin[b] : 0, there = i < rows && at < first[i + 1];
                made->other[r * LANES + t] = there ? other[at] : (int)padded(others);
                made->value[r * LANES + t] = there ? value[at] : 0;
            }
}

static Table *tables(FILE *file, int clients, int rows, int others) {
    int32_t *first = take(file, (size_t)clients * (rows + 1)), *ratings = take(file, 1);
    int32_t *other = take(file, *ratings);
    float *value = take(file, *ratings);
    Table *made = room(sizeof(Table) * clients);
    for (int c = 0; c < clients; c++)
        sorted(&made[c], first + (size_t)c * (rows + 1), other, value, rows, others);
    return made;
}

static float *factors(FILE *file, size_t stacks, size_t rows) {
    float *numbers = take(file, stacks * rows * RANK), *from = numbers;
    float *made = room(4 * stacks * RANK * room_of(rows));
    for (size_t s = 0; s < stacks; s++)
        for (size_t i = 0; i < rows; i++)
            for (int a = 0; a < RANK; a++) made[(s * RANK + a) * room_of(rows) + i] = *from++;
    free(numbers);
    return made;
}

static inline wide gathered(const float *from, const int32_t *places) {
    wide found;
    EACH(t) found[t] = from[places[t]];
    return found;
}

/* All inner steps of the rows of one factor, mine <- (keep mine + pull - share gradient) times. */
static void descend(const Table *ratings, const float *restrict other, size_t apart,
                    const float *restrict pull, float *restrict mine, size_t own, float keep,
                    float share, float times, int steps) {
    float kept = keep * times, part = share * times;
    for (int b = 0; b < ratings->blocks; b++) {
        wide gram[UPPER] = {{0}}, side[RANK] = {{0}}, u[RANK], drift[RANK];
        for (int r = ratings->begin[b]; r < ratings->begin[b + 1]; r++) {
            wide value = *(wide *)(ratings->value + r * LANES), row[RANK];
#pragma GCC unroll 5
            for (int a = 0; a < RANK; a++) row[a] = gathered(other + a * apart, ratings->other + r * LANES);
            int k = 0;
#pragma GCC unroll 5
            for (int a = 0; a < RANK; a++) {
                side[a] += value * row[a];
#pragma GCC unroll 5
                for (int c = a; c < RANK; c++) gram[k++] += row[a] * row[c];
            }
        }
        const int32_t *rows = ratings->row + b * LANES;
        for (int a = 0; a < RANK; a++) {
            u[a] = gathered(mine + a * own, rows);
            drift[a] = part * side[a];
            if (pull) drift[a] += times * gathered(pull + a * own, rows);
        }
        for (int k = 0; k < steps; k++) {
            wide next[RANK];
#pragma GCC unroll 5
            for (int a = 0; a < RANK; a++) {
                wide product = {0};
#pragma GCC unroll 5
                for (int c = 0; c < RANK; c++) {
                    int low = a < c ? a : c, high = a < c ? c : a;
                    product += gram[low * RANK - low * (low - 1) / 2 + high - low] * u[c];
                }
                next[a] = kept * u[a] + drift[a] - part * product;
            }
            memcpy(u, next, sizeof u);
        }
        for (int a = 0; a < RANK; a++)
            for (int t = 0; t < LANES; t++) mine[a * own + rows[t]] = u[a][t];
    }
}

/* The Frobenius norm of W^T W. */
static float curvature(const float *w, size_t rows) {
    wide sum[UPPER] = {{0}};
    for (size_t i = 0; i < padded(rows); i += LANES) {
        int k = 0;
#pragma GCC unroll 5
        for (int a = 0; a < RANK; a++)
#pragma GCC unroll 5
            for (int c = a; c < RANK; c++)
                sum[k++] += *(wide *)(w + a * room_of(rows) + i) * *(wide *)(w + c * room_of(rows) + i);
    }
    float square = 0;
    int k = 0;
    for (int a = 0; a < RANK; a++)
        for (int c = a; c < RANK; c++) {
            float one = 0;
            for (int t = 0; t < LANES; t++) one += sum[k][t];
            square += (a == c ? 1 : 2) * one * one, k++;
        }
    return most(sqrtf(square), 1e-20f);
}

int main(int arguments, char **argument) {
    FILE *file = opened(arguments, argument);
    int32_t *count = take(file, 6);
    int clients = count[0], width = count[1], items = count[2], rounds = count[3];
    int drawn = count[4], steps = count[5];
    float *number = take(file, 2), beta = number[0], weight = number[1];
    int32_t *chosen = take(file, (size_t)rounds * drawn);
    Table *by_user = tables(file, clients, width, items);
    Table *by_item = tables(file, clients, items, width);
    size_t of_user = room_of(width), of_item = room_of(items), all = RANK * of_item;
    float *users = factors(file, clients, width), *copies = factors(file, clients, items);
    float *duals = factors(file, clients, items), *shared = factors(file, 1, items);
    float *sum = factors(file, 1, items), *pull = room(4 * all);
    /* A running sum in more digits does not drift. */
    double *total = room(sizeof(double) * all);
    for (size_t i = 0; i < all; i++) total[i] = sum[i];
    float part = 1.0f / clients, reached = 1 / (1 + weight / (clients * beta));

    double begin = now();
    for (int k = 0; k < rounds * drawn; k++) {
        int c = chosen[k];
        float *user = users + c * RANK * of_user, *copy = copies + c * all, *dual = duals + c * all;
        float bound = curvature(copy, items);
        descend(&by_user[c], copy, of_item, NULL, user, of_user, bound, 1, 1 / (bound + weight), steps);
        bound = part * curvature(user, width);
        SIMD for (size_t i = 0; i < all; i++) {
            pull[i] = beta * shared[i] - dual[i];
            total[i] -= copy[i] + dual[i] * (1 / beta);
        }
        descend(&by_item[c], user, of_user, pull, copy, of_item, bound, part, 1 / (bound + beta), steps);
        SIMD for (size_t i = 0; i < all; i++) {
            dual[i] += beta * (copy[i] - shared[i]);
            total[i] += copy[i] + dual[i] * (1 / beta);
        }
        if ((k + 1) % drawn == 0)
            SIMD for (size_t i = 0; i < all; i++) shared[i] = (float)(total[i] / clients) * reached;
    }
    printf("%.9f\n", now() - begin);
    float *found = room(4 * RANK * ((size_t)clients * width + items)), *to = found;
    for (int c = 0; c < clients; c++)
        for (int i = 0; i < width; i++)
            for (int a = 0; a < RANK; a++) *to++ = users[(c * RANK + a) * of_user + i];
    for (int i = 0; i < items; i++)
        for (int a = 0; a < RANK; a++) *to++ = shared[a * of_item + i];
    give(argument[2], found, to - found);
    return 0;
}
