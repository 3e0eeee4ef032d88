"""One query over several tools or paths."""
