require "json"
require_relative "store"

# A ledger of entries.
module Money
  LIMIT = 1000

  class Ledger < Store
    include Enumerable

    attr_reader :entries

    def initialize(name)
      super(name)
      @entries = []
    end

    def self.open(path)
      new(File.basename(path))
    end

    def add(amount)
      entries.push(Entry.new(clamp(amount)))
    end

    def empty?
      entries.empty?
    end
  end
end

def dump(ledger)
  JSON.generate(ledger.entries)
end
