"""MariaDB and MySQL: an output that writes each window once, and an input of tables that are appended to."""
