"""Who may see which project, and what a project may read."""
