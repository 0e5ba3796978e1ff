"""The command as an operator runs it: a process, its files, its signals and its exit codes."""
