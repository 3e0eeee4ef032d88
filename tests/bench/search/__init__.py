"""How well search finds: questions with labels that were not made from our own ranking."""
