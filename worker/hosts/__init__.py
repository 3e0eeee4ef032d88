"""What each process notes of itself and its machine, and what the notes of all of them tell."""
