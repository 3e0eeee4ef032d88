"""Figures: `make bench` prints them; tests assert none of them."""
