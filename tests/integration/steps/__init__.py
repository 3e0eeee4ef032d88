"""A worker's steps one by one, in this process, over real rows and vectors. `Site` provides them."""
