"""Documents, presentations and spreadsheets."""
