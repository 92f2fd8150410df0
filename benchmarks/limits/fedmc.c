/* FedMC-ADMM (see fedjax_admm/solvers/factors/_fed_mc.py) of rank 5 with squares as regularisers: drawn
   clients one after another. One quadratic per row of a factor, then all inner steps of 16 rows at
   once.

   Input: clients, users per client, items, rounds, clients drawn per round, inner steps; beta, weight
   of the regularisers; the drawn clients (rounds, drawn); by user and by item, each: first place of
   every row (clients, rows + 1), number of ratings, other end (ratings), value (ratings); users
   (clients, users, RANK), copies and duals (clients, items, RANK), V (items, RANK), the sum of all
   uploads (items, RANK). Output: users, then V, without padding. */

#include "limits.h"

enum { RANK = 5, WIDE = 8, UPPER = RANK * (RANK + 1) / 2, PARTS = UPPER + RANK };

typedef float row __attribute__((vector_size(4 * WIDE)));
typedef float wide __attribute__((vector_size(4 * LANES)));
typedef int32_t places __attribute__((vector_size(4 * LANES)));

typedef struct {
    int32_t *first, *other; /* (clients, rows + 1), (ratings) */
    float *value;           /* (ratings) */
} Table;

static Table table(FILE *file, int clients, int rows) {
    Table made;
    made.first = take(file, (size_t)clients * (rows + 1));
    int32_t *ratings = take(file, 1);
    made.other = take(file, *ratings), made.value = take(file, *ratings);
    return made;
}

/* Rows of RANK numbers, each in a vector of WIDE, and whole blocks of them. */
static row *rows_of(FILE *file, size_t stacks, size_t rows, size_t padded) {
    float *numbers = take(file, stacks * rows * RANK), *from = numbers;
    row *made = room(sizeof(row) * stacks * padded);
    for (size_t s = 0; s < stacks; s++)
        for (size_t i = 0; i < rows; i++)
            for (int a = 0; a < RANK; a++) made[s * padded + i][a] = *from++;
    free(numbers);
    return made;
}

static void transpose(wide m[LANES]) {
    for (int step = 1; step < LANES; step *= 2) {
        places low, high;
        for (int t = 0; t < LANES; t++) {
            low[t] = t & step ? LANES + t - step : t;
            high[t] = t & step ? LANES + t : t + step;
        }
        for (int i = 0; i < LANES; i++)
            if (!(i & step)) {
                wide a = m[i], b = m[i + step];
                m[i] = __builtin_shuffle(a, b, low);
                m[i + step] = __builtin_shuffle(a, b, high);
            }
    }
}

/* All inner steps of the rows of one factor, mine <- (keep mine + pull - share gradient) times. */
static void descend(const Table *ratings, const int32_t *first, int rows, const row *other,
                    const row *pull, row *mine, float keep, float share, float times, int steps) {
    /* Places in (u, value) of the two factors of every product: the upper triangle, then b. */
    static const places left = {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5};
    static const places right = {0, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4, 3, 4, 4, 0};
    static const int place[RANK][RANK] = {
        {0, 1, 2, 3, 4}, {1, 5, 6, 7, 8}, {2, 6, 9, 10, 11}, {3, 7, 10, 12, 13}, {4, 8, 11, 13, 14}};
    for (int begin = 0; begin < rows; begin += LANES) {
        wide gram[LANES], rest[LANES]; /* triangle and b_0; b_1 to b_4, pull, mine */
        for (int t = 0; t < LANES; t++) {
            wide sum = {0};
            row side = {0};
            if (begin + t < rows)
                for (int r = first[begin + t]; r < first[begin + t + 1]; r++) {
                    row own = other[ratings->other[r]];
                    side += ratings->value[r] * own;
                    own[RANK] = ratings->value[r];
                    wide both = __builtin_shufflevector(own, own, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3,
                                                        4, 5, 6, 7);
                    sum += __builtin_shuffle(both, left) * __builtin_shuffle(both, right);
                }
            row p = pull ? pull[begin + t] : (row){0}, m = mine[begin + t];
            gram[t] = sum;
            rest[t] = (wide){side[1], side[2], side[3], side[4], p[0], p[1], p[2], p[3],
                             p[4], m[0], m[1], m[2], m[3], m[4]};
        }
        transpose(gram);
        transpose(rest);
        wide drift[RANK], u[RANK];
        for (int a = 0; a < RANK; a++) {
            u[a] = rest[9 + a];
            drift[a] = (rest[4 + a] + share * (a ? rest[a - 1] : gram[UPPER])) * times;
        }
        float kept = keep * times, part = share * times;
        for (int k = 0; k < steps; k++) {
            wide next[RANK];
            for (int a = 0; a < RANK; a++) {
                wide product = gram[place[a][0]] * u[0];
                for (int b = 1; b < RANK; b++) product += gram[place[a][b]] * u[b];
                next[a] = kept * u[a] + drift[a] - part * product;
            }
            memcpy(u, next, sizeof u);
        }
        for (int t = 0; t < LANES; t++)
            for (int a = 0; a < RANK; a++) mine[begin + t][a] = u[a][t];
    }
}

/* The Frobenius norm of W^T W. */
static float curvature(const row *w, int rows) {
    row sum[RANK] = {{0}};
    float square = 0;
    for (int i = 0; i < rows; i++)
        for (int a = 0; a < RANK; a++) sum[a] += w[i][a] * w[i];
    for (int a = 0; a < RANK; a++)
        for (int b = 0; b < RANK; b++) square += sum[a][b] * sum[a][b];
    return most(sqrtf(square), 1e-20f);
}

int main(int arguments, char **argument) {
    FILE *file = opened(arguments, argument);
    int32_t *count = take(file, 6);
    int clients = count[0], width = count[1], items = count[2], rounds = count[3];
    int drawn = count[4], steps = count[5];
    float *number = take(file, 2), beta = number[0], weight = number[1];
    size_t users_padded = (width + LANES - 1) / LANES * LANES;
    size_t items_padded = (items + LANES - 1) / LANES * LANES;
    int32_t *chosen = take(file, (size_t)rounds * drawn);
    Table by_user = table(file, clients, width), by_item = table(file, clients, items);
    row *users = rows_of(file, clients, width, users_padded);
    row *copies = rows_of(file, clients, items, items_padded);
    row *duals = rows_of(file, clients, items, items_padded);
    row *shared = rows_of(file, 1, items, items_padded), *sum = rows_of(file, 1, items, items_padded);
    row *pull = room(sizeof(row) * items_padded);
    /* A running sum in more digits does not drift. */
    double *total = room(sizeof(double) * items_padded * WIDE);
    for (size_t i = 0; i < items_padded * WIDE; i++) total[i] = ((float *)sum)[i];
    float part = 1.0f / clients, reached = 1 / (1 + weight / (clients * beta));

    double begin = now();
    for (int k = 0; k < rounds * drawn; k++) {
        int c = chosen[k];
        row *user = users + c * users_padded, *copy = copies + c * items_padded;
        row *dual = duals + c * items_padded;
        float bound = curvature(copy, items);
        descend(&by_user, by_user.first + c * (width + 1), width, copy, NULL, user, bound, 1,
                1 / (bound + weight), steps);
        bound = part * curvature(user, width);
        for (int i = 0; i < items; i++) {
            pull[i] = beta * shared[i] - dual[i];
            row left = copy[i] + dual[i] * (1 / beta);
            for (int a = 0; a < WIDE; a++) total[i * WIDE + a] -= left[a];
        }
        descend(&by_item, by_item.first + c * (items + 1), items, user, pull, copy, bound, part,
                1 / (bound + beta), steps);
        for (int i = 0; i < items; i++) {
            dual[i] += beta * (copy[i] - shared[i]);
            row sent = copy[i] + dual[i] * (1 / beta);
            for (int a = 0; a < WIDE; a++) total[i * WIDE + a] += sent[a];
        }
        if ((k + 1) % drawn == 0)
            SIMD for (int i = 0; i < items * WIDE; i++)
                ((float *)shared)[i] = (float)(total[i] / clients) * reached;
    }
    printf("%.9f\n", now() - begin);
    float *found = room(4 * RANK * ((size_t)clients * width + items)), *to = found;
    for (int c = 0; c < clients; c++)
        for (int i = 0; i < width; i++)
            for (int a = 0; a < RANK; a++) *to++ = users[c * users_padded + i][a];
    for (int i = 0; i < items; i++)
        for (int a = 0; a < RANK; a++) *to++ = shared[i][a];
    give(argument[2], found, to - found);
    return 0;
}
