#include <stdio.h>
#include "store.h"

#define LIMIT 1000
#define MAX(a, b) ((a) > (b) ? (a) : (b))

struct entry {
    long amount;
    struct entry *next;
};

typedef struct ledger {
    struct entry *first;
} ledger;

typedef unsigned long amount_t;

enum kind { DEBIT, CREDIT };

static long clamp(long amount) {
    return amount > LIMIT ? LIMIT : amount;
}

/* The sum of all amounts. */
long ledger_total(const ledger *self) {
    long total = 0;
    for (struct entry *at = self->first; at; at = at->next)
        total += clamp(at->amount);
    return total;
}

char *ledger_dump(ledger *self)
{
    printf("%ld\n", ledger_total(self));
    return store_name(self);
}
