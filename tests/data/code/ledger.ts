import { Store } from "./store";

export interface Entry extends Dated {
  amount: number;
  describe(): string;
}

export type Amount = number | bigint;

export enum Kind {
  Debit = "debit",
  Credit = "credit",
}

@sealed
export abstract class Ledger<T extends Entry> extends Store implements Iterable<T> {
  private entries: T[] = [];

  constructor(private readonly name: string) {
    super(name);
  }

  abstract rate(): number;

  add(entry: T): this {
    this.entries.push(entry);
    return this;
  }
}

namespace Reports {
  export function total(ledger: Ledger<Entry>): Amount {
    return sum(ledger);
  }
}

declare function sum(ledger: Ledger<Entry>): Amount;

export const empty = (): Ledger<Entry> => new Daily("empty");
