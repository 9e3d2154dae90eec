"""Every metric of every task, with how it is computed."""
