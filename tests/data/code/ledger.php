<?php

namespace Money;

use Store\FileStore;
use Contracts\Total;

const LIMIT = 1000;

interface Countable
{
    public function count(): int;
}

trait Logs
{
    protected function log(string $text): void
    {
        printf($text);
    }
}

enum Kind: string
{
    case Debit = 'debit';
}

final class Ledger extends FileStore implements Total, Countable
{
    use Logs;

    private array $entries = [];

    public function add(Entry $entry): self
    {
        $this->entries[] = new Line(clamp($entry->amount));
        $this->log("added");
        return $this;
    }

    public static function open(string $path): static
    {
        return parent::load($path);
    }

    public function count(): int
    {
        return count($this->entries);
    }
}

function clamp(int $amount): int
{
    return min($amount, LIMIT);
}
