using System;
using System.Collections.Generic;

namespace Money
{
    public interface ITotal
    {
        long Total();
    }

    public record Entry(long Amount, string Note);

    public enum Kind { Debit, Credit }

    [Serializable]
    public class Ledger<T> : Store, IEnumerable<T>, ITotal
    {
        private readonly List<T> entries = new List<T>();

        public Ledger(string name) : base(name)
        {
        }

        public int Count => entries.Count;

        public long Total()
        {
            long Clamp(long amount) => Math.Min(amount, 1000);
            return Clamp(Sum(entries));
        }
    }

    public struct Point
    {
        public int X { get; set; }
    }
}
