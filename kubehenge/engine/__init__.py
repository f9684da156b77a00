"""The three loops over one database: watch, tick and apply (MODEL 23), and the decisions that people make."""
