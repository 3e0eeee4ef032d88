use std::collections::{BTreeMap, HashMap};
use std::fmt;

const LIMIT: i64 = 1_000;

/// One movement of money.
#[derive(Debug, Clone)]
pub struct Entry {
    pub amount: i64,
}

pub enum Kind {
    Debit,
    Credit,
}

pub trait Total: fmt::Debug {
    fn total(&self) -> i64;
}

pub struct Ledger<T> {
    entries: Vec<T>,
    names: HashMap<String, BTreeMap<i64, T>>,
}

impl<T> Ledger<T> {
    /// An empty ledger.
    pub fn new() -> Self {
        Ledger { entries: Vec::new(), names: HashMap::new() }
    }
}

impl Total for Ledger<Entry> {
    fn total(&self) -> i64 {
        self.entries.iter().map(|entry| clamp(entry.amount)).sum()
    }
}

macro_rules! entry {
    ($amount:expr) => {
        Entry { amount: $amount }
    };
}

fn clamp(amount: i64) -> i64 {
    amount.min(LIMIT)
}

mod tests {
    fn adds() {
        println!("{:?}", super::clamp(1));
    }
}
