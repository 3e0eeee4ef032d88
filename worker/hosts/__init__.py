"""Facts that each process registers about itself and its machine, and checks over all processes."""
