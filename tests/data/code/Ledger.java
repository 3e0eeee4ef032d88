package money;

import java.util.ArrayList;
import java.util.List;

/** A ledger of entries. */
public class Ledger<T extends Entry> extends Store implements Iterable<T>, Total {
    private final List<T> entries = new ArrayList<>();

    public Ledger(String name) {
        super(name);
    }

    @Override
    public long total() {
        return entries.stream().mapToLong(Entry::amount).sum();
    }

    enum Kind {
        DEBIT,
        CREDIT
    }

    private static class Cursor {
        int at() {
            return clamp(0);
        }
    }
}

interface Total {
    long total();
}

record Entry(long amount) {
}
