"""For frameworks that people use already. Each file is imported by who uses that framework, and by nobody else."""
