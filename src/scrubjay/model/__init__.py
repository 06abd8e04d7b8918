"""What things are: plain typed models, enums and ids. No I/O; every other room may import this one."""
