// Package ledger keeps entries.
package ledger

import (
	"encoding/json"
	"fmt"
)

// Limit is the largest amount.
const Limit = 1000

var count int

// Entry is one movement of money.
type Entry struct {
	Amount int
	Note   string
}

type Store interface {
	fmt.Stringer
	Add(amount int) (*Entry, error)
}

type Ledger[T any] struct {
	Base
	entries []T
}

type Amount int

// Add appends an entry.
func (l *Ledger[T]) Add(amount int) *Entry {
	entry := &Entry{Amount: clamp(amount)}
	return entry
}

func clamp(amount int) int {
	if amount > Limit {
		return Limit
	}
	return amount
}

func Dump(l Ledger[Entry]) ([]byte, error) {
	return json.Marshal(l)
}
